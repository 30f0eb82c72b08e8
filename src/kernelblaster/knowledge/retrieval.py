"""Finds the techniques, notes and example sources that a knowledge base has for a kernel, from the kernel's
own performance state and from similar ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelblaster.knowledge.content import Content, OptimizationEntry, Scored
from kernelblaster.knowledge.evidence import UNKNOWN, Evidence
from kernelblaster.knowledge.exemplar import Exemplar
from kernelblaster.knowledge.guess import GUESS_WEIGHT, guesses
from kernelblaster.knowledge.matching import MATCH, distance, nearest, nearness
from kernelblaster.knowledge.tally import total
from kernelblaster.records import State
from kernelblaster.records.recipe import is_recipe

NEARBY = "nearby"  # evidence from other states stands under this name, as if from another architecture
OTHER_BOTTLENECK = 1.0  # the least distance of a state with another primary bottleneck


def known_state(content: Content, state: State, within: float = MATCH) -> str | None:
    """Returns the name of the known state that matches `state`. That is the state of the same name (or the
    one that it was merged into); if there is none, the nearest state, if its `distance` (0 is equal) is at
    most `within`. None if no state is that near."""
    if state.name in content.states:
        return content.resolve(state.name)
    near = nearest(state, [entry.state for entry in content.living])
    return near.state.name if near is not None and near.distance <= within else None


@dataclass(frozen=True)
class Precedent:
    """What is known about a technique in one performance state of the knowledge base (`entry`), and the
    distance of that state from the state of the kernel in question: 0 if it is the same, below 2 always."""

    entry: OptimizationEntry
    distance: float


@dataclass(frozen=True)
class Retrieved:
    """A technique that was retrieved for a kernel's performance state. `scored` has its prediction in that
    state; `precedents` has what is known about it in that state and in others, the nearest state first."""

    scored: Scored
    precedents: tuple[Precedent, ...]

    @property
    def technique(self) -> str:
        return self.scored.optimization.technique


@dataclass(frozen=True)
class RetrievedExemplar:
    """An exemplar (the source of a search's best candidate) that was retrieved for a kernel's performance
    state. `state` is the known state in which the exemplar's search began. `distance` tells how far that
    state is from the kernel's: 0 is equal, and below 2 always."""

    exemplar: Exemplar
    state: str
    distance: float


class Neighbourhood:
    """What the knowledge base `content` has on the performance state of one kernel and on similar states.
    `name` is the known state that matches the kernel's state, None if none does (see `known_state`). Results
    in other states count less, the further these states are (see `nearness`)."""

    def __init__(self, content: Content, state: State) -> None:
        self._content = content
        self._state = state
        self.name = known_state(content, state)

    @cached_property
    def distances(self) -> dict[str, float]:
        """How far each known performance state is from the kernel's state, by the name of the known state,
        the nearest first. Distances are those of matching.py, from 0 (equal) to below 2. The known state
        `name`, which matches the kernel's, always has 0."""
        found = {
            entry.state.name: 0.0 if entry.state.name == self.name else distance(self._state, entry.state)
            for entry in self._content.living
        }
        return dict(sorted(found.items(), key=lambda item: (item[1], item[0])))

    def precedents(self, technique: str) -> list[Precedent]:
        """Returns what is known about `technique` in each performance state in which it is offered (not
        retired), the nearest state first."""
        known = ((self._content.entries.get(name, {}), far) for name, far in self.distances.items())
        entries = ((entries.get(technique), far) for entries, far in known)
        return [Precedent(entry, far) for entry, far in entries if entry and entry.retired is None]

    def completed(self, entry: OptimizationEntry) -> OptimizationEntry:
        """Returns `entry` (what is known about a technique in the kernel's performance state), completed for
        predictions. If the technique was tried in that state, or is a recipe (several techniques in one
        step), that is `entry` unchanged. Otherwise the results that the technique had in other states are
        added to its evidence, weighted by nearness."""
        if entry.evidence.total.attempts >= 1 or is_recipe(entry.technique):
            return entry
        others = [p for p in self.precedents(entry.technique) if p.entry.state != entry.state]
        tally = total([p.entry.evidence.total.times(nearness(p.distance)) for p in others])
        if not tally.attempts:
            return entry
        nearby = Evidence(gains={NEARBY: {UNKNOWN: tally}})
        return entry.model_copy(update={"evidence": entry.evidence.plus(nearby)})

    def techniques(
        self, architecture: str | None, applied: tuple[str, ...] = (), family: str | None = None
    ) -> list[Retrieved]:
        """Returns techniques for the kernel, each with its prediction and with what is known about it in each
        performance state. They are the techniques that are offered (1) in the kernel's own state, (2) in
        another state with the same primary bottleneck, or (3) in any other state where they gained something.
        The largest expected gain comes first. Recipes (several techniques in one step) and techniques retired
        in the kernel's state are left out. Predictions are for a GPU `architecture` and a `family` of tasks
        (None: any), after the techniques `applied`."""
        own = self._content.entries.get(self.name or "", {})
        names = dict.fromkeys(name for name in self._names() if name not in own or own[name].retired is None)
        unknown = [name for name in names if name not in own]
        expected = guesses(self._content, self._state, unknown, architecture, family)
        retrieved = []
        for name in names:
            precedents = self.precedents(name)
            entry = own.get(name) or self._unknown(precedents[0].entry, expected[name])
            scored = self.completed(_described(entry, precedents)).scored(architecture, applied, family)
            retrieved.append(Retrieved(scored, tuple(precedents)))
        return sorted(retrieved, key=lambda one: (-one.scored.prediction.gain, one.technique))

    def notes(self) -> list[tuple[str, str]]:
        """Returns (performance state, note) for the notes on the kernel's state and on those with the same
        primary bottleneck: the nearest state first, and the latest note of each state first."""
        near = [name for name, far in self.distances.items() if far < OTHER_BOTTLENECK]
        return [(name, note) for name in near for note in reversed(self._content.states[name].notes)]

    def exemplars(
        self, family: str | None, techniques: Sequence[str], unlike: Sequence[str] = ()
    ) -> list[RetrievedExemplar]:
        """Returns the exemplars (sources of searches' best candidates) that have something in common with the
        kernel in question: its `family` (not considered if None), its primary bottleneck, or one of the
        `techniques`. Each comes with the state in which its search began, and the distance of that state from
        the kernel's. Exemplars with most in common come first. Those whose source is one of the texts
        `unlike` are left out."""
        ranked: list[tuple[float, RetrievedExemplar]] = []
        for name, far in self.distances.items():
            for one in self._content.states[name].exemplars:
                shared = len(set(techniques) & set(one.techniques))
                kin = family is not None and one.family == family
                if one.source not in unlike and (kin or shared or far < OTHER_BOTTLENECK):
                    score = 2.0 * kin + min(shared, 2) + nearness(far) + min(one.reach, 1.0)
                    ranked.append((score, RetrievedExemplar(one, name, far)))
        return [one for _, one in sorted(ranked, key=lambda pair: (-pair[0], pair[1].exemplar.source))]

    def _names(self) -> Iterator[str]:
        """The names of the techniques to retrieve, those of the nearest states first."""
        for name, far in self.distances.items():
            for technique, entry in self._content.entries.get(name, {}).items():
                gained = entry.evidence.total.seen > 0 and entry.evidence.total.mean > 0
                offered = entry.retired is None and (far < OTHER_BOTTLENECK or gained)
                if offered and not is_recipe(technique):
                    yield technique

    def _unknown(self, entry: OptimizationEntry, mean: float) -> OptimizationEntry:
        """The entry that a technique of another state would have in this one: its description, with a guessed
        log speedup (`mean`) and no attempts."""
        guess = {"state": self.name or self._state.name, "prior": mean, "weight": GUESS_WEIGHT}
        return entry.model_copy(update={**guess, "evidence": Evidence(), "notes": ()})


def _described(entry: OptimizationEntry, precedents: Sequence[Precedent]) -> OptimizationEntry:
    """The entry; if its own description is empty, with that of the nearest state that has one, and its
    preconditions."""
    words = next((p.entry for p in precedents if p.entry.description), None)
    if entry.description or words is None:
        return entry
    needs = entry.preconditions or words.preconditions
    return entry.model_copy(update={"description": words.description, "preconditions": needs})
