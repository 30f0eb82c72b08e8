"""`Tally`: number, mean and variance of the log speedups of attempts, kept as sums so that tallies can be
added and subtracted."""

from collections.abc import Collection
from typing import Annotated, NamedTuple

from pydantic import Field, FiniteFloat

NonNegative = Annotated[FiniteFloat, Field(ge=0)]


class Tally(NamedTuple):
    """The results of a set of attempts, in a form that can be added up: `seen` is the number of valid ones,
    `mean` the mean of their log speedups, `squares` the sum of the squared deviations from that mean;
    `failed` is the number of failed ones. The numbers need not be whole, since old evidence is given less
    weight."""

    seen: NonNegative = 0.0
    mean: FiniteFloat = 0.0
    squares: NonNegative = 0.0
    failed: NonNegative = 0.0

    @property
    def attempts(self) -> float:
        return self.seen + self.failed

    def plus(self, other: "Tally") -> "Tally":
        """Returns the tally of the attempts of this tally and of `other` together."""
        count = self.seen + other.seen
        if count == 0:
            return Tally(failed=self.failed + other.failed)
        apart = other.mean - self.mean
        return Tally(
            count,
            self.mean + apart * other.seen / count,
            self.squares + other.squares + apart * apart * self.seen * other.seen / count,
            self.failed + other.failed,
        )

    def minus(self, part: "Tally") -> "Tally":
        """Returns the tally of the attempts of this tally without those of `part`. All attempts of `part`
        must be in this tally; this is not checked."""
        count = self.seen - part.seen
        failed = max(0.0, self.failed - part.failed)
        if count < 1e-9:
            return Tally(failed=failed)
        mean = (self.seen * self.mean - part.seen * part.mean) / count
        apart = part.mean - mean
        squares = self.squares - part.squares - apart * apart * part.seen * count / self.seen
        return Tally(count, mean, max(0.0, squares), failed)

    def times(self, factor: float) -> "Tally":
        """Returns the tally with the same mean and variance, and all numbers of attempts multiplied by
        `factor`, so that it has more or less influence on predictions."""
        return Tally(self.seen * factor, self.mean, self.squares * factor, self.failed * factor)


def total(tallies: Collection[Tally]) -> Tally:
    """Returns the tally of the attempts of all these tallies together. Faster than `Tally.plus` for one after
    the other; predictions spend most of their time here."""
    if len(tallies) == 1:
        return next(iter(tallies))
    count = sums = squares = failures = 0.0
    for seen, mean, own_squares, failed in tallies:
        count += seen
        sums += seen * mean
        squares += own_squares + seen * mean * mean
        failures += failed
    if count == 0:
        return Tally(failed=failures)
    return Tally(count, sums / count, max(0.0, squares - sums * sums / count), failures)
