"""Selection rules: functions that choose at random which techniques to try next, by a seeded random
generator, so that choices are repeatable. docs/knowledge.md explains them."""

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
    """Draws up to `count` of the options at random, without drawing one twice, and returns them in the order
    drawn. An option's chance is proportional to max(promise, 0.001) ** sharpness, where `Scored.promise` is
    the log speedup that is expected of it. With sharpness 1, many techniques that promise little together
    outweigh one that promises much; a larger sharpness favours the best."""
    keys = [log(1 - random.random()) / max(option.promise, LEAST) ** sharpness for option in options]
    return _top(options, keys, count)


def thompson(options: Sequence[Scored], count: int, random: Random, sharpness: float = 1.0) -> list[Scored]:
    """Thompson sampling: returns the `count` options with the largest random draws, largest first. An
    option's draw is a random chance of a valid candidate times a random log speedup, each from the
    distribution that its prediction gives, plus its payoff (what it is worth because other techniques gain
    more after it). `sharpness` is not used."""
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
