"""What strategies share: settings, the session they work in, and what they ask of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, Literal, Protocol

from pydantic import Field

from kernelblaster.knowledge.content import Content, Scored
from kernelblaster.knowledge.events import Change
from kernelblaster.policies.policy import Gap, Sample, Target
from kernelblaster.records import Candidate, Evaluation, Profile, Step
from kernelblaster.records.outcome import CORRECT
from kernelblaster.records.profile import Depth
from kernelblaster.records.record import Record


class Search(Record):
    """How far a search goes. All its choices follow from `seed`.

    Of `rollouts` side by side, each makes up to `steps` steps in each of the `iterations`, and tries
    `choices` techniques at each; a failed one `retries` times more. A rollout ends after `patience` steps
    without a gain; everything ends within `near_floor` of the floor. `evaluations` candidates may be
    judged, in `wall_seconds` of which they may hold the device for `gpu_seconds`. After an iteration the
    `explained` most surprising results are profiled, so that there is something to explain them by.
    Techniques are drawn
    with a chance in proportion to predicted gain to the power `sharpness` (1 is the paper's), or by
    Thompson sampling.
    """

    iterations: int = Field(default=10, ge=1)
    rollouts: int = Field(default=2, ge=1)
    steps: int = Field(default=10, ge=1)
    choices: int = Field(default=2, ge=1)
    retries: int = Field(default=1, ge=0)
    patience: int = Field(default=2, ge=1)
    evaluations: int = Field(default=60, ge=1)
    wall_seconds: float | None = Field(default=None, gt=0)
    gpu_seconds: float | None = Field(default=None, gt=0)
    near_floor: float = Field(default=1.05, ge=1)
    explained: int = Field(default=4, ge=0)
    selection: Literal["weighted", "thompson"] = "weighted"
    sharpness: float = Field(default=2.0, gt=0)
    seed: int = 0


@dataclass(frozen=True)
class Trial:
    """A step that is about to be judged; its fields are those of `Step`."""

    place: str
    state: str
    technique: str
    predicted: float
    candidate: Candidate


class Session(Protocol):
    """Where a search works. Everything that it returns was recorded, so that a search which is begun
    again goes the same way."""

    @property
    def architecture(self) -> str: ...

    @property
    def floor_bytes(self) -> int: ...

    @property
    def evaluations_left(self) -> int: ...

    def theta(self, iteration: int) -> Content:
        """The knowledge base as it was when this iteration began."""
        ...

    def now(self) -> Content:
        """The knowledge base as it is."""
        ...

    def once(self, kind: str, key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]: ...

    def first(self, candidate: Candidate) -> Evaluation:
        """Judge what a search starts from."""
        ...

    def evaluate(self, key: str, trials: Sequence[Trial]) -> list[Evaluation | None]:
        """Judged together, in the order of the trials; None for those that the budget does not allow."""
        ...

    def profile(self, candidates: Sequence[Candidate], depth: Depth = "usual") -> list[Profile | None]:
        """Profiles of candidates that were found correct, together; None where profiling failed. What was
        profiled once is not profiled again, at whatever depth."""
        ...

    def options(
        self,
        theta: Content,
        target: Target,
        techniques: Sequence[str],
        applied: tuple[str, ...],
        place: Evaluation,
    ) -> tuple[str, list[Scored]]:
        """The name of the known state that the target is in, and what theta expects of these techniques
        in it, and of the recipes that it knows for such a target at such a place. What is not known yet
        is added, with a prior that says little."""
        ...

    def learn(self, key: str, steps: Sequence[Step]) -> None:
        """Credit to the states before the steps; failures are evidence too."""
        ...

    def remember(self, key: str, step: Step) -> None:
        """A recipe that led from the first candidate to the best so far, as one step."""
        ...

    def replay(self, steps: Sequence[Step]) -> list[Sample]:
        """Steps of this run with the evaluations on both sides."""
        ...

    @property
    def earlier(self) -> list[Sample]:
        """Steps of earlier runs that taught the same knowledge base."""
        ...

    def update(
        self, iteration: int, found: Callable[[Content], tuple[Sequence[Gap], Sequence[Change]]]
    ) -> None:
        """Change the knowledge base by what was found out after an iteration."""
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
