"""The events of a knowledge base: the changes that made it, each a class. Its content is the result of
applying them in order."""

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
    """Where a change comes from: the run and step, the candidate's code, the GPU with its architecture,
    the task with its family. None where unknown."""

    run: str | None = None
    step: int | None = None
    candidate: str | None = None
    gpu: str | None = None
    architecture: str | None = None
    task: str | None = None
    family: str | None = None


class StateAdded(Record):
    """A state was added. `discovered`: by a search, because a kernel's state matched no known one."""

    kind: Literal["state_added"] = "state_added"
    state: State
    discovered: bool = False


class OptimizationAdded(Record):
    """A technique became known in a state. Its predicted speedup counts as `weight` observations."""

    kind: Literal["optimization_added"] = "optimization_added"
    state: str
    optimization: Optimization
    weight: PositiveFloat


class PriorSet(Record):
    """What is expected of a technique before any attempt was replaced: the `predicted` speedup now counts as
    `weight` observations. The results of attempts are kept."""

    kind: Literal["prior_set"] = "prior_set"
    state: str
    technique: str
    predicted: PositiveFloat
    weight: PositiveFloat


class Observed(Record):
    """A technique was applied in a state, after the techniques in `before` had been applied; `result` is
    the log speedup or the kind of failure."""

    kind: Literal["observed"] = "observed"
    state: str
    technique: str
    result: Result
    before: tuple[str, ...] = ()


class EvidenceAdded(Record):
    """Results from elsewhere were added to the evidence of a technique, as sums (imported documents do not
    list single attempts)."""

    kind: Literal["evidence_added"] = "evidence_added"
    state: str
    technique: str
    evidence: Evidence


class Noted(Record):
    """A remark for people and models was added to a state or, if `technique` is given, to that technique in
    the state."""

    kind: Literal["noted"] = "noted"
    state: str
    technique: str | None = None
    note: str


class Revised(Record):
    """The words on a state were replaced or, if `technique` is given, those on that technique in it: its
    `description`, `preconditions` (of a technique) and `notes`. None leaves them as they are."""

    kind: Literal["revised"] = "revised"
    state: str
    technique: str | None = None
    description: str | None = None
    preconditions: tuple[str, ...] | None = None
    notes: tuple[str, ...] | None = None


class Exemplified(Record):
    """An exemplar (the source of a search's best candidate) was added to the state in which that search
    began."""

    kind: Literal["exemplified"] = "exemplified"
    state: str
    exemplar: Exemplar


class StatesMerged(Record):
    """The state `state` was merged into `into`: its name now stands for that state."""

    kind: Literal["states_merged"] = "states_merged"
    state: str
    into: str


class Retired(Record):
    """A technique is no longer offered in a state; `reason` is for people."""

    kind: Literal["retired"] = "retired"
    state: str
    technique: str
    reason: str


class Reweighed(Record):
    """The attempts counted in the evidence of these (state, technique) pairs are multiplied by `factor`
    (below 1), so that the evidence weighs less."""

    kind: Literal["reweighed"] = "reweighed"
    entries: tuple[tuple[str, str], ...]
    factor: float = Field(gt=0, lt=1)


class RolledBack(Record):
    """The knowledge base is as it was at `version`: all events recorded after that one, up to this one, no
    longer count."""

    kind: Literal["rolled_back"] = "rolled_back"
    version: int


class Reverted(Record):
    """The event of this `version` no longer counts, as if it had never been recorded; later ones still do."""

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
    """A recorded change of a knowledge base. `version` is its position among all events of this knowledge
    base, from 1; `uid` is its identity, the same in every knowledge base that it is copied to; `provenance`
    says which search made it."""

    version: int
    uid: str
    time: datetime
    change: Change
    provenance: Provenance


def effective(events: Sequence[KnowledgeEvent]) -> list[KnowledgeEvent]:
    """The events that count, in order: without those that were rolled back or reverted. A reverted revert
    has no effect."""
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
