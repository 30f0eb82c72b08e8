"""Statistics of benchmark results.

Speedups are lists with one entry for each task that was asked for. A task without a valid candidate (wrong,
failed, refused, unfit, unfinished) is None: it has no speedup, but counts in every denominator.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, log2
from statistics import fmean, median

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 2000


@dataclass(frozen=True)
class BenchSummary:
    """Statistics of the speedups of `tasks` tasks, `valid` of which have a correct candidate. `average`,
    `geometric_mean`, `median`, `minimum` and `maximum` are over the valid ones, as in table 3 of the MAIC-RL
    paper. `valid_rate`, `faster` (speedup above 1) and `slower` are fractions of all tasks. `kept` is the
    geometric mean over all tasks, in which a task without a valid candidate counts as 1, because its user
    keeps the baseline. A number is None where there is no data for it."""

    tasks: int
    valid: int
    valid_rate: float | None
    average: float | None
    geometric_mean: float | None
    median: float | None
    minimum: float | None
    maximum: float | None
    faster: float | None
    slower: float | None
    kept: float | None


@dataclass(frozen=True)
class Interval:
    """An estimate of a value, with the ends `low` and `high` of its confidence interval."""

    low: float
    estimate: float
    high: float


def summarize(speedups: Sequence[float | None]) -> BenchSummary:
    """Statistics over the tasks of a bench. `speedups` has one number for each task; None for a task without
    a valid candidate."""
    valid = [speedup for speedup in speedups if speedup is not None]
    count = len(speedups)
    return BenchSummary(
        tasks=count,
        valid=len(valid),
        valid_rate=_share(len(valid), count),
        average=fmean(valid) if valid else None,
        geometric_mean=geometric_mean(valid) if valid else None,
        median=median(valid) if valid else None,
        minimum=min(valid, default=None),
        maximum=max(valid, default=None),
        faster=_share(sum(speedup > 1 for speedup in valid), count),
        slower=_share(sum(speedup < 1 for speedup in valid), count),
        kept=geometric_mean([s if s is not None else 1.0 for s in speedups]) if count else None,
    )


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean, the n-th root of the product, of at least one positive value."""
    return exp(fmean(log(value) for value in values))


def against_best(speedups: Mapping[str, float | None]) -> float | None:
    """The speedup over the fastest of several baselines, which is the smallest of `speedups` (one for each
    baseline, by name). None if there are none, or if one of them is None, since that baseline might be the
    fastest."""
    values = list(speedups.values())
    known = [speedup for speedup in values if speedup is not None]
    return min(known) if known and len(known) == len(values) else None


def of_light(us: float, floor_us: float) -> float:
    """The fraction of the "speed of light" that a kernel reaches: `floor_us` divided by `us`, the kernel's
    time. `floor_us` is the roofline floor, the least time that the GPU's bandwidth and peak rates allow. 1 is
    the limit; a kernel with 0.5 takes twice as long as the floor."""
    return floor_us / us


def thresholds(speedups: Sequence[float | None], count: int = 61) -> list[float]:
    """Returns about `count` values of p for the horizontal axis of a fast_p curve, which shows the share of
    tasks with a speedup above p. The values form a geometric sequence from 0.25 to above the largest of
    `speedups`, at least to 4; the value 1 is always among them."""
    top = max([4.0, *(speedup for speedup in speedups if speedup is not None)]) * 1.05
    return sorted({1.0, *(0.25 * (top / 0.25) ** (index / (count - 1)) for index in range(count))})


def fast_p(speedups: Sequence[float | None], at: Sequence[float]) -> list[float]:
    """For each p in `at`, the share of all tasks whose candidate is more than p times as fast as the
    baseline. `speedups` has one number for each task (None: no valid candidate, which counts as not faster).
    Empty without tasks."""
    if not speedups:
        return []
    return [sum(s is not None and s > p for s in speedups) / len(speedups) for p in at]


def fast_p_band(
    speedups: Sequence[float | None], at: Sequence[float], seed: int = 0, confidence: float = CONFIDENCE
) -> list[Interval]:
    """For each p in `at`, the share of all tasks whose candidate is more than p times as fast as the
    baseline, as by `fast_p`, with a confidence interval. `speedups` has one number for each task (None: no
    valid candidate, which counts as not faster). The interval is found by resampling the tasks (bootstrap):
    `confidence` 0.95 gives 95 % intervals, and `seed` makes the resampling repeatable. Empty without
    tasks."""
    if not speedups:
        return []
    reached = np.array([[s is not None and s > p for p in at] for s in speedups], dtype=np.float64)
    shares = _resampled(len(speedups), seed) @ reached / len(speedups)
    low, high = _quantiles(shares, confidence)
    return [
        Interval(float(a), share, float(b))
        for a, share, b in zip(low, fast_p(speedups, at), high, strict=True)
    ]


def geometric_mean_interval(
    groups: Sequence[Sequence[float]], seed: int = 0, confidence: float = CONFIDENCE
) -> Interval | None:
    """Returns the geometric mean over tasks with a confidence interval, found by resampling the tasks
    (bootstrap). Each group has the positive values of one task, for example one for each seed, and enters by
    its own geometric mean; empty groups are ignored. `confidence` 0.95 gives 95 % intervals; `seed` makes the
    resampling repeatable. None without tasks."""
    means = np.array([fmean(log(value) for value in group) for group in groups if group])
    if not len(means):
        return None
    drawn = _resampled(len(means), seed) @ means / len(means)
    low, high = _quantiles(drawn, confidence)
    return Interval(exp(float(low)), exp(float(means.mean())), exp(float(high)))


@dataclass(frozen=True)
class Cost:
    """What was spent: candidates judged (`evaluations`), seconds of device time, seconds by the clock, and
    tokens and US dollars of language models. `usd` is None if a price is unknown."""

    evaluations: int = 0
    device_seconds: float = 0.0
    seconds: float = 0.0
    tokens: int = 0
    usd: float | None = 0.0

    def plus(self, other: "Cost") -> "Cost":
        """Returns the sum of this cost and `other`. Its dollars are None if those of one of the two are
        unknown."""
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Cost(
            self.evaluations + other.evaluations,
            self.device_seconds + other.device_seconds,
            self.seconds + other.seconds,
            self.tokens + other.tokens,
            usd,
        )


def doublings(gains: Sequence[float | None]) -> float:
    """Returns the sum of log2 over `gains`, the speedups that searches gained over their first candidates:
    how often speed was doubled, in all searches together. 4x counts as 2; None counts as 0."""
    return sum(log2(gain) for gain in gains if gain is not None)


def gain_for_each(gains: Sequence[float | None], cost: Cost) -> dict[str, float | None]:
    """Returns for each kind of cost how much searches gained for one unit of it. The keys of the result are
    the units: "evaluation", "device_second", "second", "token" and "usd". What was gained is the sum of log2
    of `gains`, the speedups of the searches (None counts as no gain), so 1 is one doubling of speed. It is
    divided by what `cost` says was spent. None for a unit of which nothing was spent, or whose price is
    unknown."""
    total = doublings(gains)
    spent = {
        "evaluation": cost.evaluations,
        "device_second": cost.device_seconds,
        "second": cost.seconds,
        "token": cost.tokens,
        "usd": cost.usd,
    }
    return {name: total / amount if amount else None for name, amount in spent.items()}


def best_so_far(speedups: Sequence[float | None], count: int) -> list[float | None]:
    """Returns the best of the first 1, 2, ... `count` speedups; None as long as no candidate was correct.
    Beyond the end of `speedups`, the last value is repeated."""
    curve: list[float | None] = []
    best: float | None = None
    for index in range(count):
        now = speedups[index] if index < len(speedups) else None
        if now is not None and (best is None or now > best):
            best = now
        curve.append(best)
    return curve


def evaluations_until(speedups: Sequence[float | None], goal: float) -> int | None:
    """Returns how many candidates had been judged when a speedup first reached `goal`, with `speedups` in the
    order of judging; None if none did."""
    reached = (count for count, speedup in enumerate(speedups, 1) if speedup is not None and speedup >= goal)
    return next(reached, None)


def quartiles(values: Sequence[float]) -> tuple[float, float, float] | None:
    """(lower quartile, median, upper quartile) of these values; None without values."""
    if not values:
        return None
    low, middle, high = np.quantile(np.array(values), [0.25, 0.5, 0.75])
    return float(low), float(middle), float(high)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _resampled(count: int, seed: int) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """Bootstrap weights: for each of RESAMPLES resamples (rows), how often each of `count` tasks was drawn.
    Equal seeds draw the same."""
    random = np.random.default_rng(seed)
    return random.multinomial(count, [1 / count] * count, size=RESAMPLES).astype(np.float64)


def _quantiles(
    drawn: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]", confidence: float
) -> "tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], ...]":
    """The ends of a bootstrap interval: of the results `drawn`, one row for each resample, the two values
    between which the middle fraction `confidence` lies."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    return low, high
