"""The interface of strategies: ways to search for a faster candidate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelblaster.records import Candidate, Evaluation, Step, Task
from kernelblaster.sessions.session import Session


@dataclass(frozen=True)
class Best:
    """The correct candidate that a search ends with, its evaluation, and the techniques that led to it,
    in order. `ended` is why the search went no further, in words; empty if that is not known."""

    candidate: Candidate
    evaluation: Evaluation
    applied: tuple[str, ...] = ()
    ended: str = ""


class Strategy(Protocol):
    """Interface of one search. `steps` are those made so far; they can be read while it runs and after it was
    interrupted."""

    @property
    def steps(self) -> list[Step]: ...

    def run(self, task: Task) -> Best:
        """Search until the budget is spent or nothing is left to try. Raises KernelBlasterError if there is
        no correct candidate."""
        ...


StrategyMaker = Callable[[Session], Strategy]
"""Makes a strategy for a session, with whoever plays its roles."""


def path_to(code: str, steps: Sequence[Step]) -> tuple[str, ...]:
    """The techniques that were applied, in order, to get from the first candidate to the one with this
    `code`. `steps` are those of the search; empty if none led to it."""
    step = next((step for step in steps if step.child == code and step.failure is None), None)
    return (*step.before, step.technique) if step else ()
