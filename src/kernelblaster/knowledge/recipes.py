"""Recipes: techniques that paid together on one way, remembered under one name.

A search that knows a recipe takes it in one step and has only its end judged, where it would otherwise
judge every technique on the way. A recipe is a set: in which order its techniques are best applied is
the policy's business, and so ways that differ in their order alone teach the same. Where it leads depends
on the kind of computation more than on the state that a plain kernel happens to be in, so recipes of the
same family are offered in every state.

How much a recipe gains depends most of all on how slow the first candidate was, which says nothing about
the recipe. So what is kept of it is where it ended: the speed beside the floor's, 0.8 for a candidate that
takes 1.25 of the floor's time. What it would gain from a given place follows.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import log

from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.records import Timing

WITH = " + "
LONGEST = 200  # letters of a name; so much room tables and documents have
OFFERED = 6  # recipes in one state
USUAL = 0.3  # of the ways in a family: a technique that more of them have belongs to what is usual there
UNKNOWN_REACH = log(0.5)  # of a recipe that nothing is known of


def recipe_of(gains: Sequence[tuple[str, float]]) -> str | None:
    """The name of what these techniques, each with its own log speedup, are together; None where they
    are one. Where the name would be too long, those that gained least are left out."""
    total: dict[str, float] = {}
    for technique, gained in gains:
        total[technique] = total.get(technique, 0.0) + gained
    while len(name := WITH.join(sorted(total))) > LONGEST:
        del total[min(total, key=lambda technique: total[technique])]
    return name if len(total) > 1 else None


def reach(timing: Timing) -> float:
    """The speed beside the floor's, as a logarithm."""
    return log(timing.floor_us / timing.candidate_us)


def is_recipe(technique: str) -> bool:
    return WITH in technique


def told(technique: str, value: float) -> str:
    """What is expected of a technique, for people: a speedup, or of a recipe where it leads."""
    return f"{value:.2f} of the floor's speed" if is_recipe(technique) else f"{value:.2f}x"


def parts(technique: str) -> tuple[str, ...]:
    """The techniques of a recipe; of anything else itself."""
    return tuple(technique.split(WITH))


def recipes_for(
    content: Content, state: str, architecture: str, applied: Sequence[str], family: str | None
) -> list[str]:
    """Recipes that were tried in this family of tasks anywhere, or are known in this state and were not
    tried at all: first what is usual in the family and what led furthest in this very state, then those
    that may lead furthest; one that was tried here is known by that, not by what it did elsewhere. One of
    which all but one technique were applied already is left to that one."""
    hoped: dict[str, float] = {}
    here: dict[str, float] = {}
    seen: dict[str, float] = {}
    for entry in _recipes(content):
        technique = entry.technique
        kin = sum(cells[family].seen for cells in entry.evidence.gains.values() if family in cells)
        if kin or (entry.state == state and not entry.evidence.gains):
            prediction = entry.prediction(architecture, (), family)
            hope = prediction.mean + prediction.spread + log(prediction.valid_chance)
            hoped[technique] = max(hoped.get(technique, hope), hope)
            seen[technique] = seen.get(technique, 0.0) + kin
            if kin and entry.state == state:
                here[technique] = hope
    hoped |= here
    ranked = sorted(hoped, key=lambda technique: (-hoped[technique], technique))
    usual = usual_parts(seen)
    first = [usual, max(here, key=lambda technique: (here[technique], technique), default=None)]
    found = dict.fromkeys([*(one for one in first if one), *ranked])
    return [one for one in found if len(set(parts(one)).difference(applied)) > 1][:OFFERED]


def _recipes(content: Content) -> Iterator[OptimizationEntry]:
    """Those of living states that were not retired. Names are looked at first: most are no recipes."""
    for state, entries in content.entries.items():
        for technique in filter(is_recipe, entries):
            entry = entries[technique]
            if entry.retired is None and content.states[state].merged_into is None:
                yield entry


def usual_parts(seen: Mapping[str, float]) -> str | None:
    """The recipe of all techniques that a good part of these recipes have, each counted as often as it
    was seen. What does not apply to a task is passed over, so that it does more often too much than too
    little."""
    shares: dict[str, float] = {}
    for technique, times in seen.items():
        for part in parts(technique):
            shares[part] = shares.get(part, 0.0) + times
    bar = USUAL * sum(seen.values())
    return recipe_of([(part, share) for part, share in shares.items() if share > bar])


def alike(one: str, other: str) -> float:
    """The share of techniques that two recipes have in common."""
    mine, theirs = set(parts(one)), set(parts(other))
    return len(mine & theirs) / len(mine | theirs)
