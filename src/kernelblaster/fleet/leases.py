"""Leases: records which device works on what, and how often the device's process was lost with it, so that a
candidate that crashes devices is given up."""

from collections import Counter
from typing import Protocol


class Leases(Protocol):
    """Interface: records work that is begun, ended and lost. A work is identified by the hash `work_of` a
    request."""

    def begin(self, work: str, about: str, owner: str) -> int:
        """Record that the device `owner` begins with a work; `about` says in words what it is. Returns how
        often a device's process was lost with this work before."""
        ...

    def end(self, work: str) -> None:
        """Record that a work is done, or given up, and forget how often it was lost."""
        ...

    def release(self, work: str) -> None:
        """Record that a work was given back without being done, since whoever asked for it stops."""
        ...

    def lose(self, work: str, why: str) -> int:
        """Record that a device's process was lost while it worked on `work`, for the reason `why`; returns
        how often that has happened with this work."""
        ...


class PassingLeases:
    """`Leases` in the memory of this process, which are forgotten when it ends."""

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
