"""A step of a search: one technique applied to one candidate, with its prediction and its result."""

from dataclasses import dataclass, replace
from functools import total_ordering
from math import exp, log
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, PlainSerializer

from kernelblaster.records.evaluation import Evaluation
from kernelblaster.records.outcome import CORRECT
from kernelblaster.records.record import Record


@total_ordering
@dataclass(frozen=True)
class StepId:
    """The position of a step in a search, as numbers from 0: the `iteration` of the search, the `rollout` in
    it, and the `number` of the step in the rollout. Several techniques may be tried there side by side;
    `choice` is the number of this one. If it failed, it may be attempted again; `retry` is 0 for the first
    attempt, then 1 and more. As text `0/1/2/0`, or `0/1/2/0.1` for a retry. Ordered by these numbers in this
    order."""

    iteration: int
    rollout: int
    number: int
    choice: int = 0
    retry: int = 0

    @classmethod
    def parse(cls, text: "str | StepId") -> "StepId":
        """The id in a text like `0/1/2/0.1`, the inverse of `str`; an id is returned as it is. Raises
        ValueError for anything else."""
        if isinstance(text, StepId):
            return text
        path, _, retry = text.partition(".")
        iteration, rollout, number, choice = (int(part) for part in path.split("/"))
        return cls(iteration, rollout, number, choice, int(retry or 0))

    def __str__(self) -> str:
        path = f"{self.iteration}/{self.rollout}/{self.number}/{self.choice}"
        return f"{path}.{self.retry}" if self.retry else path

    def __lt__(self, other: "StepId") -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[int, ...]:
        return self.iteration, self.rollout, self.number, self.choice, self.retry

    def retried(self, retry: int) -> "StepId":
        """The id of a further attempt at this step, number `retry` from 1, after the first one failed."""
        return replace(self, retry=retry)


@dataclass(frozen=True)
class Gained:
    """The result of a step whose new candidate (child) is correct. `log_speedup` is the natural logarithm of
    its speedup over the candidate it was made from (parent): negative if the child is slower."""

    log_speedup: float

    @property
    def speedup(self) -> float:
        return exp(self.log_speedup)


@dataclass(frozen=True)
class Failed:
    """The result of a step whose new candidate is not correct or was not judged; `kind` is the name of its
    outcome, like "CompileFailed"."""

    kind: str


StepResult = Gained | Failed


def parse_result(value: Any) -> StepResult:
    """Returns a step's result from its stored form `value`: a number is a log speedup, a text the kind of a
    failure. Raises ValueError for anything else."""
    if isinstance(value, Gained | Failed):
        return value
    if isinstance(value, str):
        return Failed(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Gained(float(value))
    raise ValueError(f"{value!r} is neither a log speedup nor the kind of a failure")


def stored_result(result: StepResult) -> float | str:
    """A step's result as it is stored, the inverse of `parse_result`: the log speedup, or the kind of
    failure."""
    return result.log_speedup if isinstance(result, Gained) else result.kind


def compare(child: Evaluation, parent: Evaluation) -> StepResult:
    """The result of the step from one candidate (judged in `parent`, and correct) to another (judged in
    `child`). It is Failed if the child is not correct. Otherwise it is Gained with the child's speedup over
    the parent: the child's speedup over the baseline divided by the parent's. Both are relative to the
    baseline, so a device that became slower between the two evaluations changes nothing."""
    if not isinstance(child.outcome, CORRECT):
        return Failed(child.outcome.kind)
    assert isinstance(parent.outcome, CORRECT)
    return Gained(log(child.outcome.speedup.estimate / parent.outcome.speedup.estimate))


class Step(Record):
    """One technique applied to one kernel of a candidate (the parent), which gives another candidate (the
    child). `kernel` was in the performance state named `state`, took `share` (0 to 1) of the parent's time,
    and computes something of `family` (like "scan"; None if unknown). `before` are the techniques that had
    been applied to get the parent. `predicted` is the expected speedup of child over parent, as a factor;
    `result` is the gain or the failure. `taken`: the search continued from the child. `id` says where in the
    search the step was made. `parent` and `child` are the codes (hashes) of the candidates."""

    id: Annotated[StepId, BeforeValidator(StepId.parse), PlainSerializer(str)] = Field(
        validation_alias=AliasChoices("id", "place")  # "place" in runs of version 1
    )
    state: str
    technique: str
    predicted: float
    result: Annotated[StepResult, BeforeValidator(parse_result), PlainSerializer(stored_result)]
    taken: bool
    kernel: str = ""
    share: float = 1.0
    family: str | None = None
    before: tuple[str, ...] = ()
    parent: str = ""
    child: str = ""

    @property
    def speedup(self) -> float | None:
        """The child's speedup over the parent, the candidate it was made from; None if the step failed."""
        return self.result.speedup if isinstance(self.result, Gained) else None

    @property
    def log_speedup(self) -> float | None:
        """The natural logarithm of `speedup`; None if the step failed."""
        return self.result.log_speedup if isinstance(self.result, Gained) else None

    @property
    def failure(self) -> str | None:
        """The name of the outcome of a child that failed, like "CompileFailed"; None for a correct child."""
        return self.result.kind if isinstance(self.result, Failed) else None
