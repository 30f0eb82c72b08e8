"""What to expect of a technique in a state where nobody tried it: what it does in states like it."""

from collections.abc import Sequence

from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.matching import distance
from kernelblaster.knowledge.posterior import Prediction
from kernelblaster.knowledge.recipes import UNKNOWN_REACH, alike, is_recipe
from kernelblaster.records import State

UNKNOWN = 0.1
"""The log speedup that is expected of a technique that nothing is known of..."""
GUESS_WEIGHT = 0.5
"""...and how many observations that, or a guess, is worth."""
NEAR = 0.25
"""A state at this distance counts half as much as an equal one."""


def guesses(
    content: Content,
    state: State,
    techniques: Sequence[str],
    architecture: str | None,
    family: str | None = None,
) -> dict[str, float]:
    """For each technique a log speedup: the mean of what is expected of it in all states, nearer and
    better known ones counting more, and of knowing nothing. For recipes, whose numbers are speeds beside
    the floor's, it is not states that are near but recipes."""
    recipes = [technique for technique in techniques if is_recipe(technique)]
    found = {t: _Mean(UNKNOWN_REACH if t in recipes else UNKNOWN) for t in techniques}
    for living in content.living:
        nearness = NEAR / (NEAR + distance(state, living.state))
        known = content.entries.get(living.state.name, {})
        for technique in techniques:
            if technique in known and technique not in recipes:
                found[technique].add(known[technique].prediction(architecture, (), family), nearness)
        for other in filter(is_recipe, known if recipes else ()):
            if any(family in cells for cells in known[other].evidence.gains.values()):
                prediction = known[other].prediction(architecture, (), family)
                for recipe in recipes:
                    found[recipe].add(prediction, alike(recipe, other) ** 2)
    return {technique: mean.value for technique, mean in found.items()}


class _Mean:
    """Of predictions, weighed by what is behind them."""

    def __init__(self, unknown: float) -> None:
        self._total, self._weight = unknown * GUESS_WEIGHT, GUESS_WEIGHT

    def add(self, prediction: Prediction, share: float) -> None:
        self._total += share * prediction.weight * prediction.mean
        self._weight += share * prediction.weight

    @property
    def value(self) -> float:
        return self._total / self._weight
