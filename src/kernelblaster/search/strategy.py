"""The interface of strategies, the ways to search for a faster candidate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelblaster.records import Candidate, Evaluation, Step, Task
from kernelblaster.sessions.session import Session


@dataclass(frozen=True)
class Best:
    """What a search ends with: a correct candidate, its evaluation, and the techniques that led to it from
    the first candidate, in order (`applied`). `ended` says in words why the search went no further; empty if
    that is not known."""

    candidate: Candidate
    evaluation: Evaluation
    applied: tuple[str, ...] = ()
    ended: str = ""


class Strategy(Protocol):
    """Interface of one search for one task. `steps` are the steps made so far; they can be read while it
    runs, and after it was interrupted."""

    @property
    def steps(self) -> list[Step]: ...

    def run(self, task: Task) -> Best:
        """Searches for a faster candidate for `task` until the budget is spent or nothing is left to try, and
        returns the fastest correct candidate. Raises KernelBlasterError if no candidate is correct."""
        ...


StrategyMaker = Callable[[Session], Strategy]
"""Makes a strategy for a session, with whoever plays its roles."""


def path_to(code: str, steps: Sequence[Step]) -> tuple[str, ...]:
    """Returns the techniques that led from the first candidate to the one with this `code`, in order; empty
    if none of the search's `steps` led to it."""
    step = next((step for step in steps if step.child == code and step.failure is None), None)
    return (*step.before, step.technique) if step else ()
