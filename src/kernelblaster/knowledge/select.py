"""Choosing what to try next: seeded, and never the best alone."""

from collections.abc import Sequence
from math import log
from random import Random

from kernelblaster.knowledge.content import Scored

LEAST = 1e-3
"""The least gain that is assumed, so that nothing is ruled out for good."""


def weighted_choice(
    options: Sequence[Scored], count: int, random: Random, power: float = 1.0
) -> list[Scored]:
    """`count` of them without replacement, each drawn with a chance in proportion to its promise to a
    power. The promise is the expected log speedup of what is kept, so that a technique of 1.0x weighs
    little; many of them together still outweigh one that pays, unless the power is above 1. (The largest
    of log(u) / weight is such a draw.)"""
    keys = [log(1 - random.random()) / max(option.promise, LEAST) ** power for option in options]
    return _top(options, keys, count)


def thompson(options: Sequence[Scored], count: int, random: Random) -> list[Scored]:
    """The `count` best under one draw from each posterior: of the chance of a valid candidate, and of
    the log speedup; what it prepares is added."""
    keys = []
    for option in options:
        prediction = option.prediction
        valid = random.betavariate(prediction.valid, prediction.invalid)
        keys.append(valid * random.gauss(prediction.mean, prediction.spread) + option.payoff)
    return _top(options, keys, count)


def _top(options: Sequence[Scored], keys: Sequence[float], count: int) -> list[Scored]:
    order = sorted(range(len(options)), key=lambda place: -keys[place])
    return [options[place] for place in order[:count]]
