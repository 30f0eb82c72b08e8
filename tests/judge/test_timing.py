import random

import pytest
import torch

from kernelblaster.judge.timing import conclude, interval
from kernelblaster.records import (
    Accepted,
    Inconclusive,
    Incorrect,
    Rejected,
    RuntimeFailed,
    Slower,
    Timing,
)
from kernelblaster.testing.fake_device import FakeCall


def right(call: FakeCall) -> None:
    x = call["x"]
    weight, bias = call["norm_weight"], call["norm_bias"]
    call["out"].copy_(torch.nn.functional.layer_norm(x, x.shape[1:], weight, bias))


@pytest.mark.parametrize(
    ("duration_us", "expected"),
    [(50.0, Accepted), (95.0, Accepted), (99.9, Inconclusive), (100.0, Inconclusive), (110.0, Slower)],
)
def test_verdicts_follow_the_interval(bench, duration_us: float, expected: type) -> None:  # type: ignore[no-untyped-def]
    assert isinstance(bench.judge(right, duration_us), expected)


@pytest.mark.parametrize(("duration_us", "samples"), [(1000.0, 4), (300.0, 8), (20.0, 8)])
def test_only_what_is_hopelessly_slow_is_known_after_a_few_samples(  # type: ignore[no-untyped-def]
    bench, duration_us: float, samples: int
) -> None:
    timing = bench.time(right, duration_us)
    assert isinstance(timing, Timing) and timing.samples == samples


def test_a_candidate_that_cheats_only_when_timed(bench) -> None:  # type: ignore[no-untyped-def]
    def body(call: FakeCall) -> None:
        if not call.timed:
            right(call)

    outcome = bench.judge(body)
    assert isinstance(outcome, Incorrect) and "timed" in outcome.reason


def test_results_remembered_from_the_first_timed_call(bench) -> None:  # type: ignore[no-untyped-def]
    kept: list[torch.Tensor] = []

    def body(call: FakeCall) -> None:
        if call.timed and kept:
            call["out"].copy_(kept[0])
            return
        right(call)
        if call.timed:
            kept.append(call["out"].clone())

    assert isinstance(bench.judge(body), Incorrect)


def test_inputs_changed_only_when_timed(bench) -> None:  # type: ignore[no-untyped-def]
    def body(call: FakeCall) -> None:
        right(call)
        if call.timed:
            call["x"].zero_()

    outcome = bench.judge(body)
    assert isinstance(outcome, Rejected) and outcome.reason == "input-modified"


def test_work_that_the_events_do_not_see(bench) -> None:  # type: ignore[no-untyped-def]
    def body(call: FakeCall) -> None:
        right(call)
        call.hidden_us = 5000.0

    outcome = bench.judge(body)
    assert isinstance(outcome, Rejected) and outcome.reason == "clocks-disagree"


def test_clocks_that_disagree_only_while_the_host_is_busy(bench) -> None:  # type: ignore[no-untyped-def]
    timed = 0

    def body(call: FakeCall) -> None:
        nonlocal timed
        right(call)
        timed += call.timed
        call.hidden_us = 5000.0 if timed <= 8 else 0.0

    assert isinstance(bench.judge(body, 50.0), Accepted)


def test_a_start_event_that_was_moved(bench) -> None:  # type: ignore[no-untyped-def]
    def body(call: FakeCall) -> None:
        right(call)
        call.shaved_us = 90.0

    outcome = bench.judge(body)
    assert isinstance(outcome, Rejected) and outcome.reason == "clocks-disagree"


def test_a_call_without_work(bench) -> None:  # type: ignore[no-untyped-def]
    def body(call: FakeCall) -> None:
        right(call)
        call.launches = 0

    outcome = bench.judge(body)
    assert isinstance(outcome, Rejected) and outcome.reason == "no-work"


def test_an_error_while_being_timed(bench) -> None:  # type: ignore[no-untyped-def]
    def body(call: FakeCall) -> None:
        right(call)
        call.error = "while running: cudaErrorIllegalAddress" if call.timed else ""

    assert isinstance(bench.judge(body), RuntimeFailed)


def test_an_impossible_time(bench) -> None:  # type: ignore[no-untyped-def]
    bench.device.specification = bench.device.spec.model_copy(update={"dram_gb_s": 1e-6, "l2_mb": 0.0})
    outcome = bench.judge(right)
    assert isinstance(outcome, Rejected) and outcome.reason == "below-the-floor"


def test_the_interval_covers_the_truth() -> None:
    rng = random.Random(3)
    covered = 0
    for trial in range(200):
        baseline = [100 * rng.lognormvariate(0, 0.05) for _ in range(24)]
        candidate = [80 * rng.lognormvariate(0, 0.05) for _ in range(24)]
        found = interval(baseline, candidate, trial)
        assert found.low <= found.estimate <= found.high
        covered += found.low <= 1.25 <= found.high
    assert covered >= 190


def test_equal_samples_are_never_faster() -> None:
    rng = random.Random(5)
    verdicts = []
    for trial in range(100):
        samples = [[100 * rng.lognormvariate(0, 0.03) for _ in range(32)] for _ in range(2)]
        verdicts.append(conclude(interval(*samples, trial)).kind)
    assert verdicts.count("Inconclusive") >= 95
