"""Leases: a lease records that a device works on a request. Leases also count how often a device's process
was lost with the same work, so that a candidate that crashes devices is given up."""

from collections import Counter
from typing import Protocol


class Leases(Protocol):
    """Interface: counts how often the process of a device was lost while it worked on something. `work` is a
    hash (`work_of`) that is equal for requests that ask for the same."""

    def begin(self, work: str, about: str, owner: str) -> int:
        """Records that the device `owner` begins with `work`, which `about` describes in words. Returns how
        often a device's process was lost with this work before."""
        ...

    def end(self, work: str) -> None:
        """Records that `work` was done or given up. How often a device's process was lost with it is
        forgotten."""
        ...

    def release(self, work: str) -> None:
        """Records that no device works on `work` any more, because whoever asked for it has stopped. How
        often a process was lost with it stays recorded."""
        ...

    def lose(self, work: str, why: str) -> int:
        """Record that a device's process was lost while it worked on `work`, for the reason `why`; returns
        how often that has happened with this work."""
        ...


class PassingLeases:
    """Leases without a record on disk: how often a device's process was lost with a piece of work is counted
    in the memory of this process, and forgotten when the process ends."""

    def __init__(self) -> None:
        self._lost: Counter[str] = Counter()

    def begin(self, work: str, about: str, owner: str) -> int:
        return self._lost[work]

    def end(self, work: str) -> None:
        self._lost.pop(work, None)

    def release(self, work: str) -> None:
        pass

    def lose(self, work: str, why: str) -> int:
        self._lost[work] += 1
        return self._lost[work]
