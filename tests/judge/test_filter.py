"""`--filter emulated`: the PTX machine looks at a candidate before the GPU does. The GPU is played by
a second PTX machine that claims to have a clock."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kernelblaster.devices.device import Argument, TimeReport
from kernelblaster.devices.emulated import EmulatedDevice, EmulatedRunner
from kernelblaster.judge.host_check import FOLLOWED
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.judge.options import EvaluationOptions
from kernelblaster.judge.order_check import CHECKED, OrderCheck
from kernelblaster.records import Accepted, Candidate, Rejected, Slower, Task
from kernelblaster.tasks.catalog import load_task

FILE = """
import torch, torch.nn as nn
rows = 30
cols = 41
SMALL = {"rows": 5, "cols": 9}
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(rows, cols)]
def get_init_inputs():
    return []
"""
SOURCE = """
__global__ void relu(float* out, const float* x, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = BODY;
}
extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
  relu<<<(unsigned)((x_0 * x_1 + 127) / 128), 128, 0, stream>>>(out, x, x_0 * x_1);
}
"""
RIGHT = Candidate(source=SOURCE.replace("BODY", "(x[i] < 0 ? 0 : x[i])"))
READS_BESIDE = Candidate(source=SOURCE.replace("BODY", "x[i + 1] != 7 ? (x[i] < 0 ? 0 : x[i]) : 1"))


class _Runner(EmulatedRunner):
    def time(self, arguments: Sequence[Argument]) -> TimeReport:
        report = self.call(arguments, scratch_poison=-1, accounting=False)
        return TimeReport(report, 50.0, 50.0, 50.0, 50.0, 0.0)

    def call(self, arguments: Sequence[Argument], **how: object):  # type: ignore[no-untyped-def,override]
        return super().call(arguments, scratch_poison=-1, accounting=False)


class PlaysGpu(EmulatedDevice):
    modelled = False

    def start(self, binary: Path) -> EmulatedRunner:
        runner = super().start(binary)
        runner.__class__ = _Runner
        return runner

    def time_reference(self, run: Callable[[], object]) -> float:
        run()
        return 100.0


@pytest.fixture
def gpu(compiler: str) -> Iterator[PlaysGpu]:
    opened = PlaysGpu()
    yield opened
    opened.close()


class _SlowRunner(_Runner):
    def call(self, arguments: Sequence[Argument], **how: object):  # type: ignore[no-untyped-def,override]
        report = super().call(arguments, **how)
        durations = [0.2e6 if how["accounting"] else None] * len(report.work)
        work = zip(report.work, durations, strict=True)
        return replace(report, work=tuple(replace(one, duration_us=us) for one, us in work))


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    path = tmp_path_factory.mktemp("task") / "relu.py"
    path.write_text(FILE)
    return load_task(str(path))


def test_a_clean_candidate_goes_on_to_the_gpu(gpu: PlaysGpu, task: Task) -> None:
    judge = DeviceJudge(gpu, EvaluationOptions(filter="emulated"))
    found = judge.evaluate(task, RIGHT)
    judge.close()
    assert isinstance(found.outcome, Accepted) and found.timing is not None and not found.timing.modelled
    assert found.verification is not None and found.verification.notes == (FOLLOWED, CHECKED)


def test_a_finding_ends_the_evaluation(gpu: PlaysGpu, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "start", lambda binary: pytest.fail("the GPU ran it"))
    judge = DeviceJudge(gpu, EvaluationOptions(filter="emulated"))
    found = judge.evaluate(task, READS_BESIDE)
    judge.close()
    assert isinstance(found.outcome, Rejected) and found.outcome.reason == "out-of-bounds"
    assert "line 4" in found.outcome.evidence and found.verification is None


def test_what_cannot_be_emulated_skips_the_filter(gpu: PlaysGpu, task: Task) -> None:
    large = task.model_copy(update={"workloads": tuple(w for w in task.workloads if w.name != "small")})
    judge = DeviceJudge(gpu, EvaluationOptions(filter="emulated"))
    found = judge.evaluate(large, RIGHT)
    judge.close()
    assert isinstance(found.outcome, Accepted) and found.verification is not None
    assert found.verification.notes[1].startswith("memory order: not checked: ")


def test_what_is_hopelessly_slow_has_a_modelled_profile(
    gpu: PlaysGpu, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PlaysGpu.start.__globals__, "_Runner", _SlowRunner)
    judge = DeviceJudge(gpu)
    found = judge.evaluate(task, RIGHT)
    judge.close()
    assert isinstance(found.outcome, Slower) and "a call takes 200 ms" in found.outcome.reason
    assert found.profile is not None and found.profile.tier == "modelled"
    assert found.profile.kernels[0].duration_us is not None and found.profile.kernels[0].duration_us < 100


def test_a_correct_verdict_is_confirmed_or_taken_back(gpu: PlaysGpu, task: Task) -> None:
    judge = DeviceJudge(gpu)
    order = OrderCheck(gpu.spec)
    found = judge.evaluate(task, RIGHT)
    assert found.verification is not None
    bare = found.verification.model_copy(update={"notes": ()})
    found = found.model_copy(update={"verification": bare})
    confirmed = order.confirmed(task, RIGHT, found)
    taken_back = order.confirmed(task, READS_BESIDE, found)
    order.close()
    judge.close()
    assert isinstance(confirmed.outcome, Accepted) and confirmed.verification is not None
    assert confirmed.verification.notes == (CHECKED,)
    assert isinstance(taken_back.outcome, Rejected) and taken_back.timing is None
