"""The content of a knowledge base at one version: its performance states, and the techniques of each state.

Entries are immutable: a change replaces an entry by a new one. So copying a content is cheap, and a copy does
not change when the original does.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import exp, log

from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge.events import (
    Change,
    EvidenceAdded,
    Exemplified,
    KnowledgeEvent,
    Noted,
    Observed,
    OptimizationAdded,
    PriorSet,
    Provenance,
    Retired,
    Reverted,
    Revised,
    Reweighed,
    RolledBack,
    StateAdded,
    StatesMerged,
    effective,
)
from kernelblaster.knowledge.evidence import Evidence
from kernelblaster.knowledge.exemplar import Exemplar, with_exemplar
from kernelblaster.knowledge.posterior import Prediction, predict
from kernelblaster.records import Optimization, State
from kernelblaster.records.record import Record
from kernelblaster.records.step import parse_result


class StateEntry(Record):
    """What the knowledge base has about one performance state (what bounds a kernel, with its metrics).
    `discovered`: a search added it, while others come from the seed or an import. `notes` are remarks for
    people and models. `merged_into` names the state that this one was merged into, None if it was not merged.
    `exemplars` are the sources of the best candidates of searches that began in this state, the one nearest
    to the roofline floor first."""

    state: State
    discovered: bool = False
    notes: tuple[str, ...] = ()
    merged_into: str | None = None
    exemplars: tuple[Exemplar, ...] = ()


class OptimizationEntry(Record):
    """What the knowledge base has about one technique in one performance state: its `title` and description,
    and what is known of its gain. `preconditions` say what the technique needs. `prior` is the natural
    logarithm of the speedup expected before any attempt; it counts as much as `weight` observations.
    `evidence` has the results of all attempts. `notes` are remarks for people and models. `retired` says why
    the technique is no longer offered, None if it is offered."""

    state: str
    technique: str
    title: str
    description: str
    preconditions: tuple[str, ...] = ()
    prior: float
    weight: float
    evidence: Evidence = Evidence()
    notes: tuple[str, ...] = ()
    retired: str | None = None

    def prediction(
        self, architecture: str | None, applied: tuple[str, ...] = (), family: str | None = None
    ) -> Prediction:
        """Returns the prediction for one more attempt at the technique: the expected log speedup with its
        uncertainty, and the chance of a valid candidate. The attempt is on the GPU `architecture` (such as
        `sm_90a`), after the techniques `applied`, in a `family` of tasks (such as `scan`). None stands for
        any architecture or family. Without an architecture, only attempts timed on GPUs are used, or those
        timed by a model if there are no others (see `Evidence.of_one_clock`)."""
        evidence = self.evidence.of_one_clock if architecture is None else self.evidence
        return predict(self.prior, self.weight, evidence, architecture, applied, family)

    def scored(
        self, architecture: str | None, applied: tuple[str, ...] = (), family: str | None = None
    ) -> "Scored":
        """Returns the technique with its prediction for one more attempt on a GPU `architecture` (None: any),
        after the techniques `applied`, in a `family` of tasks (None: any). The `payoff` of the result (what
        the technique is worth because others gain more after it) is 0: it depends on other techniques and is
        computed elsewhere."""
        prediction = self.prediction(architecture, applied, family)
        optimization = Optimization.model_construct(
            technique=self.technique,
            title=self.title,
            description=self.description,
            preconditions=self.preconditions,
            predicted=exp(prediction.mean),
        )
        return Scored(optimization, prediction, self.notes)

    def untried(self) -> "OptimizationEntry":
        """Returns a copy of this entry without evidence, as if the technique had never been tried in this
        performance state."""
        return self.model_copy(update={"evidence": Evidence()})


@dataclass(frozen=True)
class Scored:
    """A technique (`optimization`) with its `prediction`: what is expected of it on a GPU architecture, in a
    family (kind of computation) of tasks, after certain other techniques. `notes` are the knowledge base's
    remarks on it. `payoff` is what applying it is worth beyond its own gain, because other techniques gain
    more after it, as the natural logarithm of a speedup."""

    optimization: Optimization
    prediction: Prediction
    notes: tuple[str, ...]
    payoff: float = 0.0

    @property
    def promise(self) -> float:
        """The natural logarithm of the speedup that an attempt is expected to bring, now and through
        techniques that gain more after it: `prediction.gain` plus `payoff`."""
        return self.prediction.gain + self.payoff


Key = tuple[str, str | None]
"""A state, or a technique in it."""


@dataclass
class Content:
    """All that a knowledge base has at one `version`, the number of its latest event (recorded change).
    `states` has what is known about each performance state, by the state's name. `entries` has what is known
    about each technique, by the name of the state and then of the technique. States that were merged into
    others are still there, with `merged_into` set."""

    version: int = 0
    states: dict[str, StateEntry] = field(default_factory=dict)
    entries: dict[str, dict[str, OptimizationEntry]] = field(default_factory=dict)

    def copy(self) -> "Content":
        """Returns a copy with the same performance states and techniques; changing the copy does not change
        this content."""
        return Content(self.version, dict(self.states), dict(self.entries))

    def resolve(self, state: str) -> str:
        """Returns the name under which a performance state is kept: `state` itself, or the name of the state
        that it was merged into. Raises KnowledgeError if the knowledge base has no state of this name."""
        if state not in self.states:
            near = get_close_matches(state, sorted(self.states), n=3)
            advice = f"did you mean {' or '.join(near)}?" if near else "`kernelblaster kb show` lists all."
            raise KnowledgeError(f"{state}: the knowledge base has no such state; {advice}")
        while (into := self.states[state].merged_into) is not None:
            state = into
        return state

    def entry(self, state: str, technique: str) -> OptimizationEntry:
        """Returns what is known about `technique` in `state`, or in the performance state that `state` was
        merged into. Raises KnowledgeError if the knowledge base does not have the state or does not have the
        technique in it."""
        name = self.resolve(state)
        if technique not in self.entries.get(name, {}):
            near = get_close_matches(technique, sorted(self.entries.get(name, {})), n=3)
            advice = f"; did you mean {' or '.join(near)}?" if near else "."
            raise KnowledgeError(f"{name}: has no technique {technique}{advice}")
        return self.entries[name][technique]

    def optimizations(
        self,
        state: str,
        architecture: str | None = None,
        applied: tuple[str, ...] = (),
        family: str | None = None,
    ) -> list[Scored]:
        """Returns the techniques of a performance state that are not retired, with their predictions for a
        GPU `architecture`, after the techniques `applied`, in a `family` (kind of computation) of tasks; None
        for either of the two stands for all of them together. The largest expected gain comes first. Raises
        KnowledgeError if the knowledge base has no such state."""
        entries = self.entries.get(self.resolve(state), {}).values()
        scored = [e.scored(architecture, applied, family) for e in entries if e.retired is None]
        return sorted(scored, key=lambda item: (-item.prediction.gain, item.optimization.technique))

    @property
    def living(self) -> list[StateEntry]:
        """The entries of all states that were not merged into others, sorted by the state's name."""
        return [entry for _, entry in sorted(self.states.items()) if entry.merged_into is None]

    @property
    def living_entries(self) -> Iterator[OptimizationEntry]:
        """Yields what is known about each technique in each performance state, for all states that were not
        merged into others."""
        for living in self.living:
            yield from self.entries.get(living.state.name, {}).values()

    def apply(self, change: Change, provenance: Provenance) -> set[Key]:
        """Applies a change to this content, in place. Returns the keys of what changed; none if the change
        adds nothing new. A key is (performance state, technique), or (state, None) for the state itself.
        `provenance` gives the GPU architecture and the task family of an observed result. Raises
        KnowledgeError if the change refers to a state or technique that the content does not have."""
        touched: set[Key] = set()
        match change:
            case StateAdded():
                touched = self._add_state(change)
            case OptimizationAdded():
                touched = self._add_optimization(change)
            case Noted():
                touched = self._note(change)
            case Revised():
                touched = self._revise(change)
            case Exemplified():
                touched = self._exemplify(self.resolve(change.state), change.exemplar)
            case StatesMerged():
                touched = self._merge(self.resolve(change.state), self.resolve(change.into))
            case Reweighed():
                touched = touched.union(*(self._reweigh(*names, change.factor) for names in change.entries))
            case PriorSet() | Observed() | EvidenceAdded() | Retired():
                touched = self._score(change, provenance)
            case RolledBack() | Reverted():
                raise AssertionError(f"{change.kind} is no change of content: it selects events")
        return touched

    def _score(
        self, change: PriorSet | Observed | EvidenceAdded | Retired, provenance: Provenance
    ) -> set[Key]:
        """Applies a change that concerns what a technique gains in one state: its prior, results of attempts,
        or its retirement. Returns the (state, technique) that changed."""
        entry = self.entry(change.state, change.technique)
        fields: dict[str, object]
        match change:
            case PriorSet():
                fields = {"prior": log(change.predicted), "weight": change.weight}
            case Observed():
                where = (provenance.architecture, provenance.family)
                result = parse_result(change.result)
                fields = {"evidence": entry.evidence.with_result(result, *where, change.before)}
            case EvidenceAdded():
                fields = {"evidence": entry.evidence.plus(change.evidence)}
            case Retired():
                fields = {"retired": change.reason}
        return self._put(entry.model_copy(update=fields))

    def _add_state(self, change: StateAdded) -> set[Key]:
        name = change.state.name
        if name in self.states:
            return set()
        self.states[name] = StateEntry(state=change.state, discovered=change.discovered)
        return {(name, None)}

    def _add_optimization(self, change: OptimizationAdded) -> set[Key]:
        name, optimization = self.resolve(change.state), change.optimization
        if optimization.technique in self.entries.get(name, {}):
            return set()
        fields = optimization.model_dump(exclude={"predicted"})
        prior = log(optimization.predicted)
        return self._put(OptimizationEntry(state=name, prior=prior, weight=change.weight, **fields))

    def _reweigh(self, state: str, technique: str, factor: float) -> set[Key]:
        """Multiply the counts in the evidence (results of attempts) of a technique in a state by `factor`;
        returns the entry's key."""
        entry = self.entry(state, technique)
        return self._put(entry.model_copy(update={"evidence": entry.evidence.times(factor)}))

    def _put(self, entry: OptimizationEntry) -> set[Key]:
        """Store the entry of a technique in a state, in place of an older one; returns its key (state,
        technique)."""
        self.entries[entry.state] = {**self.entries.get(entry.state, {}), entry.technique: entry}
        return {(entry.state, entry.technique)}

    def _note(self, change: Noted) -> set[Key]:
        name = self.resolve(change.state)
        if change.technique is not None:
            entry = self.entry(name, change.technique)
            return self._put(entry.model_copy(update={"notes": _with(entry.notes, change.note)}))
        return self._put_state(name, notes=_with(self.states[name].notes, change.note))

    def _revise(self, change: Revised) -> set[Key]:
        name = self.resolve(change.state)
        words = {"preconditions": change.preconditions, "notes": change.notes}
        given = {field: value for field, value in words.items() if value is not None}
        if change.technique is not None:
            described = {} if change.description is None else {"description": change.description}
            return self._put(self.entry(name, change.technique).model_copy(update=given | described))
        given.pop("preconditions", None)
        state = self.states[name].state
        if change.description is not None:
            state = state.model_copy(update={"description": change.description})
        return self._put_state(name, state=state, **given)

    def _exemplify(self, name: str, exemplar: Exemplar) -> set[Key]:
        return self._put_state(name, exemplars=with_exemplar(self.states[name].exemplars, exemplar))

    def _put_state(self, name: str, **fields: object) -> set[Key]:
        """Sets `fields` of the state `name` to new values. Returns the key under which that is saved, (name,
        None)."""
        self.states[name] = self.states[name].model_copy(update=fields)
        return {(name, None)}

    def _merge(self, name: str, into: str) -> set[Key]:
        """Merge the entries of the state `name` into those of `into`: evidence is added, notes are joined,
        exemplars compared. The entries also stay under the old name, so that it can be looked up. Returns the
        changed keys."""
        if name == into:
            return set()
        touched = self._put_state(name, merged_into=into)
        for exemplar in self.states[name].exemplars:
            touched |= self._exemplify(into, exemplar)
        for technique, entry in self.entries.get(name, {}).items():
            mine = self.entries.get(into, {}).get(technique)
            if mine is None:
                touched |= self._put(entry.model_copy(update={"state": into}))
                continue
            fields = {
                "evidence": mine.evidence.plus(entry.evidence),
                "notes": _with(mine.notes, *entry.notes),
                "retired": mine.retired if entry.retired is not None else None,
            }
            touched |= self._put(mine.model_copy(update=fields))
        return touched


def _with(notes: tuple[str, ...], *more: str) -> tuple[str, ...]:
    """Appends the texts in `more` to `notes`, leaving out those that `notes` has already."""
    return notes + tuple(note for note in more if note not in notes)


def content_of(events: Iterable[KnowledgeEvent]) -> Content:
    """Returns the content that results from applying these events in order, beginning with an empty content.
    Events that were rolled back or reverted are left out."""
    recorded = list(events)
    content = Content()
    for event in effective(recorded):
        if not isinstance(event.change, RolledBack | Reverted):
            content.apply(event.change, event.provenance)
    content.version = recorded[-1].version if recorded else 0
    return content
