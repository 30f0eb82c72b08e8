"""Selection rules: draw the techniques to try next, at random with a seed."""

from collections.abc import Sequence
from math import log
from random import Random

from kernelblaster.knowledge.content import Scored

LEAST = 1e-3
"""The least promise that is assumed, so that every technique keeps a chance."""


def weighted_choice(
    options: Sequence[Scored], count: int, random: Random, power: float = 1.0
) -> list[Scored]:
    """Draw `count` options without replacement, with probabilities proportional to max(promise, LEAST) **
    power. Techniques of 1.0x weigh little; but many of them together outweigh one that pays, unless the power
    is above 1. (Taking the largest log(u) / weight is such a draw.)"""
    keys = [log(1 - random.random()) / max(option.promise, LEAST) ** power for option in options]
    return _top(options, keys, count)


def thompson(options: Sequence[Scored], count: int, random: Random) -> list[Scored]:
    """Thompson sampling: the `count` best options under one draw from each posterior, of the chance of a
    valid candidate and of the log speedup; the payoff is added."""
    keys = []
    for option in options:
        prediction = option.prediction
        valid = random.betavariate(prediction.valid, prediction.invalid)
        keys.append(valid * random.gauss(prediction.mean, prediction.spread) + option.payoff)
    return _top(options, keys, count)


def _top(options: Sequence[Scored], keys: Sequence[float], count: int) -> list[Scored]:
    order = sorted(range(len(options)), key=lambda index: -keys[index])
    return [options[index] for index in order[:count]]
