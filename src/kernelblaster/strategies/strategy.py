"""What `optimize` needs of a strategy, and what a strategy that asks a model needs of where it works."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelblaster.policies.llm.surroundings import Surroundings
from kernelblaster.policies.policy import Attempt
from kernelblaster.records import Candidate, Evaluation, Step, Task
from kernelblaster.strategies.search import Search, Session


class Found(Protocol):
    """A correct candidate, and the techniques that led to it."""

    @property
    def attempt(self) -> Attempt: ...

    @property
    def evaluation(self) -> Evaluation: ...

    @property
    def applied(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Reached:
    """Implements `Found`."""

    attempt: Attempt
    evaluation: Evaluation
    applied: tuple[str, ...] = ()


class Strategy(Protocol):
    """One search. `steps` are those made so far, also while it runs and after it was stopped."""

    @property
    def steps(self) -> list[Step]: ...

    def run(self, task: Task) -> Found:
        """The best candidate that was found."""
        ...


class Workplace(Session, Surroundings, Protocol):
    """A session that a policy with a model can work in, too."""

    def ranked(self) -> list[tuple[Candidate, Evaluation]]:
        """Every correct candidate so far, the fastest first."""
        ...


Arrange = Callable[[Workplace, Search], Strategy]
"""Makes a strategy, with whoever plays its roles, for a session."""


def way_to(code: str, steps: Sequence[Step]) -> tuple[str, ...]:
    """The techniques that led to a candidate; none for one that no step led to."""
    found = next((step for step in steps if step.child == code and isinstance(step.result, float)), None)
    return (*found.before, found.technique) if found else ()
