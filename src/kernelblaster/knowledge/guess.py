"""Predicts what a technique gains in a performance state where it was never tried, from what it gains in
similar states."""

from collections.abc import Sequence

from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.matching import distance, nearness
from kernelblaster.knowledge.posterior import Prediction
from kernelblaster.knowledge.recipes import UNKNOWN_REACH
from kernelblaster.records import State
from kernelblaster.records.recipe import Recipe

UNKNOWN = 0.1
"""Log speedup expected of a technique without any evidence."""
GUESS_WEIGHT = 0.5
"""How many observations such an expectation, or a guess, is worth."""


def guesses(
    content: Content,
    state: State,
    techniques: Sequence[str],
    architecture: str | None,
    family: str | None = None,
) -> dict[str, float]:
    """Returns a guess for each of the `techniques`: what it gains in `state`, where it was not tried, as the
    natural logarithm of a speedup. The guess is the mean of the technique's predictions in all performance
    states of `content`. A state counts more the more similar it is to `state` (see `nearness`) and the more
    observations its prediction is based on. The value 0.1 (UNKNOWN) is averaged in as half an observation, so
    that it is the guess where nothing is known. Predictions are for a GPU `architecture` and a `family` (kind
    of computation) of tasks; None: any.

    For a recipe (several techniques in one step), the guess is the natural logarithm of another ratio: the
    speed that the candidate reaches, as a fraction of the roofline floor's. It is the mean of the predictions
    for recipes that were tried in this family, in any state; a recipe counts more the more techniques it
    shares with the one for which the guess is made. The logarithm of 0.5 (UNKNOWN_REACH) is averaged in
    instead of 0.1, and is the guess if `family` is None.
    """
    recipes = {t: recipe for t in techniques if (recipe := Recipe.parse(t)) is not None}
    means = {t: _Mean(UNKNOWN_REACH if t in recipes else UNKNOWN) for t in techniques}
    for living in content.living:
        share = nearness(distance(state, living.state))
        known = content.entries.get(living.state.name, {})
        for technique in techniques:
            if technique in known and technique not in recipes:
                means[technique].add(known[technique].prediction(architecture, (), family), share)
        for name, entry in known.items() if recipes else ():
            other = Recipe.parse(name)
            if other and any(family in cells for cells in entry.evidence.gains.values()):
                prediction = entry.prediction(architecture, (), family)
                for technique, recipe in recipes.items():
                    means[technique].add(prediction, recipe.similarity(other) ** 2)
    return {technique: mean.value for technique, mean in means.items()}


class _Mean:
    """A weighted mean of predictions. It begins with the value `unknown`, which counts as GUESS_WEIGHT
    observations."""

    def __init__(self, unknown: float) -> None:
        self._total, self._weight = unknown * GUESS_WEIGHT, GUESS_WEIGHT

    def add(self, prediction: Prediction, share: float) -> None:
        """Adds a prediction to the mean, with the weight (in observations) that it has, times `share` (0 to
        1): how similar the state is that it was made for."""
        self._total += share * prediction.weight * prediction.mean
        self._weight += share * prediction.weight

    @property
    def value(self) -> float:
        return self._total / self._weight
