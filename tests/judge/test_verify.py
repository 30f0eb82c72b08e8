"""What the judge must notice, rule by rule, on the fake device."""

import re

import pytest
import torch

from kernelblaster.devices.device import CandidateDied, CandidateHung
from kernelblaster.judge import stop
from kernelblaster.judge.precision import OWN, Comparison
from kernelblaster.judge.samples import OutputSample, doubtful
from kernelblaster.judge.stop import Stop
from kernelblaster.records import Incorrect, Rejected, RuntimeFailed, Task, TimedOut, Verification
from kernelblaster.records.evaluation import Errors
from kernelblaster.testing.fake_device import FakeCall


def right(call: FakeCall) -> None:
    x = call["x"]
    weight, bias = call["norm_weight"], call["norm_bias"]
    call["out"].copy_(torch.nn.functional.layer_norm(x, x.shape[1:], weight, bias))


def test_a_right_candidate_passes(bench) -> None:  # type: ignore[no-untyped-def]
    verification = bench.verify(right)
    assert isinstance(verification, Verification)
    assert verification.deterministic
    assert {c.workload for c in verification.cases} == {"below", "beside", "above", "primary", "small"}
    titles = {c.distribution for c in verification.cases}
    assert {"written", "large", "shifted", "zero-rows", "rising", "level", "spiky", "nan"} <= titles
    assert {"written, x moved", "written, norm_weight moved", "written, norm_bias moved"} <= titles


def test_another_order_of_summation_passes(bench) -> None:  # type: ignore[no-untyped-def]
    def body(call: FakeCall) -> None:
        x = call["x"]
        mean = x.flip(1).mean(1, keepdim=True)
        variance = (x - mean).square().flip(1).mean(1, keepdim=True)
        result = (x - mean) * torch.rsqrt(variance + 1e-5)
        call["out"].copy_(result * call["norm_weight"] + call["norm_bias"])

    assert isinstance(bench.verify(body), Verification)


def test_a_variance_that_cancels(bench) -> None:  # type: ignore[no-untyped-def]
    def body(call: FakeCall) -> None:
        x = call["x"]
        mean = x.mean(1, keepdim=True)
        variance = (x * x).mean(1, keepdim=True) - mean * mean
        result = (x - mean) * torch.rsqrt(variance.clamp_min(0) + 1e-5)
        call["out"].copy_(result * call["norm_weight"] + call["norm_bias"])

    outcome = bench.verify(body)
    assert isinstance(outcome, Incorrect)
    assert "shifted" in outcome.evidence or "far" in outcome.evidence


def test_nothing_written(bench) -> None:  # type: ignore[no-untyped-def]
    outcome = bench.verify(lambda call: None)
    assert isinstance(outcome, Incorrect) and outcome.reason == "unwritten output"


def test_part_not_written(bench) -> None:  # type: ignore[no-untyped-def]
    def body(call: FakeCall) -> None:
        saved = call["out"][-1, -1].clone()
        right(call)
        call["out"][-1, -1] = saved

    outcome = bench.verify(body)
    assert isinstance(outcome, Incorrect)
    sizes = [int(size) for size in re.findall(r": (\d+)", outcome.evidence.partition("}")[0])]
    worst = re.search(r"worst at out\[(\d+), (\d+)\]", outcome.evidence)
    assert worst is not None and [int(worst[1]) + 1, int(worst[2]) + 1] == sizes


def test_zeros_and_constants(bench) -> None:  # type: ignore[no-untyped-def]
    assert isinstance(bench.verify(lambda call: call["out"].zero_()), Incorrect)
    assert isinstance(bench.verify(lambda call: call["out"].fill_(0.1)), Incorrect)


def test_lower_precision(bench) -> None:  # type: ignore[no-untyped-def]
    for dtype in (torch.float16, torch.bfloat16):

        def body(call: FakeCall, dtype: torch.dtype = dtype) -> None:
            right(call)
            call["out"].copy_(call["out"].to(dtype))

        outcome = bench.verify(body)
        assert isinstance(outcome, Incorrect) and "error" in outcome.evidence


def test_parameters_taken_for_granted(bench) -> None:  # type: ignore[no-untyped-def]
    def body(call: FakeCall) -> None:
        call["out"].copy_(torch.nn.functional.layer_norm(call["x"], call["x"].shape[1:]))

    assert isinstance(bench.verify(body), Incorrect)


def test_a_fixed_shape(bench) -> None:  # type: ignore[no-untyped-def]
    def body(call: FakeCall) -> None:
        if call.sizes["x_0"] == 60:
            right(call)

    assert isinstance(bench.verify(body), Incorrect)


def test_a_size_fixed_by_construction_is_run_time_too(bench) -> None:  # type: ignore[no-untyped-def]
    def body(call: FakeCall) -> None:
        right(call)
        if call.sizes["x_1"] != 40:
            call["out"].mul_(1.01)

    outcome = bench.verify(body)
    assert isinstance(outcome, Incorrect) and "small workload" in outcome.evidence


def test_writes_outside(bench) -> None:  # type: ignore[no-untyped-def]
    def before(call: FakeCall) -> None:
        right(call)
        call.memory[call.offsets["out"] - 1] = 7

    def after(call: FakeCall) -> None:
        right(call)
        call.memory[call.offsets["out"] + call["out"].numel() * 4] = 7

    for body in (before, after):
        outcome = bench.verify(body)
        assert isinstance(outcome, Rejected) and outcome.reason == "out-of-bounds-write"


def test_changed_inputs(bench) -> None:  # type: ignore[no-untyped-def]
    def scratch(call: FakeCall) -> None:
        right(call)
        call["x"][0, 0] += 1

    def swap(call: FakeCall) -> None:
        right(call)
        first = call["x"][0, 0].clone()
        call["x"][0, 0] = call["x"][1, 3]
        call["x"][1, 3] = first

    for body in (scratch, swap):
        outcome = bench.verify(body)
        assert isinstance(outcome, Rejected) and outcome.reason == "input-modified"


def test_results_that_depend_on_the_call_number(bench) -> None:  # type: ignore[no-untyped-def]
    calls = []

    def body(call: FakeCall) -> None:
        right(call)
        calls.append(1)
        if len(calls) == 6:
            call["out"][0, 0] += 1

    assert isinstance(bench.verify(body), Incorrect)


def test_results_cached_by_address(bench) -> None:  # type: ignore[no-untyped-def]
    known: dict[int, torch.Tensor] = {}

    def body(call: FakeCall) -> None:
        address = call.offsets["x"]
        if address in known and known[address].shape == call["out"].shape:
            call["out"].copy_(known[address])
            return
        right(call)
        known[address] = call["out"].clone()

    assert isinstance(bench.judge(body), Incorrect)


def test_scratch_memory_kept(bench) -> None:  # type: ignore[no-untyped-def]
    def body(call: FakeCall) -> None:
        right(call)
        call.live_bytes = 64

    outcome = bench.verify(body)
    assert isinstance(outcome, Rejected) and outcome.reason == "memory-not-returned"


def test_breaches_of_contract_and_errors(bench) -> None:  # type: ignore[no-untyped-def]
    def stream(call: FakeCall) -> None:
        right(call)
        call.violations.append("kernel on another stream than the given one")

    def error(call: FakeCall) -> None:
        call.error = "kernel: cudaErrorInvalidConfiguration"

    def dies(call: FakeCall) -> None:
        raise CandidateDied("the process was ended by SIGSEGV")

    def hangs(call: FakeCall) -> None:
        raise CandidateHung(3.0)

    assert isinstance(bench.verify(stream), Rejected)
    assert isinstance(bench.verify(error), RuntimeFailed)
    assert isinstance(bench.verify(dies), RuntimeFailed)
    assert isinstance(bench.verify(hangs), TimedOut)


def test_a_harmless_difference_between_runs_is_noted(bench) -> None:  # type: ignore[no-untyped-def]
    flip = []

    def body(call: FakeCall) -> None:
        right(call)
        flip.append(1)
        if len(flip) % 2:
            call["out"].copy_(torch.nextafter(call["out"], torch.tensor(9.0)))

    verification = bench.verify(body)
    assert isinstance(verification, Verification) and not verification.deterministic


def test_many_calls_that_take_long_together_are_ended(bench, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(stop, "WHOLE", 1e-9)
    found = bench.verify(right)
    assert isinstance(found, TimedOut) and found.stage == "verify" and found.limit_s < 1e-6


def test_ties_are_resolved_as_the_reference_does(argmax_bench) -> None:  # type: ignore[no-untyped-def]
    def first(call: FakeCall) -> None:
        call["out"].copy_((call["x"] == call["x"].amax(1, keepdim=True)).byte().argmax(1))

    def last(call: FakeCall) -> None:
        x = call["x"]
        call["out"].copy_(x.shape[1] - 1 - (x == x.amax(1, keepdim=True)).flip(1).byte().argmax(1))

    assert isinstance(argmax_bench.verify(first), Verification)
    assert isinstance(argmax_bench.verify(last), Incorrect)


def sample(task: Task, used: float, count: int = 3) -> OutputSample:
    """Three numbers, on which a candidate uses up so much of what is allowed."""
    own = Errors(rms=1e-6, worst=1e-6, tile=1e-6, relative=1e-6, lost=0)
    errors = own.model_copy(update={"rms": used * OWN * own.rms})
    found = Comparison(errors, 0, 1.0, 1.0 + used * OWN * own.rms)
    output = task.signature.outputs[0]
    return OutputSample(output, (found,), torch.tensor([found.got]), own, None, count, excused=False)


@pytest.mark.parametrize(
    ("drawn", "passes", "draws"),
    [
        ([0.4], True, 1),
        ([0.9, *[0.3] * 5], True, 6),  # and not by luck
        ([1.5, *[0.3] * 5], True, 6),  # bad luck
        ([0.9, *[1.5] * 10], False, 11),  # good luck
        ([0.9, *[1.0] * 5, *[0.6] * 5], True, 11),  # by and by it is told apart
        ([0.7, *[1.1] * 20], False, 21),  # and where it is not, the limit is the limit
        ([5.0], False, 1),
    ],
)
def test_near_the_limit_more_draws_decide(  # type: ignore[no-untyped-def]
    bench, monkeypatch: pytest.MonkeyPatch, drawn: list[float], passes: bool, draws: int
) -> None:
    verifier = bench.verifier()
    left = list(drawn)
    monkeypatch.setattr(verifier, "_draw", lambda case, runs, layout: [sample(bench.task, left.pop(0))])
    case = bench.planner.draw(0)[0]
    if passes:
        verifier._check(case, verifier._lay_out(case))
    else:
        with pytest.raises(Stop) as stopped:
            verifier._check(case, verifier._lay_out(case))
        told = str(stopped.value.outcome.evidence)  # type: ignore[union-attr]
        assert (f"over {draws} draws" in told) == (draws > 1)
    assert left == [] and verifier.results[-1].passed == passes


def test_many_numbers_need_no_second_draw(task: Task) -> None:
    assert doubtful([sample(task, 0.9)]) and not doubtful([sample(task, 0.9, count=1 << 20)])
    assert not doubtful([sample(task, 0.4)]) and not doubtful([sample(task, 4.5)])


def test_a_single_number_says_little(task: Task) -> None:
    assert doubtful([sample(task, 0.3, count=1)]) and not doubtful([sample(task, 0.3, count=4)])
    assert not doubtful([sample(task, 4.5, count=1)])  # but that it is wrong
    assert not doubtful([sample(task, 0.3, count=1)] * 6)


@pytest.mark.parametrize("late", [False, True])
def test_what_is_plainly_wrong_once_is_not_excused_by_other_draws(  # type: ignore[no-untyped-def]
    bench, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """Nor by those that are made because of another output."""
    verifier = bench.verifier()
    used = iter([0.05, 4.5, *[0.05] * 19] if late else [4.5, *[0.05] * 20])
    drawn = lambda case, runs, layout: [sample(bench.task, next(used)), sample(bench.task, 0.95)]  # noqa: E731
    monkeypatch.setattr(verifier, "_draw", drawn)
    with pytest.raises(Stop):
        case = bench.planner.draw(0)[0]
        verifier._check(case, verifier._lay_out(case))
    assert len(list(used)) == (15 if late else 20)


def test_many_numbers_must_be_right_in_every_draw(bench, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    """Also where more is drawn because of another output."""
    verifier = bench.verifier()
    many = iter([0.4, 0.4, 1.5, *[0.4] * 18])

    def drawn(case: object, runs: int, layout: object) -> list[OutputSample]:
        return [sample(bench.task, 0.9), sample(bench.task, next(many), count=1 << 20)]

    monkeypatch.setattr(verifier, "_draw", drawn)
    with pytest.raises(Stop):
        case = bench.planner.draw(0)[0]
        verifier._check(case, verifier._lay_out(case))
