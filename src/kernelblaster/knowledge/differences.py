"""The difference between two contents of a knowledge base."""

from math import exp

from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.records.record import Record


class Score(Record):
    """A technique's prediction for any architecture, and the attempts behind it."""

    speedup: float
    valid_chance: float
    attempts: float


class Changed(Record):
    state: str
    technique: str
    before: Score | None
    after: Score | None
    notes: tuple[str, ...] = ()
    retired: str | None = None


class Difference(Record):
    """States by name, techniques with their scores on both sides; None where one side lacks it."""

    states_added: tuple[str, ...]
    states_removed: tuple[str, ...]
    techniques: tuple[Changed, ...]

    @property
    def empty(self) -> bool:
        return not (self.states_added or self.states_removed or self.techniques)


def difference(before: Content, after: Content) -> Difference:
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
    prediction = entry.prediction(None)
    return Score(
        speedup=exp(prediction.mean),
        valid_chance=prediction.valid_chance,
        attempts=entry.evidence.total.attempts,
    )
