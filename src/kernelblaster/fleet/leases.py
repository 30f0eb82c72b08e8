"""Leases of work: who works on what, and how often an owner was lost with it."""

from collections import Counter
from typing import Protocol


class Leases(Protocol):
    """Records work that is begun, ended and lost, by its identity (`work_of` a request)."""

    def begin(self, work: str, about: str, owner: str) -> int:
        """Record that an owner begins with a work; `about` says what it is, in words. Returns how often it
        was lost before."""
        ...

    def end(self, work: str) -> None:
        """Record that a work is done, or given up."""
        ...

    def release(self, work: str) -> None:
        """Record that a work was given back without being done, since whoever asked for it stops."""
        ...

    def lose(self, work: str, why: str) -> int:
        """Record that the owner of a work was lost; returns how often that has happened to it."""
        ...


class PassingLeases:
    """`Leases` of this process, which are forgotten when it ends."""

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
