"""Predicts what a technique will gain, from the evidence (results of attempts): similar attempts count most,
and less similar ones count where there are few similar ones.

Evidence is added in steps, the least similar first:

1. the prior (the gain expected before any attempt);
2. if an earlier technique (the preparation) changes the results: attempts on the other side of it, which are
   those without the preparation if it was applied here, else those after it;
3. attempts on other GPU architectures;
4. attempts on this architecture, in other families of tasks;
5. attempts on this architecture, in the same family.

After step 2, all evidence so far is reduced to at most one observation (`CONTRAST`); after steps 3 and 4, to
at most four (`TRANSFER`). So a few attempts that are more similar soon outweigh it. If there is a preparation
or no family is given, steps 4 and 5 are one step: attempts on this architecture, in any family.
"""

from dataclasses import dataclass
from math import erf, exp, inf, pi, sqrt

from kernelblaster.knowledge.evidence import Evidence
from kernelblaster.knowledge.preparation import variance
from kernelblaster.knowledge.tally import Tally

TRANSFER = 4.0
"""How many observations all evidence from elsewhere is worth at most."""
CONTRAST = 1.0
"""The same for the other side of a preparation, which was found to differ."""
VALID_PRIOR = (1.5, 0.5)
"""Successes and failures assumed before the first attempt."""


@dataclass(frozen=True)
class Prediction:
    """A prediction for one attempt at a technique. `mean` is the expected natural logarithm of the speedup of
    a valid candidate, `spread` the standard deviation of that mean, and `weight` the number of observations
    that it is worth. The chance of a valid candidate has a beta distribution with the parameters `valid` and
    `invalid`. `after` is an earlier technique on which the result depends, so that the prediction depends on
    whether it was applied; None if there is none."""

    mean: float
    spread: float
    weight: float
    valid: float
    invalid: float
    after: str | None = None

    @property
    def valid_chance(self) -> float:
        """The expected chance (0 to 1) that an attempt gives a valid candidate."""
        return self.valid / (self.valid + self.invalid)

    @property
    def valid_spread(self) -> float:
        """The standard deviation of the chance that an attempt gives a valid candidate."""
        chance = self.valid_chance
        return sqrt(chance * (1 - chance) / (self.valid + self.invalid + 1))

    @property
    def speedup(self) -> float:
        """The expected speedup of a valid candidate: 2 is twice as fast as before."""
        return exp(self.mean)

    @property
    def interval(self) -> tuple[float, float]:
        """The range (lower, upper) in which the speedup of a valid candidate is expected: exp(`mean` - 2 *
        `spread`) to exp(`mean` + 2 * `spread`), where `mean` is the expected natural logarithm of the
        speedup, and `spread` the standard deviation of that mean."""
        return exp(self.mean - 2 * self.spread), exp(self.mean + 2 * self.spread)

    @property
    def gain(self) -> float:
        """The natural logarithm of the speedup that one attempt is expected to bring, at least 0. An attempt
        whose candidate is invalid or slower counts as 0, because that candidate is not used. A larger
        `spread` (the uncertainty of the expected logarithm) makes the value larger, so that little-tried
        techniques are tried."""
        z = self.mean / self.spread
        density = exp(-0.5 * z * z) / sqrt(2 * pi)
        below = 0.5 * (1 + erf(z / sqrt(2)))
        return self.valid_chance * max(0.0, self.mean * below + self.spread * density)


def predict(
    prior_mean: float,
    prior_weight: float,
    evidence: Evidence,
    architecture: str | None,
    applied: tuple[str, ...] = (),
    family: str | None = None,
) -> Prediction:
    """Returns the prediction for one more attempt at a technique: the expected log speedup with its
    uncertainty, and the chance of a valid candidate. The attempt is on the GPU `architecture`, after the
    techniques `applied`, in a task of the `family`; None stands for any. `prior_mean` is the natural
    logarithm of the speedup expected before any attempt; it counts as much as `prior_weight` observations.
    `evidence` has the results of all attempts so far."""
    preparation = evidence.preparation
    side = evidence.sides[preparation in applied]
    here = side.by_architecture.get(architecture or "", Tally())
    elsewhere = side.total.minus(here)
    kin = evidence.of_family(architecture, family)
    others, far = (here, inf) if kin is None else (here.minus(kin), TRANSFER)
    mean, weight, (valid, invalid) = prior_mean, prior_weight, VALID_PRIOR
    levels = ((side.across, CONTRAST), (elsewhere, TRANSFER), (others, far), (kin or Tally(), inf))
    for tally, worth in levels:
        if tally.attempts > 0:
            mean = (weight * mean + tally.seen * tally.mean) / (weight + tally.seen)
            weight = min(weight + tally.seen, worth)
            valid, invalid = valid + tally.seen, invalid + tally.failed
            shrink = min(1.0, worth / (valid + invalid))
            valid, invalid = valid * shrink, invalid * shrink
    noise = variance(side.total, side.across)
    return Prediction(mean, sqrt(noise / weight), weight, valid, invalid, preparation)
