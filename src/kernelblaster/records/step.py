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
    """The position of a step in a search: iteration, rollout, number of the step in the rollout, choice among
    the techniques tried in parallel, and retry."""

    iteration: int
    rollout: int
    number: int
    choice: int = 0
    retry: int = 0

    @classmethod
    def parse(cls, text: "str | StepId") -> "StepId":
        """The inverse of `str`; ValueError for anything else."""
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
        """The same step, tried again for the `retry`-th time."""
        return replace(self, retry=retry)


@dataclass(frozen=True)
class Gained:
    """The child is correct. `log_speedup` is relative to the parent: negative if it is slower."""

    log_speedup: float

    @property
    def speedup(self) -> float:
        return exp(self.log_speedup)


@dataclass(frozen=True)
class Failed:
    """The child is not correct, or was not judged; `kind` is the name of its outcome."""

    kind: str


StepResult = Gained | Failed


def parse_result(value: Any) -> StepResult:
    """A result from its stored form: a number, or the kind of a failure."""
    if isinstance(value, Gained | Failed):
        return value
    if isinstance(value, str):
        return Failed(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Gained(float(value))
    raise ValueError(f"{value!r} is neither a log speedup nor the kind of a failure")


def stored_result(result: StepResult) -> float | str:
    """The inverse of `parse_result`."""
    return result.log_speedup if isinstance(result, Gained) else result.kind


def compare(child: Evaluation, parent: Evaluation) -> StepResult:
    """The result of a step from a correct parent. Both were timed against the same baseline, so that changes
    of the device's speed cancel."""
    if not isinstance(child.outcome, CORRECT):
        return Failed(child.outcome.kind)
    assert isinstance(parent.outcome, CORRECT)
    return Gained(log(child.outcome.speedup.estimate / parent.outcome.speedup.estimate))


class Step(Record):
    """`kernel`, in `state` and of `family`, took `share` of the parent's time; `before` are the techniques
    that led to the parent. `predicted` is a speedup over the parent. `taken`: the rollout continued from the
    child. `parent` and `child` are the `code` of candidates."""

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
        """Over the parent; None if the step failed."""
        return self.result.speedup if isinstance(self.result, Gained) else None

    @property
    def log_speedup(self) -> float | None:
        """The logarithm of `speedup`."""
        return self.result.log_speedup if isinstance(self.result, Gained) else None

    @property
    def failure(self) -> str | None:
        """The kind of failure; None for a correct child."""
        return self.result.kind if isinstance(self.result, Failed) else None
