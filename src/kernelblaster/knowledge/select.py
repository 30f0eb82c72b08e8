"""Selection rules: draw the techniques to try next at random, from a seeded generator. docs/knowledge.md
explains them."""

from collections.abc import Callable, Mapping, Sequence
from math import log
from random import Random

from kernelblaster.knowledge.content import Scored
from kernelblaster.records.selection import Selection

LEAST = 1e-3
"""The least promise that is assumed, so that every technique keeps a chance."""


def weighted_choice(
    options: Sequence[Scored], count: int, random: Random, sharpness: float = 1.0
) -> list[Scored]:
    """Draw up to `count` options without replacement, in the order drawn, with probabilities proportional to
    max(promise, 0.001) ** sharpness, where the promise is an option's expected log speedup. With sharpness 1,
    many techniques that promise little together outweigh one that pays; a larger one favours the best. (The
    largest values of log(u) / weight, with u uniform in 0 to 1, make such a draw.)"""
    keys = [log(1 - random.random()) / max(option.promise, LEAST) ** sharpness for option in options]
    return _top(options, keys, count)


def thompson(options: Sequence[Scored], count: int, random: Random, sharpness: float = 1.0) -> list[Scored]:
    """Thompson sampling: for each option one random draw from its posterior distributions (chance of a valid
    candidate times log speedup, plus its payoff); returns the `count` options with the largest draws, largest
    first. `sharpness` is not used."""
    keys = []
    for option in options:
        prediction = option.prediction
        valid = random.betavariate(prediction.valid, prediction.invalid)
        keys.append(valid * random.gauss(prediction.mean, prediction.spread) + option.payoff)
    return _top(options, keys, count)


RULES: Mapping[Selection, Callable[[Sequence[Scored], int, Random, float], list[Scored]]] = {
    "weighted": weighted_choice,
    "thompson": thompson,
}
"""Each rule by its name: (options, count, random, sharpness) to up to `count` of the options, in the order
in which they are to be tried."""


def _top(options: Sequence[Scored], keys: Sequence[float], count: int) -> list[Scored]:
    """The `count` options with the largest of `keys`, which has one number for each option; the largest
    first."""
    order = sorted(range(len(options)), key=lambda index: -keys[index])
    return [options[index] for index in order[:count]]
