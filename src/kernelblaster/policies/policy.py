"""Defines `Policy`, the interface between a search and a policy, which writes candidates, names the
performance states of kernels, and proposes what the knowledge base should learn; and the data types of its
methods."""

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
    """A candidate as a policy hands it to the search. `form` is the policy's own representation of the
    candidate (a plan, a parsed source), from which the policy changes it further; the search only passes it
    back. `changed` are the names of those kernels of the parent candidate that were changed; `applied` are
    the techniques that were applied to the parent (of a recipe, those that could be applied). Both are empty
    for a first candidate."""

    candidate: Candidate
    form: Any
    changed: frozenset[str] = frozenset()
    applied: tuple[str, ...] = ()


@dataclass(frozen=True)
class Discrepancy:
    """How far the measured gain of a `technique` in a `state` is from what the knowledge base expected. Gains
    are natural logarithms of speedups. `expected` is the knowledge base's; `measured` is the mean over the
    attempts that gave a valid candidate, and `interval` its confidence interval; both are None if there was
    none. `failures` counts failed attempts by kind. `samples` are all attempts, failed ones included."""

    state: str
    technique: str
    expected: float
    measured: float | None
    interval: tuple[float, float] | None
    failures: Mapping[str, int]
    samples: tuple[Sample, ...]

    @property
    def count(self) -> int:
        """The number of attempts, failed ones included."""
        return len(self.samples)

    @property
    def surprising(self) -> bool:
        """True if no attempt gave a valid candidate, if more than half of the attempts failed, or if the
        expected gain lies outside of `interval` (the confidence interval of the measured one) and differs
        from the measured one by more than 10 % in speedup."""
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
    """The explanation of one discrepancy. `cause` is one of a fixed list; `sentence` explains it to people.
    `moved` has the profiler metrics that changed, each as (before, after). `lesson` is what the knowledge
    base should remember, in words; if it is empty, the knowledge base gets a standard note for the cause."""

    discrepancy: Discrepancy
    cause: Cause
    sentence: str
    moved: Mapping[str, tuple[float, float]]
    lesson: str = ""

    @property
    def recorded(self) -> dict[str, object]:
        """The part of this explanation that a run's log keeps, as JSON data: performance state, technique,
        cause, sentence, and the metrics that changed."""
        about = {"state": self.discrepancy.state, "technique": self.discrepancy.technique}
        return {**about, "cause": self.cause, "sentence": self.sentence, "moved": dict(self.moved)}


class Policy(Protocol):
    """Interface of a policy: it writes candidates, names performance states and proposes what to learn. The
    search calls its methods and has its candidates judged. A policy must be deterministic: the same call
    gives the same result each time. `depth` is how much the profiler must collect for `targets`: `quick`
    (what states are named from), `usual` (with the profiler's advice) or `detailed` (counts by
    instruction)."""

    depth: Depth

    def initial(self, task: Task) -> Attempt:
        """Returns the first candidate of a search for this task, meant to be correct and not yet fast. Raises
        KernelBlasterError if the policy cannot write one for the task."""
        ...

    def targets(self, attempt: Attempt, profile: Profile, floor_bytes: int) -> Sequence[Target]:
        """Returns those kernels of the candidate `attempt` (its profile is `profile`) that can be optimized,
        each with its share of the time and its performance state. The kernel with the largest possible gain
        for the whole call comes first. `floor_bytes` is the least memory traffic, in bytes, of any
        implementation of the task."""
        ...

    def proposals(self, attempt: Attempt, target: Target, again: int = 0) -> Sequence[str]:
        """Returns the names of the techniques that can be tried on the kernel `target` of the candidate
        `attempt`; empty if there are none. `again` counts how often the search has used up all techniques
        offered for this kernel; a policy that can think of more (a language model) then offers more."""
        ...

    def moves(self, attempt: Attempt, technique: str, target: Target) -> Iterator[Attempt]:
        """Yields the candidates that one application of `technique` to the kernel `target` of the candidate
        `attempt` can give, the most promising first; nothing if the technique does not apply. Each candidate
        is written only when the iterator reaches it. `technique` may be a recipe (several techniques in one
        step); a policy that cannot apply several at once then yields nothing."""
        ...

    def retry(
        self, parent: Attempt, technique: str, failed: Attempt, evaluation: Evaluation
    ) -> Attempt | None:
        """Returns a corrected version of `failed`, the candidate in which `technique` was applied to `parent`
        and which got this evaluation (for example a compiler error). None if the policy cannot correct it."""
        ...

    def summary(self, attempt: Attempt) -> str:
        """Returns the description that the author of the candidate `attempt` has given of it, in a sentence
        or two; empty if there is none."""
        ...

    def evaluate(
        self, fresh: Sequence[Sample], earlier: Sequence[Sample], theta: Content, architecture: str
    ) -> PolicyEvaluation:
        """Policy evaluation: returns how far the results of each (performance state, technique) pair are from
        what was expected. The results are those of `fresh`, the attempts of this iteration, and of `earlier`,
        the steps of the replay buffer (earlier runs), taken together. `theta` is the knowledge base in which
        the expectations are looked up, for the GPU `architecture` (such as `sm_90a`)."""
        ...

    def explain(self, evaluation: PolicyEvaluation, now: Content) -> Sequence[Gap]:
        """Gap analysis: returns an explanation for each surprising discrepancy in `evaluation`, in the same
        order. `now` is the current knowledge base."""
        ...

    def update(self, evaluation: PolicyEvaluation, gaps: Sequence[Gap], now: Content) -> Sequence[Change]:
        """Parameter update: returns the changes to make to the knowledge base `now` so that it keeps what was
        learned. They are notes (the lessons of `gaps` and the evaluation's remark), corrected priors
        (expected speedups), and new and revised entries. The results of the attempts themselves are recorded
        elsewhere, as evidence."""
        ...
