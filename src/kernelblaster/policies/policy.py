"""The interface between a search and a policy, which writes candidates, names the performance states of
kernels, and proposes what the knowledge base should learn: `Policy` and the data types of its methods."""

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
    """A candidate as a policy hands it to the search. `form` is the policy's own representation of it (a
    plan, a parsed source), which it needs to change the candidate further and nobody else looks into.
    `changed` are the names of the parent's kernels that were changed; `applied` the techniques that were
    applied to the parent (of a recipe, only those that could be applied). Both are empty for a first
    candidate."""

    candidate: Candidate
    form: Any
    changed: frozenset[str] = frozenset()
    applied: tuple[str, ...] = ()


@dataclass(frozen=True)
class Discrepancy:
    """The gain that the knowledge base expected of a technique in a state, against the measured one, both as
    natural logarithms of speedups. `measured` is the mean over the valid candidates and `interval` its
    confidence interval, both None if none was valid. `failures` counts failed attempts by kind; `samples` are
    all attempts, valid or not."""

    state: str
    technique: str
    expected: float
    measured: float | None
    interval: tuple[float, float] | None
    failures: Mapping[str, int]
    samples: tuple[Sample, ...]

    @property
    def count(self) -> int:
        """The number of attempts that were made, failures included."""
        return len(self.samples)

    @property
    def surprising(self) -> bool:
        """True if no attempt was valid, if more than half of them failed, or if the expected gain lies
        outside of `interval` and more than 10 % from the measured one."""
        if self.measured is None or self.interval is None or sum(self.failures.values()) * 2 > self.count:
            return True
        low, high = self.interval
        outside = not low <= self.expected <= high
        return outside and abs(self.measured - self.expected) > WORTH_SAYING


@dataclass(frozen=True)
class PolicyEvaluation:
    """How an iteration's results differ from what the knowledge base expected: `discrepancies`, the most
    instructive first, and a `remark` in words on what they have in common (empty if there is none)."""

    discrepancies: Sequence[Discrepancy]
    remark: str = ""


@dataclass(frozen=True)
class Gap:
    """The explanation of one discrepancy: a `cause` from the fixed list, a `sentence` for people, and the
    profiler metrics that changed (`moved`), each as (before, after). `lesson` is what the knowledge base is
    to remember of it, in words; if empty, a standard note on the cause."""

    discrepancy: Discrepancy
    cause: Cause
    sentence: str
    moved: Mapping[str, tuple[float, float]]
    lesson: str = ""

    @property
    def recorded(self) -> dict[str, object]:
        """The JSON data that a run's log keeps of this explanation; the samples behind it are left out."""
        about = {"state": self.discrepancy.state, "technique": self.discrepancy.technique}
        return {**about, "cause": self.cause, "sentence": self.sentence, "moved": dict(self.moved)}


class Policy(Protocol):
    """Interface of what writes candidates, names performance states and proposes what to learn; the search
    calls it and has its candidates judged. It must be deterministic: the same question has the same answer
    every time. `depth` is how much the profiler must collect before `targets` is called."""

    depth: Depth

    def initial(self, task: Task) -> Attempt:
        """The first candidate of a search for this task, meant to be correct and not yet fast. Raises
        KernelBlasterError if the policy has no implementation for the task."""
        ...

    def targets(self, attempt: Attempt, profile: Profile, floor_bytes: int) -> Sequence[Target]:
        """The kernels of a profiled candidate (`attempt`) that can be optimized, each with its share of the
        time and its performance state, the one with the largest possible gain first. `floor_bytes` is the
        least memory traffic, in bytes, that any implementation of the task needs."""
        ...

    def proposals(self, attempt: Attempt, target: Target, again: int = 0) -> Sequence[str]:
        """Names of the techniques that can be tried on the kernel `target` of a candidate; empty if there are
        none. `again` counts how often the search has already used up all techniques offered for the kernel; a
        policy that can think of more then offers more."""
        ...

    def moves(self, attempt: Attempt, technique: str, target: Target) -> Iterator[Attempt]:
        """The candidates that applying `technique` once to the kernel `target` of the candidate `attempt` can
        give, the most promising first; none if it does not apply. A candidate is written only when it is
        taken from the iterator. `technique` may be a recipe (several techniques in one step); a policy that
        cannot apply several at once then yields nothing."""
        ...

    def retry(
        self, parent: Attempt, technique: str, failed: Attempt, evaluation: Evaluation
    ) -> Attempt | None:
        """A corrected version of `failed`, which applied `technique` to `parent` and got this evaluation (for
        example a compiler error); None if the policy has none."""
        ...

    def summary(self, attempt: Attempt) -> str:
        """What the author of a candidate says that it does, in a sentence or two; empty if the author says
        nothing."""
        ...

    def evaluate(
        self, fresh: Sequence[Sample], earlier: Sequence[Sample], theta: Content, architecture: str
    ) -> PolicyEvaluation:
        """Policy evaluation: compares what was expected of each (state, technique) pair with the results in
        `fresh`, the attempts of this iteration, pooled with `earlier`, those of the replay buffer. `theta` is
        the knowledge base that the predictions came from; `architecture` (such as `sm_90a`) selects its
        scores."""
        ...

    def explain(self, evaluation: PolicyEvaluation, now: Content) -> Sequence[Gap]:
        """Gap analysis: a cause for each discrepancy in `evaluation` that is surprising, in the same order.
        `now` is the current knowledge base."""
        ...

    def update(self, evaluation: PolicyEvaluation, gaps: Sequence[Gap], now: Content) -> Sequence[Change]:
        """Parameter update: the changes to make to the knowledge base `now`, so that it keeps what was
        learned: the lessons of `gaps` and the evaluation's remark as notes, corrected priors (predicted
        speedups), new and revised entries. The measured gains themselves are recorded elsewhere."""
        ...
