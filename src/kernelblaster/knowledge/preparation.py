"""Tests whether a technique gains more or less after another one. The attempts at the technique are divided
in two sets, those with and those without the other technique applied earlier, and the sets are compared."""

from math import sqrt

from kernelblaster.knowledge.tally import Tally

NOISE = 0.15
"""Expected spread of one log speedup, before there is evidence about it..."""
NOISE_WEIGHT = 4.0
"""...and how many observations that expectation is worth."""
DECISIVE_Z = 2.0
"""A preparation decides where its two sides differ by this many standard errors."""


def variance(one: Tally, other: Tally) -> float:
    """Returns the variance of a single log speedup, estimated from the attempts of the tallies `one` and
    `other`: the mean squared deviation of each attempt from the mean of its own tally. An assumed variance of
    0.15 squared (NOISE) is averaged in as if it were four further observations (NOISE_WEIGHT), so that few
    attempts do not look certain."""
    squares = NOISE_WEIGHT * NOISE * NOISE + one.squares + other.squares
    return squares / (NOISE_WEIGHT + one.seen + other.seen)


def decisive(after: dict[str, Tally], everything: Tally) -> str | None:
    """Returns the earlier technique that makes the largest difference to attempts: to their mean gain, or to
    their share of valid candidates. Differences are in standard errors. None if none is larger than two
    (DECISIVE_Z). `after` maps the name of each earlier technique to the tally of the attempts that were made
    after it; `everything` is the tally of all attempts."""
    best, best_z = None, DECISIVE_Z
    for technique, tally in after.items():
        if min(tally.attempts, everything.attempts - tally.attempts) < 2:
            continue
        without = everything.minus(tally)
        z = max(_gain_z(tally, without), _valid_z(tally, without))
        if z > best_z:
            best, best_z = technique, z
    return best


def _gain_z(one: Tally, other: Tally) -> float:
    """By how many standard errors the mean log speedups of two tallies differ; 0 if either has fewer than two
    valid attempts."""
    if one.seen < 2 or other.seen < 2:
        return 0.0
    return abs(one.mean - other.mean) / sqrt(variance(one, other) * (1 / one.seen + 1 / other.seen))


def _valid_z(one: Tally, other: Tally) -> float:
    """By how many standard errors the share of attempts that gave a valid candidate differs between two sets
    of attempts; 0 if no attempt failed."""
    if one.failed == other.failed == 0:
        return 0.0
    attempts = one.attempts + other.attempts
    chance = (one.seen + other.seen + 1) / (attempts + 2)
    apart = abs(one.seen / one.attempts - other.seen / other.attempts)
    return apart / sqrt(chance * (1 - chance) * (1 / one.attempts + 1 / other.attempts))
