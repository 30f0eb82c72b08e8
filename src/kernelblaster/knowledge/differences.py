"""Compares two contents of a knowledge base: performance states added and removed, techniques whose entries
differ."""

from math import exp

from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.records.record import Record


class Score(Record):
    """What a knowledge base predicts for a technique in a performance state, for all GPU architectures and
    tasks together. `speedup` is that of a valid candidate, `valid_chance` (0 to 1) the chance that an attempt
    gives one, and `attempts` the number of attempts behind both. `modelled`: there were attempts, and the
    times of all come from a model of a GPU."""

    speedup: float
    valid_chance: float
    attempts: float
    modelled: bool = False


class Changed(Record):
    """A technique whose entry in a performance state differs between two contents of a knowledge base.
    `before` is its score in the first content and `after` that in the second; None in a content that does not
    have the technique. `notes` are those that only the second content has. `retired` is the reason if the
    technique is retired in the second."""

    state: str
    technique: str
    before: Score | None
    after: Score | None
    notes: tuple[str, ...] = ()
    retired: str | None = None


class Difference(Record):
    """How a second content of a knowledge base differs from a first one: `states_added` are the names of
    performance states that only the second has, `states_removed` those that only the first has, and
    `techniques` are the techniques whose entries differ."""

    states_added: tuple[str, ...]
    states_removed: tuple[str, ...]
    techniques: tuple[Changed, ...]

    @property
    def empty(self) -> bool:
        return not (self.states_added or self.states_removed or self.techniques)


def difference(before: Content, after: Content) -> Difference:
    """Compares two contents, `before` and `after`, of two versions of a knowledge base or of two knowledge
    bases. Returns which performance states only one of them has, and which techniques differ. A state that
    was merged into another counts as absent."""
    old = {entry.state.name for entry in before.living}
    new = {entry.state.name for entry in after.living}
    changed = []
    for state in sorted(old | new):
        mine = before.entries.get(state, {}) if state in old else {}
        theirs = after.entries.get(state, {}) if state in new else {}
        for technique in sorted(mine.keys() | theirs.keys()):
            one, other = mine.get(technique), theirs.get(technique)
            if one != other:
                changed.append(_changed(state, technique, one, other))
    return Difference(
        states_added=tuple(sorted(new - old)),
        states_removed=tuple(sorted(old - new)),
        techniques=tuple(changed),
    )


def _changed(
    state: str, technique: str, one: OptimizationEntry | None, other: OptimizationEntry | None
) -> Changed:
    """The difference between the entries of a technique before (`one`) and after (`other`); an entry is None
    if the knowledge base did not have the technique then."""
    known = one.notes if one else ()
    return Changed(
        state=state,
        technique=technique,
        before=score(one) if one else None,
        after=score(other) if other else None,
        notes=tuple(note for note in (other.notes if other else ()) if note not in known),
        retired=other.retired if other else None,
    )


def score(entry: OptimizationEntry) -> Score:
    """Sums up what is known about a technique in a performance state: the predicted speedup, the chance of a
    valid candidate, the number of attempts, and whether all their times are modelled. All GPU architectures
    and families (kinds of computation) of tasks are taken together."""
    prediction = entry.prediction(None)
    return Score(
        speedup=exp(prediction.mean),
        valid_chance=prediction.valid_chance,
        attempts=entry.evidence.total.attempts,
        modelled=0 < entry.evidence.modelled == entry.evidence.total.attempts,
    )
