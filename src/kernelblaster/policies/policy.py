"""What a strategy asks of a policy: who writes candidates, names their states, and says what to learn."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, Literal, Protocol

from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.events import Change
from kernelblaster.records import Candidate, Evaluation, Profile, Target, Task
from kernelblaster.records.profile import Depth
from kernelblaster.store.replay import Sample

WORTH_SAYING = log(1.1)  # a smaller difference from what was expected is none

Cause = Literal[
    "compile-error",
    "wrong-result",
    "resources-exceeded",
    "crashed",
    "rejected",
    "needs-preparation",
    "small-share",
    "spills",
    "occupancy-fell",
    "more-traffic",
    "less-busy",
    "bottleneck-stayed",
    "bottleneck-changed",
    "bottleneck-removed",
    "unexplained",
]


@dataclass(frozen=True)
class Attempt:
    """A candidate, with the form in which its policy can go on from it. `changed` names the kernels of
    its parent that it changes, `applied` the techniques that it is the result of: of a recipe, those
    that applied."""

    candidate: Candidate
    form: Any
    changed: frozenset[str] = frozenset()
    applied: tuple[str, ...] = ()


@dataclass(frozen=True)
class Discrepancy:
    """What a technique was expected to gain in a state against what it gained, as log speedups.
    `measured` and its `interval` are of the valid candidates; None where there are none."""

    state: str
    technique: str
    expected: float
    measured: float | None
    interval: tuple[float, float] | None
    failures: Mapping[str, int]
    samples: tuple[Sample, ...]

    @property
    def count(self) -> int:
        return len(self.samples)

    @property
    def surprising(self) -> bool:
        """Whether failures are the rule, or the expected gain lies outside of what was measured."""
        if self.measured is None or self.interval is None or sum(self.failures.values()) * 2 > self.count:
            return True
        low, high = self.interval
        outside = not low <= self.expected <= high
        return outside and abs(self.measured - self.expected) > WORTH_SAYING


@dataclass(frozen=True)
class Gap:
    """Why a discrepancy is: a cause for machines, a sentence for people, and the metrics that moved,
    each before and after."""

    discrepancy: Discrepancy
    cause: Cause
    sentence: str
    moved: Mapping[str, tuple[float, float]]

    @property
    def recorded(self) -> dict[str, object]:
        """What a run keeps of it."""
        about = {"state": self.discrepancy.state, "technique": self.discrepancy.technique}
        return {**about, "cause": self.cause, "sentence": self.sentence, "moved": dict(self.moved)}


class Policy(Protocol):
    """The same question has the same answer every time. `depth` is how much of a profile it reads."""

    depth: Depth

    def initial(self, task: Task) -> Attempt:
        """A correct candidate to begin with."""
        ...

    def targets(self, attempt: Attempt, profile: Profile, floor_bytes: int) -> Sequence[Target]:
        """The kernels of a candidate, the one most worth optimizing first."""
        ...

    def proposals(self, attempt: Attempt, target: Target) -> Sequence[str]:
        """Techniques that can be tried on a kernel."""
        ...

    def moves(self, attempt: Attempt, technique: str, target: Target) -> Iterator[Attempt]:
        """What one application of a technique to a kernel gives, the most promising first. Only what is
        taken from the iterator is written. A recipe is a technique too; a policy that cannot take several
        in one step gives nothing."""
        ...

    def retry(
        self, parent: Attempt, technique: str, failed: Attempt, evaluation: Evaluation
    ) -> Attempt | None:
        """Another try at the same after a failure, knowing what was said about it."""
        ...

    def evaluate(
        self, fresh: Sequence[Sample], earlier: Sequence[Sample], theta: Content, architecture: str
    ) -> Sequence[Discrepancy]:
        """Policy evaluation: expected against measured, by state and technique, for what an iteration
        tried, with what the replay buffer holds of it from before."""
        ...

    def explain(self, discrepancies: Sequence[Discrepancy], now: Content) -> Sequence[Gap]:
        """Gap analysis: why the surprising ones are so, and which assumption was wrong."""
        ...

    def update(self, gaps: Sequence[Gap], now: Content) -> Sequence[Change]:
        """Parameter update: what the knowledge base should hold beyond the observations themselves."""
        ...
