"""Metrics against values worked out by hand, and against a second implementation in numpy."""

from math import comb, exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelblaster.bench.metrics import (
    Cost,
    against_best,
    best_so_far,
    doublings,
    evaluations_until,
    fast_p,
    fast_p_band,
    gain_for_each,
    geometric_mean_interval,
    of_light,
    quartiles,
    summarize,
    thresholds,
)

speedup = st.floats(min_value=1e-3, max_value=1e3)
tie = st.sampled_from([0.5, 1.0, 2.0])
results = st.lists(st.one_of(st.none(), speedup, tie), max_size=40)


def test_by_hand() -> None:
    found = summarize([2.0, 0.5, 1.0, None, 8.0])
    assert (found.tasks, found.valid, found.valid_rate) == (5, 4, 0.8)
    assert found.average == pytest.approx(11.5 / 4)
    assert found.geometric_mean == pytest.approx(8**0.25)
    assert (found.median, found.minimum, found.maximum) == (1.5, 0.5, 8.0)
    assert (found.faster, found.slower) == (0.4, 0.2)
    assert found.kept == pytest.approx(8**0.2)
    assert fast_p([2.0, 0.5, 1.0, None, 8.0], [0.4, 0.5, 1.0, 2.0, 7.9, 8.0]) == [
        0.8,
        0.6,
        0.4,
        0.2,
        0.2,
        0.0,
    ]


def test_an_empty_set_has_no_numbers() -> None:
    found = summarize([])
    assert (found.tasks, found.valid) == (0, 0)
    assert {found.valid_rate, found.average, found.geometric_mean, found.faster, found.kept} == {None}
    assert fast_p([], [1.0]) == fast_p_band([], [1.0]) == []
    assert geometric_mean_interval([]) is geometric_mean_interval([[], []]) is None
    assert quartiles([]) is None


def test_one_task() -> None:
    found = summarize([3.0])
    assert found.average == found.median == found.minimum == found.maximum == 3.0
    assert found.geometric_mean == pytest.approx(3.0) == found.kept
    interval = geometric_mean_interval([[3.0]])
    assert interval is not None and interval.low == pytest.approx(3.0) == pytest.approx(interval.high)


def test_all_failed_is_a_rate_of_zero_and_no_speedup() -> None:
    found = summarize([None, None])
    assert (found.valid_rate, found.faster, found.slower, found.kept) == (0.0, 0.0, 0.0, 1.0)
    assert found.average is found.geometric_mean is found.median is found.minimum is None
    assert [(b.low, b.estimate, b.high) for b in fast_p_band([None, None], [1.0])] == [(0.0, 0.0, 0.0)]


def test_ties_are_neither_faster_nor_slower() -> None:
    found = summarize([1.0, 1.0])
    assert (found.faster, found.slower, found.geometric_mean) == (0.0, 0.0, 1.0)


@given(results)
def test_numpy_agrees(speedups: list[float | None]) -> None:
    found = summarize(speedups)
    valid = np.array([s for s in speedups if s is not None], dtype=float)
    if len(valid):
        numbers = (found.average, found.median, found.minimum, found.maximum)
        assert numbers == pytest.approx((valid.mean(), np.median(valid), valid.min(), valid.max()))
        assert found.geometric_mean == pytest.approx(np.exp(np.log(valid).mean()))
    if speedups:
        everywhere = np.array([np.nan if s is None else s for s in speedups])
        assert found.faster == pytest.approx((everywhere > 1).mean())
        assert found.slower == pytest.approx((everywhere < 1).mean())
        assert found.kept == pytest.approx(np.exp(np.log(np.nan_to_num(everywhere, nan=1.0)).mean()))
        at = thresholds(speedups)
        again = [(everywhere > p).mean() for p in at]
        assert fast_p(speedups, at) == pytest.approx(again)


@given(results.filter(bool))
def test_fast_p_falls_and_lies_in_its_band(speedups: list[float | None]) -> None:
    at = thresholds(speedups)
    assert 1.0 in at and at == sorted(at)
    shares = fast_p(speedups, at)
    assert shares == sorted(shares, reverse=True) and shares[-1] == 0.0
    for band in fast_p_band(speedups, at):
        assert 0 <= band.low <= band.estimate <= band.high <= 1


def test_the_band_is_the_binomial_one() -> None:
    """Drawing n tasks anew, of which a share p is fast, gives binomially many fast ones."""
    count, fast = 20, 8
    speedups = [2.0] * fast + [None] * (count - fast)
    band = fast_p_band(speedups, [1.0], seed=3)[0]
    share = fast / count
    below = np.cumsum([comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(count + 1)])
    low, high = np.searchsorted(below, 0.025) / count, np.searchsorted(below, 0.975) / count
    assert band.low == pytest.approx(low, abs=0.051) and band.high == pytest.approx(high, abs=0.051)
    assert fast_p_band(speedups, [1.0], seed=3) == [band]


def test_the_interval_of_a_geometric_mean_is_the_normal_one_where_there_are_many() -> None:
    random = np.random.default_rng(1)
    values = random.lognormal(0.3, 0.5, size=400)
    found = geometric_mean_interval([[float(v)] for v in values])
    assert found is not None
    logs = np.log(values)
    half = 1.96 * logs.std() / 20
    assert log(found.estimate) == pytest.approx(logs.mean())
    assert log(found.low) == pytest.approx(logs.mean() - half, abs=0.01)
    assert log(found.high) == pytest.approx(logs.mean() + half, abs=0.01)


def test_a_task_counts_once_however_many_seeds_it_has() -> None:
    found = geometric_mean_interval([[2.0, 8.0], [1.0]])
    assert found is not None and found.estimate == pytest.approx(2.0)


def test_the_best_baseline_is_the_fastest_and_a_missing_one_leaves_it_open() -> None:
    assert against_best({"eager": 2.0, "compile": 1.5}) == 1.5
    assert against_best({"eager": 2.0, "compile": None}) is None
    assert against_best({}) is None


def test_costs_and_gains() -> None:
    cost = Cost(4, 2.0, 8.0, 0, 0.0).plus(Cost(4, 2.0, 8.0, 1000, None))
    assert (cost.evaluations, cost.tokens, cost.usd) == (8, 1000, None)
    assert doublings([2.0, 4.0, None, 0.5]) == 2.0
    found = gain_for_each([2.0, 4.0], cost)
    assert found["evaluation"] == pytest.approx(3 / 8) and found["token"] == pytest.approx(3 / 1000)
    assert found["usd"] is None
    assert gain_for_each([2.0], Cost())["evaluation"] is None
    assert of_light(200.0, 100.0) == 0.5


def test_progress_of_a_search() -> None:
    assert best_so_far([None, 1.0, 0.5, 3.0], 6) == [None, 1.0, 1.0, 3.0, 3.0, 3.0]
    assert evaluations_until([None, 1.0, 0.5, 3.0], 2.5) == 4
    assert evaluations_until([1.0], 2.5) is None


@given(st.lists(speedup, min_size=1, max_size=30))
def test_quartiles_as_numpy_has_them(values: list[float]) -> None:
    found = quartiles(values)
    assert found == pytest.approx(tuple(np.percentile(values, [25, 50, 75])))
    assert exp(log(found[1])) == pytest.approx(found[1]) if found else False
