"""Leases: records which device works on what, and how often the device's process was lost with it, so that a
candidate that crashes devices is given up."""

from collections import Counter
from typing import Protocol


class Leases(Protocol):
    """Interface: keeps count of how often the process of a device died while it worked on something. `work`
    is the hash `work_of` of a request, equal for equal requests."""

    def begin(self, work: str, about: str, owner: str) -> int:
        """Record that the device `owner` begins with a work; `about` says in words what it is. Returns how
        often a device's process was lost with this work before."""
        ...

    def end(self, work: str) -> None:
        """Notes that the work was done, or given up, and forgets how often processes were lost with it."""
        ...

    def release(self, work: str) -> None:
        """Notes that nobody works on this any more, because whoever asked for it has stopped; it counts
        neither as done nor as lost."""
        ...

    def lose(self, work: str, why: str) -> int:
        """Record that a device's process was lost while it worked on `work`, for the reason `why`; returns
        how often that has happened with this work."""
        ...


class PassingLeases:
    """Counts lost work (see `Leases`) in the memory of this process, which forgets it at its end."""

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
