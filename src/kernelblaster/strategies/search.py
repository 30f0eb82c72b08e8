"""What strategies share: settings, the session they work in, and the steps they make."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any, Protocol

from kernelblaster.knowledge.content import Content, Scored
from kernelblaster.records import Candidate, Evaluation, State
from kernelblaster.records.outcome import CORRECT
from kernelblaster.records.record import Record


class Search(Record):
    """How far a search goes. All its choices follow from `seed`. `choices` is how many techniques are
    tried at each step; `evaluations` how many candidates may be judged."""

    iterations: int = 3
    rollouts: int = 2
    steps: int = 8
    choices: int = 2
    evaluations: int = 60
    seed: int = 0


class BudgetSpent(Exception):
    """No more candidates may be judged."""


@dataclass(frozen=True)
class Step:
    """One technique applied to one candidate. `result` is the log speedup over that candidate, or the
    kind of failure."""

    place: str
    state: str
    technique: str
    predicted: float
    result: float | str
    taken: bool


class Session(Protocol):
    """Where a search works. Everything that it returns was recorded, so that a search which is begun
    again goes the same way."""

    @property
    def architecture(self) -> str: ...

    @property
    def floor_bytes(self) -> int: ...

    def evaluate(self, candidate: Candidate) -> Evaluation:
        """Judged and profiled; BudgetSpent if there is nothing left to spend."""
        ...

    def theta(self, iteration: int) -> Content:
        """The knowledge base as it was when this iteration began."""
        ...

    def once(self, kind: str, key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]: ...

    def options(
        self, theta: Content, state: State, techniques: tuple[str, ...], applied: tuple[str, ...]
    ) -> tuple[str, list[Scored]]:
        """The name of the known state that this one is, and what theta expects of these techniques in
        it. What is not known yet is added, with a prior that says little."""
        ...

    def learn(self, step: Step, before: tuple[str, ...], parent: Candidate, child: Candidate) -> None:
        """Credit to the state before the step; failures are evidence too. The same step from the same
        candidate is evidence once, however many rollouts come along it."""
        ...

    def good_enough(self, evaluation: Evaluation) -> bool:
        """Whether a candidate is so near its floor that nothing is left to gain."""
        ...


def gain(new: Evaluation, old: Evaluation) -> float | str:
    """The log speedup of one correct candidate over another, or how the new one failed. Both were timed
    beside the same baseline, which takes out how the device felt that day."""
    if not isinstance(new.outcome, CORRECT):
        return new.outcome.kind
    assert isinstance(old.outcome, CORRECT)
    return log(new.outcome.speedup.estimate / old.outcome.speedup.estimate)
