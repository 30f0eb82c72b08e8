"""Verdicts without a clock: what the judge makes of modelled times, on a device whose model is a number."""

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from kernelblaster.devices.device import Pointer, ProfileJob
from kernelblaster.devices.device_code import PTX
from kernelblaster.devices.emulated import PAGE, REPEATED_BYTES, EmulatedDevice
from kernelblaster.devices.specs import gpu_named
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge import size_check, size_runs
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.judge.large_call import CallCoverage, LargeCall, TooMuchWorkError
from kernelblaster.judge.modelled import MODEL_ERROR, ModelledTimer, modelled_speedup, total_us
from kernelblaster.judge.options import EvaluationOptions
from kernelblaster.judge.timing import conclude
from kernelblaster.ptx.machine import Draws
from kernelblaster.records import (
    Accepted,
    Candidate,
    Floor,
    Inconclusive,
    Incorrect,
    KernelProfile,
    Metric,
    Profile,
    Rejected,
    RuntimeFailed,
    Slower,
    Task,
    Timing,
)
from kernelblaster.records.outcome import CORRECT
from kernelblaster.tasks.catalog import load_task
from kernelblaster.testing.corpus import ROOT, Corpus

CORPUS = Corpus()
SCALE_TASK = """
// kernelblaster-task
// size: rows = 3000000, small 6
// size: cols = 8, small 4
// output: out float32 [rows, cols]
// input: x float32 [rows, cols] normal
// parameter: weight float32 [cols] positive
__global__ void scale(float* out, const float* x, const float* weight, int64_t n, int64_t cols) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch_gpu_implementation(float* out, const float* x, const float* weight, int64_t rows,
                                          int64_t cols, cudaStream_t stream) {
  int64_t n = rows * cols;
  scale<<<(unsigned)((n + 127) / 128), 128, 0, stream>>>(out, x, weight, n, cols);
}
"""


SCALE_MODULE = """
import torch, torch.nn as nn
rows, cols = 4096, 512
SMALL = {"rows": 6, "cols": 40}
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0 + 1.0
def get_inputs():
    return [torch.randn(rows, cols)]
def get_init_inputs():
    return []
"""
SCALE_KERNEL = """
__global__ void scale(float* out, const float* x, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = (x[i] < 0 ? 0 : x[i]) * 2 + 1;
}
extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t rows, int64_t cols,
                                          cudaStream_t stream) {
  scale<<<(unsigned)((rows * cols + 127) / 128), 128, 0, stream>>>(out, x, rows * cols);
}
"""


class Numbered(EmulatedDevice):
    """The PTX machine, with times that a test sets: one for each kernel of a job, by its binary."""

    def __init__(self, *durations_us: float) -> None:
        super().__init__("h100")
        self.durations_us = durations_us or (50.0,)
        self.grid = (1, 1, 1)
        self.by_binary: dict[Path, float] = {}
        self.jobs: list[ProfileJob] = []

    def profile(self, jobs: Sequence[ProfileJob]) -> list[Profile]:
        self.jobs += jobs
        return [self._profile(job) for job in jobs]

    def _profile(self, job: ProfileJob) -> Profile:
        durations = (self.by_binary[job.binary],) if job.binary in self.by_binary else self.durations_us
        kernels = tuple(
            KernelProfile(
                name="kernel",
                grid=self.grid,
                block=(128, 1, 1),
                metrics=(Metric(name="Duration", unit="us", value=us, tier="modelled"),),
            )
            for us in durations
        )
        return Profile(device=self.name, tier="modelled", workload=job.workload, kernels=kernels)


@pytest.fixture
def device(compiler: str) -> Iterator[Numbered]:
    opened = Numbered()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def scale_task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    path = tmp_path_factory.mktemp("task") / "scale.cu"
    path.write_text(SCALE_TASK)
    return load_task(str(path))


def relu() -> tuple[Task, Candidate]:
    return CORPUS.read(ROOT / "tests" / "exploits" / "honest" / "relu_naive.cu")


@pytest.mark.parametrize(
    ("ratio", "kind"),
    [(2.0, Accepted), (1.2, Inconclusive), (1.0, Inconclusive), (0.85, Inconclusive), (0.5, Slower)],
)
def test_only_what_the_model_can_tell_is_a_verdict(ratio: float, kind: type) -> None:
    speedup = modelled_speedup(100.0 * ratio, 100.0)
    assert speedup.confidence is None
    assert speedup.high / speedup.low == pytest.approx(MODEL_ERROR**2)
    assert isinstance(conclude(speedup), kind)


def test_a_module_gets_a_full_verdict(device: Numbered) -> None:
    task, candidate = relu()
    judge = DeviceJudge(device, EvaluationOptions(profile=True, sanitize=True))
    found = judge.evaluate(task, candidate)
    again = judge.evaluate(task, candidate)
    judge.close()
    timing = found.timing
    assert timing is not None and timing.modelled and timing.baseline == "eager"
    assert timing.candidate_us == 50.0 and timing.candidate_wall_us is None
    assert found.outcome == conclude(modelled_speedup(timing.baseline_us, 50.0)) == again.outcome
    assert found.verification is not None and found.verification.calls > 5
    assert found.counters is not None and found.counters.workload == "small"
    assert found.profile is not None and found.profile.tier == "modelled"
    assert found.profile.workload == "primary" and found.device == device.name


def test_what_the_emulator_checks_anyway_is_not_checked_again(
    device: Numbered, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages: list[str] = []
    options = EvaluationOptions(sanitize=True, filter="emulated", progress=stages.append)
    monkeypatch.setattr(device, "findings", lambda job: ["sanitized"])
    judge = DeviceJudge(device, options)
    found = judge.evaluate(*relu())
    judge.close()
    assert isinstance(found.outcome, CORRECT) and "sanitizing" not in stages
    checked = stages.count("checking on the PTX machine")
    assert checked == (1 if isinstance(found.outcome, Accepted) else 0)


def test_wrong_candidates_are_not_modelled(device: Numbered) -> None:
    task, candidate = relu()
    wrong = Candidate(source=candidate.source.replace("< 0", "< 1"))
    found = DeviceJudge(device).evaluate(task, wrong)
    assert isinstance(found.outcome, Incorrect) and found.timing is None and device.jobs == []


def test_a_cuda_task_is_compared_with_its_own_kernel(device: Numbered, scale_task: Task) -> None:
    judge = DeviceJudge(device)
    other = Candidate(source=SCALE_TASK.replace("127", "63").replace("128", "64"))
    found = judge.evaluate(scale_task, other)
    own = device.jobs[-1].binary
    device.by_binary[own] = 200.0
    judge.close()
    assert isinstance(found.outcome, Inconclusive) and len(device.jobs) == 2
    judge = DeviceJudge(device)
    faster = judge.evaluate(scale_task, other)
    wrong = judge.evaluate(scale_task, Candidate(source=SCALE_TASK.replace("% cols", "% 3")))
    judge.close()
    assert isinstance(faster.outcome, Accepted) and faster.outcome.speedup.estimate == 4.0
    assert faster.timing is not None and faster.timing.baseline == "original kernel"
    assert isinstance(wrong.outcome, Incorrect | Rejected)


WRONG_WHEN_LARGE = {
    "the last row": ("weight[i % cols]", "weight[i % cols] + (n > 100000 && i >= n - cols)"),
    "at most three": ("x[i] *", "(n > 100000 ? fminf(x[i], 3.0f) : x[i]) *"),
    "eleven bits": ("x[i] *", "(n > 100000 ? __uint_as_float(__float_as_uint(x[i]) & ~8191u) : x[i]) *"),
}


def test_what_is_wrong_at_the_modelled_size_is_not_faster(device: Numbered, scale_task: Task) -> None:
    judge = DeviceJudge(device)
    for name, change in WRONG_WHEN_LARGE.items():
        wrong = Candidate(source=SCALE_TASK.replace(*change))
        assert wrong.source != SCALE_TASK
        found = judge.evaluate(scale_task, wrong)
        if device.durations_us == (50.0,):  # as slow as the original kernel
            assert isinstance(found.outcome, Inconclusive)
            found = judge.confirmed(scale_task, wrong, found)
        assert isinstance(found.outcome, Incorrect) and found.timing is None, name
        assert "primary workload {'rows': 3000000, 'cols': 8}" in found.outcome.evidence
        device.durations_us = (10.0,)
    judge.close()


def test_rows_beyond_sixteen_bits_are_run(device: Numbered) -> None:
    task, wrong = CORPUS.read(ROOT / "tests" / "exploits" / "cheats" / "33_short_row_index.cu")
    judge = DeviceJudge(device)
    found = judge.confirmed(task, wrong, judge.evaluate(task, wrong))
    judge.close()
    assert isinstance(found.outcome, Incorrect) and found.outcome.reason == "unwritten output"


def test_what_takes_too_long_at_the_modelled_size_is_inconclusive(
    device: Numbered, scale_task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size_runs, "SAMPLED_WORK", 100)
    monkeypatch.setattr(size_runs, "WHOLE_WORK", 100)
    monkeypatch.setattr(size_check, "WHOLE_WORK", 100)
    judge = DeviceJudge(device)
    judge.evaluate(scale_task, Candidate(source=SCALE_TASK))
    device.durations_us = (10.0,)
    found = judge.evaluate(scale_task, Candidate(source=SCALE_TASK))
    judge.close()
    assert isinstance(found.outcome, Inconclusive) and found.outcome.speedup.estimate == 5.0
    assert "192 MB" in found.outcome.reason


def test_a_second_call_that_is_too_much_work_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other values and addresses may take a little more work than the first call did, which was allowed."""
    run, tried = LargeCall.run, []

    def limited(self: LargeCall, draws: Draws, *, kept: bool = False) -> CallCoverage:
        if kept:
            tried.append(kept)
            raise TooMuchWorkError("primary workload")
        return run(self, draws)

    monkeypatch.setattr(LargeCall, "run", limited)
    file = tmp_path / "scale.py"
    file.write_text(SCALE_MODULE)
    with closing(DeviceJudge(EmulatedDevice("h100"))) as judge:
        found = judge.evaluate(load_task(str(file)), Candidate(source=SCALE_KERNEL))
    assert tried and isinstance(found.outcome, CORRECT), found.outcome


def test_only_the_beginnings_of_the_primary_workload_are_filled(device: Numbered, scale_task: Task) -> None:
    judge = DeviceJudge(device)
    judge.evaluate(scale_task, Candidate(source=SCALE_TASK))
    judge.close()
    job = device.jobs[0]
    _, x, weight = (a for a in job.arguments if isinstance(a, Pointer))
    arena = device.arena().memory
    values = arena[x.offset : x.offset + x.bytes].view(torch.float32)
    filled = (REPEATED_BYTES + PAGE) // 4
    assert job.workload == "primary" and x.bytes == 4 * 8 * 3000000
    assert (values[:filled] != 0).float().mean() > 0.99 and values[filled:].count_nonzero() == 0
    assert (arena[weight.offset : weight.offset + weight.bytes].view(torch.float32) > 0).all()


def test_no_part_of_a_tensor_is_modelled_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor between one and two times as large as what is filled of it: the rest repeats the beginning."""
    for module in ("kernelblaster.judge.modelled", "kernelblaster.devices.emulated"):
        monkeypatch.setattr(f"{module}.REPEATED_BYTES", 16 * PAGE)
    loop = "float y = 1; for (int k = 0; i < n && x[i] == 0 && k < 999; ++k) y *= x[i];"
    slow_on_zeros = SCALE_TASK.replace("if (i < n) out", f"{loop}\n  if (i < n && y < 2) out")
    assert slow_on_zeros != SCALE_TASK
    file = tmp_path / "scale.cu"
    file.write_text(SCALE_TASK.replace("3000000", "3000"))  # 96 kB
    task = load_task(str(file))
    with closing(DeviceJudge(EmulatedDevice("h100"))) as judge:
        usual, other = judge.profile(task, [Candidate(source=one) for one in (SCALE_TASK, slow_on_zeros)])
    assert isinstance(usual, Profile) and isinstance(other, Profile)
    assert total_us(other) < 1.5 * total_us(usual)


def timed(device: Numbered, certain_bytes: int) -> Timing | Rejected | RuntimeFailed:
    task, _ = relu()
    judge = DeviceJudge(device)
    timer = ModelledTimer(device, task, judge._tasks.baseline(task))
    profile = device.profile([ProfileJob(Path("x"), (), "primary")])[0]
    return timer.time(profile, Floor(bytes=certain_bytes, certain_bytes=certain_bytes, operations=0))


def test_a_time_that_no_gpu_can_reach_is_refused(device: Numbered) -> None:
    found = timed(device, 10**12)
    assert isinstance(found, Rejected) and found.reason == "below-the-floor" and "modelled" in found.evidence
    assert isinstance(timed(device, 10**6), Timing)


def test_no_launch_at_the_primary_workload_is_refused(device: Numbered) -> None:
    device.durations_us = ()
    found = timed(device, 0)
    assert isinstance(found, Rejected) and found.reason == "no-work"


def test_a_grid_that_no_gpu_launches_is_refused(device: Numbered) -> None:
    device.grid = (1, 65536, 1)
    found = timed(device, 0)
    assert isinstance(found, RuntimeFailed) and "65536" in found.evidence


def test_kernels_add_up(device: Numbered) -> None:
    device.durations_us = (10.0, 32.0)
    assert total_us(device.profile([ProfileJob(Path("x"), (), "primary")])[0]) == 42.0


def test_compiled_baselines_are_not_modelled(device: Numbered) -> None:
    with pytest.raises(KernelBlasterError, match="only eager PyTorch is modelled"):
        DeviceJudge(device, EvaluationOptions(baseline="compile"))


def test_a_call_in_five_that_is_slow_by_a_clock_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / PTX).write_text("mov.u64 %rd1, %globaltimer;")
    slow = random.Random(0)

    class Moody:
        """A device on which one profile in five takes forty times as long."""

        spec = gpu_named("h200")

        def profile(self, jobs: Sequence[ProfileJob]) -> list[Profile]:
            return [_profile_of_us(40.0 if slow.random() < 0.2 else 1.0) for _ in jobs]

    binary = SimpleNamespace(path=tmp_path / "candidate.so", compilation=SimpleNamespace(resources=()))
    timer = ModelledTimer(Moody(), None, None)  # type: ignore[arg-type]
    monkeypatch.setattr(timer, "_jobs", lambda paths: [ProfileJob(path, (), "primary") for path in paths])
    missed = 0
    for seed in range(500):
        found = timer.slowest(binary, _profile_of_us(1.0), random.Random(seed))  # type: ignore[arg-type]
        missed += total_us(found) == 1.0
    assert missed <= 1


def _profile_of_us(us: float) -> Profile:
    metric = Metric(name="Duration", unit="us", value=us, tier="modelled")
    kernel = KernelProfile(name="kernel", grid=(1, 1, 1), block=(32, 1, 1), metrics=(metric,))
    return Profile(device="moody", tier="modelled", workload="primary", kernels=(kernel,))
