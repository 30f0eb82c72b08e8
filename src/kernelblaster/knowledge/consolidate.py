"""Proposes changes that keep a knowledge base small and balanced: near-equal performance states are merged,
techniques that do not pay are retired (no longer offered to searches), and evidence of much-tried techniques
gets less weight. The changes are recorded as events, so each can be reverted."""

from dataclasses import dataclass
from math import log
from random import Random
from statistics import median

from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.knowledge.events import Change, Provenance, Retired, Reweighed, StatesMerged
from kernelblaster.knowledge.matching import distance
from kernelblaster.records.recipe import is_recipe


@dataclass(frozen=True)
class KnowledgeLimits:
    """The limits by which consolidation changes a knowledge base.

    - Two performance states whose `distance` (0 is equal) is below `same` are merged.
    - A technique is retired in a state (no longer offered there) after at least `attempts` attempts there, if
      its expected speedup plus two standard deviations is below `worth`, or its chance of a valid candidate
      (0 to 1) plus two standard deviations is below `valid`. Recipes (several techniques in one step) are
      retired only for a low chance of a valid candidate.
    - Techniques with more attempts than `attempts`, and than the median of their state, are much tried. A
      random share `reweigh` (0 to 1) of them is chosen, and their counts of attempts are multiplied by
      `factor`, so that old results weigh less.
    """

    same: float = 0.08
    attempts: float = 8.0
    worth: float = 1.01
    valid: float = 0.25
    reweigh: float = 0.5
    factor: float = 0.5


def consolidation(content: Content, seed: int, limits: KnowledgeLimits) -> list[Change]:
    """Returns the changes that would keep a knowledge base's content small and balanced, in the order in
    which they are to be made: merges of performance states, retirements of techniques (which are then no
    longer offered to searches), lowered weights of evidence. `limits` says when each is due. `content` itself
    is not changed. Merges and retirements follow from the content; `seed` determines only which techniques
    are chosen at random to have the weight of their evidence lowered."""
    tidied = content.copy()
    merges = _merges(content, limits)
    for merge in merges:
        tidied.apply(merge, Provenance())
    retirements = _retirements(tidied, limits)
    for retirement in retirements:
        tidied.apply(retirement, Provenance())
    return [*merges, *retirements, *_reweighing(tidied, Random(seed), limits)]


def justified(change: Change, content: Content, limits: KnowledgeLimits) -> bool:
    """Returns whether `change` (a merge, retirement or lowered weight) is one that `limits` allows for this
    content, whoever proposes it. False for changes of other kinds, and where a performance state or technique
    is unknown."""

    def known(state: str, technique: str) -> OptimizationEntry | None:
        living = content.resolve(state) if state in content.states else state
        return content.entries.get(living, {}).get(technique)

    match change:
        case StatesMerged(state=name, into=into):
            if name not in content.states or into not in content.states:
                return False
            return distance(content.states[name].state, content.states[into].state) < limits.same
        case Retired(state=name, technique=technique):
            entry = known(name, technique)
            return entry is not None and _why_retire(entry, limits) is not None
        case Reweighed(entries=entries, factor=factor):
            found = [known(*names) for names in entries]
            often = (one is not None and one.evidence.total.attempts > limits.attempts for one in found)
            return factor == limits.factor and all(often)
        case _:
            return False


def _merges(content: Content, limits: KnowledgeLimits) -> list[StatesMerged]:
    """The merges to make: each state into the nearest state with more attempts that is not merged itself, if
    their distance is below `limits.same`."""

    def rank(name: str) -> tuple[float, bool, str]:
        attempts = sum(e.evidence.total.attempts for e in content.entries.get(name, {}).values())
        return (-attempts, content.states[name].discovered, name)

    kept: list[str] = []
    merges = []
    for name in sorted((entry.state.name for entry in content.living), key=rank):
        state = content.states[name].state
        distances = [(distance(state, content.states[other].state), other) for other in kept]
        near, into = min(distances, default=(limits.same, ""))
        if near < limits.same:
            merges.append(StatesMerged(state=name, into=into))
        else:
            kept.append(name)
    return merges


def _retirements(content: Content, limits: KnowledgeLimits) -> list[Retired]:
    """A change for each technique that has been tried often enough, by `limits`, to know that it does not pay
    in a state. States that were merged into others are left out."""
    retirements = []
    for living in content.living:
        name = living.state.name
        for technique, entry in content.entries.get(name, {}).items():
            if entry.retired is None and (reason := _why_retire(entry, limits)):
                retirements.append(Retired(state=name, technique=technique, reason=reason))
    return retirements


def _why_retire(entry: OptimizationEntry, limits: KnowledgeLimits) -> str | None:
    """Why the technique in `entry` should not be offered any more in its state, by `limits`, in words; None
    if it should. It must be poor on every architecture and after every technique that had been applied before
    it. Recipes (several techniques in one step) are retired only for a low chance of valid candidates."""
    attempts = entry.evidence.total.attempts
    if attempts < limits.attempts:
        return None
    cases = [
        entry.prediction(architecture, applied)
        for architecture in entry.evidence.gains
        for applied in [(), *((technique,) for technique in entry.evidence.after)]
    ]
    worth = max(case.mean + 2 * case.spread for case in cases)
    if worth < log(limits.worth) and not is_recipe(entry.technique):
        best = max(case.speedup for case in cases)
        return f"{attempts:.0f} attempts; at best {best:.2f}x is expected of it"
    if max(case.valid_chance + 2 * case.valid_spread for case in cases) < limits.valid:
        best = max(case.valid_chance for case in cases)
        return f"{attempts:.0f} attempts; at best {best:.0%} are expected to be valid"
    return None


def _reweighing(content: Content, random: Random, limits: KnowledgeLimits) -> list[Reweighed]:
    """At most one change, which lowers the weight of evidence. Techniques tried early get most attempts and
    look most certain; so of those with more attempts than the median of their state (and than
    `limits.attempts`), some are chosen at random and lose weight, so that others are tried."""
    much_tried = []
    for living in content.living:
        name = living.state.name
        attempts = {
            technique: entry.evidence.total.attempts
            for technique, entry in content.entries.get(name, {}).items()
            if entry.retired is None
        }
        usual = median(attempts.values()) if attempts else 0.0
        bar = max(usual, limits.attempts)
        much_tried += [(name, technique) for technique, count in attempts.items() if count > bar]
    chosen = random.sample(sorted(much_tried), round(len(much_tried) * limits.reweigh))
    return [Reweighed(entries=tuple(sorted(chosen)), factor=limits.factor)] if chosen else []
