"""The events of a knowledge base: the changes that it was made by, one class for each kind of change. What a
knowledge base contains is the result of applying its events in order."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, PositiveFloat

from kernelblaster.knowledge.evidence import Evidence
from kernelblaster.knowledge.exemplar import Exemplar
from kernelblaster.records import Optimization, State
from kernelblaster.records.record import Record

Failure = Literal["Inapplicable", "Incorrect", "CompileFailed", "RuntimeFailed", "TimedOut", "Rejected"]
Result = FiniteFloat | Failure
"""A log speedup of a correct candidate, or why there is none."""


class Provenance(Record):
    """Where a change of a knowledge base comes from: the name of the run, the number of the step, the
    candidate's code (16 hexadecimal digits), the GPU and its architecture, the task and its family (kind of
    computation). A field is None where this is unknown."""

    run: str | None = None
    step: int | None = None
    candidate: str | None = None
    gpu: str | None = None
    architecture: str | None = None
    task: str | None = None
    family: str | None = None


class StateAdded(Record):
    """Event of a knowledge base: a performance state was added. `discovered`: a search added it, because a
    kernel's state matched no known one; otherwise it comes from the shipped knowledge or an import."""

    kind: Literal["state_added"] = "state_added"
    state: State
    discovered: bool = False


class OptimizationAdded(Record):
    """Event of a knowledge base: a technique (`optimization`) was added to the performance state named
    `state`. The speedup that is predicted for it counts as much as `weight` observations."""

    kind: Literal["optimization_added"] = "optimization_added"
    state: str
    optimization: Optimization
    weight: PositiveFloat


class PriorSet(Record):
    """Event of a knowledge base: the prior of a technique in a performance state, which is the speedup
    expected before any attempt, was replaced. The new prior is `predicted`, and counts as much as `weight`
    observations. The results of attempts are kept."""

    kind: Literal["prior_set"] = "prior_set"
    state: str
    technique: str
    predicted: PositiveFloat
    weight: PositiveFloat


class Observed(Record):
    """Event of a knowledge base: the technique was tried in the performance state, after the techniques
    `before` had been applied. `result` is the natural logarithm of the speedup, or the kind of failure."""

    kind: Literal["observed"] = "observed"
    state: str
    technique: str
    result: Result
    before: tuple[str, ...] = ()


class EvidenceAdded(Record):
    """Event of a knowledge base: results from another source were added to what is known about a technique in
    a performance state. `evidence` has them as sums over attempts, because imported documents do not list
    single attempts."""

    kind: Literal["evidence_added"] = "evidence_added"
    state: str
    technique: str
    evidence: Evidence


class Noted(Record):
    """Event of a knowledge base: the remark `note`, for people and models, was added to a technique in a
    performance state, or to the state itself if `technique` is None."""

    kind: Literal["noted"] = "noted"
    state: str
    technique: str | None = None
    note: str


class Revised(Record):
    """Event of a knowledge base: texts on a technique in a performance state were replaced, or texts on the
    state itself if `technique` is None. Each of `description`, `preconditions` (only techniques have these)
    and `notes` is the new text, or None if it stays as it is."""

    kind: Literal["revised"] = "revised"
    state: str
    technique: str | None = None
    description: str | None = None
    preconditions: tuple[str, ...] | None = None
    notes: tuple[str, ...] | None = None


class Exemplified(Record):
    """Event of a knowledge base: an exemplar (the source of a search's best candidate) was added to the
    performance state in which that search began."""

    kind: Literal["exemplified"] = "exemplified"
    state: str
    exemplar: Exemplar


class StatesMerged(Record):
    """Event of a knowledge base: the performance state named `state` was merged into the state named `into`.
    From then on, both names stand for the latter."""

    kind: Literal["states_merged"] = "states_merged"
    state: str
    into: str


class Retired(Record):
    """Event of a knowledge base: a technique was retired in a performance state. From then on, the technique
    is not offered to searches in this state. `reason` says why, in words for people."""

    kind: Literal["retired"] = "retired"
    state: str
    technique: str
    reason: str


class Reweighed(Record):
    """Event of a knowledge base: the counts of attempts in the evidence of `entries`, which are (performance
    state, technique) pairs, were multiplied by `factor`, which is below 1, so that this evidence weighs
    less."""

    kind: Literal["reweighed"] = "reweighed"
    entries: tuple[tuple[str, str], ...]
    factor: float = Field(gt=0, lt=1)


class RolledBack(Record):
    """Event of a knowledge base: it was set back to what it was at `version`. The events recorded after that
    version and before this event no longer count."""

    kind: Literal["rolled_back"] = "rolled_back"
    version: int


class Reverted(Record):
    """Event of a knowledge base: the event number `version` no longer counts, as if it had never been
    recorded. Events after it still count."""

    kind: Literal["reverted"] = "reverted"
    version: int


Change = Annotated[
    StateAdded
    | OptimizationAdded
    | PriorSet
    | Observed
    | EvidenceAdded
    | Noted
    | Revised
    | Exemplified
    | StatesMerged
    | Retired
    | Reweighed
    | RolledBack
    | Reverted,
    Field(discriminator="kind"),
]
KNOWLEDGE = (
    StateAdded,
    OptimizationAdded,
    PriorSet,
    Observed,
    EvidenceAdded,
    Noted,
    Revised,
    Exemplified,
)
"""Changes that say something about kernels; the others only tidy one knowledge base."""


class KnowledgeEvent(Record):
    """A recorded `change` of a knowledge base, made at `time`. `version` is its number among all events of
    this knowledge base, from 1. `uid` identifies it, and stays the same in every knowledge base to which it
    is copied. `provenance` says which search made the change."""

    version: int
    uid: str
    time: datetime
    change: Change
    provenance: Provenance


def effective(events: Sequence[KnowledgeEvent]) -> list[KnowledgeEvent]:
    """Returns the events that count, in order: those that were neither rolled back nor reverted. If an event
    that reverts another one is itself reverted, that other one counts again."""
    for index in range(len(events) - 1, -1, -1):
        change = events[index].change
        if isinstance(change, RolledBack):
            kept = [event for event in events[:index] if event.version <= change.version]
            return _without_reverted(effective(kept) + list(events[index + 1 :]))
    return _without_reverted(events)


def _without_reverted(events: Sequence[KnowledgeEvent]) -> list[KnowledgeEvent]:
    """The events, in order, without those that a later event of kind Reverted takes back, unless that one was
    itself taken back."""
    dropped: set[int] = set()
    kept = []
    for event in reversed(events):
        if event.version in dropped:
            continue
        if isinstance(event.change, Reverted):
            dropped.add(event.change.version)
        kept.append(event)
    return kept[::-1]
