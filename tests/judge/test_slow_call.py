"""What is hopelessly slow is found out by one call at the primary sizes, on the fake device."""

import pytest
import torch

from kernelblaster.judge.cases import SecretDraw
from kernelblaster.judge.clock import MeasuredClock
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.operand_rounding import OperandRounding
from kernelblaster.judge.prepare import Prepared
from kernelblaster.judge.slow_call import CHEAP_US, TIMES, limit_s
from kernelblaster.judge.under_test import CandidateUnderTest, Judged
from kernelblaster.records import Accepted, Compilation, Fitness, Incorrect, Slower, TimedOut
from kernelblaster.tasks.floor import floor_of
from kernelblaster.testing.fake_device import FakeCall

HOPELESS_US = 4 * CHEAP_US


def right(call: FakeCall) -> None:
    x, weight, bias = call["x"], call["norm_weight"], call["norm_bias"]
    call["out"].copy_(torch.nn.functional.layer_norm(x, x.shape[1:], weight, bias))


class Counted:
    """Body of a candidate that counts its calls at the primary workload (the timed sizes)."""

    def __init__(self, body=right) -> None:  # type: ignore[no-untyped-def]
        self.at_primary = self.timed = self.all = 0
        self._body = body

    def __call__(self, call: FakeCall) -> None:
        self.all += 1
        self.timed += call.timed
        self.at_primary += call["x"].shape == (60, 40)
        self._body(call)


def prepared_of(bench) -> Prepared:  # type: ignore[no-untyped-def]
    slots = [slot.bytes for slot in bench.device.arena().slots]
    about = (bench.task, bench.baseline, Fitness(), floor_of(bench.task), bench.planner)
    return Prepared(*about, OperandRounding(), slots, 0)


def judged(bench, body, duration_us: float) -> Judged:  # type: ignore[no-untyped-def]
    path = bench.device.register(body, duration_us)
    compilation = Compilation(seconds=0, cached=True, architecture="sm_90a", compiler="", resources=())
    prepared = prepared_of(bench)
    clock = MeasuredClock(bench.device, keep_samples=False)
    binary, draw = Binary(path, compilation), SecretDraw(bench.seed)
    return CandidateUnderTest(bench.device, clock, prepared, binary, draw).verify_and_time()


def test_one_call_at_the_primary_sizes_and_a_verdict_that_says_so(bench) -> None:  # type: ignore[no-untyped-def]
    body = Counted()
    found = judged(bench, body, HOPELESS_US)
    assert isinstance(found.outcome, Slower)
    assert "hopelessly slow: a call takes 200 ms, the baseline 0.1 ms" in found.outcome.reason
    assert body.at_primary == 1 and body.timed == 0
    assert found.timing is not None and found.timing.samples == 1
    assert found.timing.candidate_us == HOPELESS_US
    assert found.outcome.speedup.estimate == pytest.approx(100 / HOPELESS_US, rel=0.02)
    assert found.verification is not None and found.outcome.reason in found.verification.notes
    assert any(case.workload == "primary" for case in found.verification.cases)


def test_its_profile_is_that_call(bench) -> None:  # type: ignore[no-untyped-def]
    profile = judged(bench, right, HOPELESS_US).profile
    assert profile is not None and profile.tier == "activity" and profile.workload == "primary"
    assert [kernel.duration_us for kernel in profile.kernels] == [HOPELESS_US]


@pytest.mark.parametrize(
    ("duration_us", "baseline_us"), [(0.9 * CHEAP_US, 100.0), (4 * CHEAP_US, 5 * CHEAP_US / TIMES)]
)
def test_what_costs_little_or_is_not_so_much_slower_is_judged_in_full(  # type: ignore[no-untyped-def]
    bench, duration_us: float, baseline_us: float
) -> None:
    bench.device.reference_us = baseline_us
    body = Counted()
    found = judged(bench, body, duration_us)
    assert isinstance(found.outcome, Slower) and not found.outcome.reason
    assert found.timing is not None and found.timing.samples >= 4 and body.timed >= 4
    assert found.profile is None


def test_a_fast_one_is_judged_as_ever(bench) -> None:  # type: ignore[no-untyped-def]
    assert isinstance(judged(bench, right, 50.0).outcome, Accepted)


def test_a_wrong_result_of_that_call_is_no_slow_candidate(bench) -> None:  # type: ignore[no-untyped-def]
    def body(call: FakeCall) -> None:
        right(call)
        if call["x"].shape == (60, 40):
            call["out"].mul_(1.01)

    found = judged(bench, body, HOPELESS_US)
    assert isinstance(found.outcome, Incorrect) and "primary workload" in found.outcome.evidence


def test_what_is_wrong_at_small_sizes_never_gets_there(bench) -> None:  # type: ignore[no-untyped-def]
    body = Counted(lambda call: call["out"].zero_())
    assert isinstance(judged(bench, body, HOPELESS_US).outcome, Incorrect)
    assert body.at_primary == 0


def test_the_limit_of_that_call_follows_the_baseline(bench, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("KERNELBLASTER_CALL_LIMIT", "10")
    assert limit_s(30.0) == 5.0 and limit_s(700.0) == 7.0 and limit_s(500_000.0) == 10.0
    body = Counted()
    found = judged(bench, body, 5.5e6)
    assert found.outcome == TimedOut(stage="verify", limit_s=5.0)
    assert body.at_primary == 0


def test_the_baseline_is_measured_once_for_a_task(bench) -> None:  # type: ignore[no-untyped-def]
    measured = []
    clock = MeasuredClock(bench.device, keep_samples=False)
    prepared = prepared_of(bench)
    monitored = bench.device.time_reference
    bench.device.time_reference = lambda run: measured.append(1) or monitored(run)
    verifier = bench.verifier(bench.device.start(bench.device.register(right)))
    layout = verifier._lay_out(next(c for c in verifier._cases if c.workload.name == "primary"))
    times = {clock.baseline_us(prepared)(layout) for _ in range(4)}
    assert len(times) == 1 and len(measured) == 3
    clock.forget()
    clock.baseline_us(prepared)(layout)
    assert len(measured) == 6


def test_a_proof_repeats_the_values_although_it_makes_no_slow_call(bench) -> None:  # type: ignore[no-untyped-def]
    def roughly(call: FakeCall) -> None:
        right(call)
        call["out"].mul_(1 + 1e-7 * call["x"].sign())

    first = judged(bench, roughly, 90.0)
    path = bench.device.register(roughly, 90.0)
    compilation = Compilation(seconds=0, cached=True, architecture="sm_90a", compiler="", resources=())
    draw = SecretDraw(bench.seed, tuple(bench.planner.draw(SecretDraw(bench.seed).seeds[0])))
    clock = MeasuredClock(bench.device, keep_samples=False)
    tested = CandidateUnderTest(bench.device, clock, prepared_of(bench), Binary(path, compilation), draw)
    again = tested.verify_and_time()
    assert first.verification is not None and again.verification is not None
    assert [case.candidate for case in first.verification.cases] == [
        case.candidate for case in again.verification.cases
    ]
