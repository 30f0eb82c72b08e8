"""Which recipes (sets of techniques that paid together on one path of a search) are learned, and which are
offered. The class is in records/recipe.py.

A search that knows a recipe applies it in one step and has only the result judged, instead of a candidate for
every technique on the path. A recipe is a set: the policy chooses the order of application, and paths that
differ only in order teach the same recipe. Its result depends more on the kind of computation than on the
performance state of the first kernel, so recipes of a family are offered in every state.

A recipe's gain depends most on how slow the first candidate was, which says nothing about the recipe. So the
knowledge base keeps its reach instead: the roofline floor (the least time that the GPU's bandwidth and peak
rates allow) divided by the time of the candidate at the path's end, 0.8 for one that takes 1.25 times the
floor. The gain over a given candidate is computed from that.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import log

from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.records import Timing
from kernelblaster.records.recipe import Recipe, is_recipe

LONGEST = 200  # characters of a name, as tables and documents allow
OFFERED = 6  # recipes in one state
USUAL = 0.3  # a technique in more than this share of a family's recipes is usual there
UNKNOWN_REACH = log(0.5)  # of a recipe that nothing is known of


def recipe_of(gains: Sequence[tuple[str, float]]) -> Recipe | None:
    """Returns the recipe of the techniques in `gains`, each given as (name, log speedup). If the recipe's
    text would have more than 200 characters (LONGEST), those that gained least are left out. None if fewer
    than two techniques are left."""
    total: dict[str, float] = {}
    for technique, gained in gains:
        total[technique] = total.get(technique, 0.0) + gained
    while (recipe := Recipe.of(total)) is not None and len(str(recipe)) > LONGEST:
        del total[min(total, key=lambda technique: total[technique])]
    return recipe


def reach(timing: Timing) -> float:
    """Returns the natural logarithm of the reach that a candidate with this `timing` has. The reach is the
    roofline floor (the least time that the GPU's bandwidth and peak rates allow) divided by the candidate's
    time. So the result is 0 for a candidate at the floor, and negative for a slower one. (`Exemplar.reach` is
    the reach itself, without the logarithm.)"""
    return log(timing.floor_us / timing.candidate_us)


def format_prediction(technique: str, value: float, *, modelled: bool = False) -> str:
    """Returns a prediction for a technique or recipe as text for people. `value` is a speedup (2.5: "2.50x"),
    or for a recipe its speed as a fraction of the roofline floor's (0.8: "0.80 of the floor's speed"). With
    `modelled`, ", modelled" is added: no attempt behind the prediction was timed on a GPU."""
    text = f"{value:.2f} of the floor's speed" if is_recipe(technique) else f"{value:.2f}x"
    return f"{text}, modelled" if modelled else text


def recipes_for(
    content: Content, state: str, architecture: str, applied: Sequence[str], family: str | None
) -> list[Recipe]:
    """Returns at most six recipes (sets of techniques for one step, OFFERED), best first, for a kernel of the
    `family` (kind of computation) in the performance state `state`. There are two kinds: recipes that gave
    valid candidates in this family, in any state; and recipes that are known in this state but were never
    tried. If `family` is None (unknown), there are none of the first kind. Recipes that would add fewer than
    two techniques to `applied` are left out.

    The order is: first the recipe of the family's usual techniques (see `usual_recipe`), then the recipe with
    the best result in this state, then the others by an optimistic prediction: the mean plus one standard
    deviation, lowered by failures. For a recipe that was tried in this state, only its results there count.
    `content` is the knowledge base's; predictions are for the GPU `architecture`.
    """
    hoped: dict[Recipe, float] = {}
    here: dict[Recipe, float] = {}
    seen: dict[Recipe, float] = {}
    for recipe, entry in _recipes(content):
        kin = sum(cells[family].seen for cells in entry.evidence.gains.values() if family in cells)
        if kin or (entry.state == state and not entry.evidence.gains):
            prediction = entry.prediction(architecture, (), family)
            hope = prediction.mean + prediction.spread + log(prediction.valid_chance)
            hoped[recipe] = max(hoped.get(recipe, hope), hope)
            seen[recipe] = seen.get(recipe, 0.0) + kin
            if kin and entry.state == state:
                here[recipe] = hope
    hoped |= here
    ranked = sorted(hoped, key=lambda recipe: (-hoped[recipe], str(recipe)))
    usual = usual_recipe(seen)
    first = [usual, max(here, key=lambda recipe: (here[recipe], str(recipe)), default=None)]
    ordered = dict.fromkeys([*(one for one in first if one), *ranked])
    return [recipe for recipe in ordered if recipe.beyond(applied) > 1][:OFFERED]


def _recipes(content: Content) -> Iterator[tuple[Recipe, OptimizationEntry]]:
    """Yields every recipe (a set of techniques applied in one step) that is still offered in a state that was
    not merged into another, with what is known about it there."""
    for state, entries in content.entries.items():
        for technique in filter(is_recipe, entries):  # by name first: most techniques are no recipes
            entry = entries[technique]
            recipe = Recipe.parse(technique)
            if recipe and entry.retired is None and content.states[state].merged_into is None:
                yield recipe, entry


def usual_recipe(seen: Mapping[Recipe, float]) -> Recipe | None:
    """Returns the recipe of the techniques that are usual in the recipes `seen`. `seen` maps each recipe to
    how many attempts at it there were. A technique is usual if more than 30 % (USUAL) of all these attempts
    were at recipes that have it. None if fewer than two techniques are usual."""
    shares: dict[str, float] = {}
    for recipe, times in seen.items():
        for technique in recipe.techniques:
            shares[technique] = shares.get(technique, 0.0) + times
    bar = USUAL * sum(seen.values())
    return recipe_of([(technique, share) for technique, share in shares.items() if share > bar])
