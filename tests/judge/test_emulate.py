"""Candidates on the PTX machine, through the same compile and verify stages as on a GPU."""

from collections.abc import Iterator

import pytest

from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.errors import BadTask, KernelBlasterError
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.records import Candidate, Incorrect, Rejected, RuntimeFailed, Unsupported, Verification
from kernelblaster.testing.corpus import ROOT, Corpus

CORPUS = Corpus()
HONEST = ROOT / "tests" / "exploits" / "honest"
RIGHT = (
    "argmax_packed_atomics",
    "cross_entropy_device_global",
    "layer_norm_groups",
    "matmul_async_copy",
    "relu_inline_ptx",
    "rowsum_scratch",
    "scaled_linear_constant_memory",
    "softmax_dynamic_shared",
)
RELU = """
__global__ void relu(float* out, const float* x, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  BODY
}
extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
  int64_t n = x_0 * x_1;
  float* scratch = nullptr;
  cudaMallocAsync((void**)&scratch, n * sizeof(float), stream);
  relu<<<(unsigned)((n + 127) / 128), 128, 0, stream>>>(ARGUMENTS);
  cudaFreeAsync(scratch, stream);
}
"""


@pytest.fixture(scope="module")
def judge(compiler: str) -> Iterator[DeviceJudge]:
    device = EmulatedDevice()
    opened = DeviceJudge(device)
    yield opened
    opened.close()
    device.close()


def relu(body: str, arguments: str = "out, x, n") -> Candidate:
    return Candidate(source=RELU.replace("BODY", body).replace("ARGUMENTS", arguments))


@pytest.mark.parametrize("name", RIGHT)
def test_honest_controls_are_right_and_counted(judge: DeviceJudge, name: str) -> None:
    found = judge.check(*CORPUS.read(HONEST / f"{name}.cu"))
    assert isinstance(found.outcome, Verification), found.outcome
    assert found.counters is not None and found.counters.tier == "emulated"
    for kernel in found.counters.kernels:
        metric = kernel.metric("Warp Instructions")
        assert metric is not None and isinstance(metric.value, float) and metric.value > 0


@pytest.mark.parametrize(
    ("candidate", "outcome", "reason"),
    [
        (relu("if (i < n) out[i] = (x[i] < 0 ? 0 : x[i]);"), Verification, ""),
        (relu("if (i < n) out[i] = fabsf(x[i]);"), Incorrect, "wrong values"),
        (relu("if (i < n - 1) out[i] = (x[i] < 0 ? 0 : x[i]);"), Incorrect, "unwritten output"),
        (relu("out[i] = (x[i] < 0 ? 0 : x[i]);"), Rejected, "out-of-bounds"),
        (relu("if (i < n) out[i] = x[i + 1] - x[i + 1] + (x[i] < 0 ? 0 : x[i]);"), Rejected, "out-of-bounds"),
        (
            relu("if (i < n) out[i] = 0 * x[i] + (x[i] < 0 ? 0 : x[i]);", "out, scratch, n"),
            Rejected,
            "uninitialized",
        ),
        (relu("if (i < n) out[i] = (x[i] < 0 ? 0 : x[i]); __trap();"), Rejected, "trap"),
    ],
)
def test_what_the_machine_finds(judge: DeviceJudge, candidate: Candidate, outcome: type, reason: str) -> None:
    task = CORPUS.task("tests/exploits/tasks/relu.py")
    found = judge.check(task, candidate)
    assert isinstance(found.outcome, outcome), found.outcome
    if not isinstance(found.outcome, Verification):
        assert isinstance(found.outcome, Incorrect | Rejected | RuntimeFailed)
        assert found.outcome.reason == reason


def test_findings_name_the_source_line(judge: DeviceJudge) -> None:
    task = CORPUS.task("tests/exploits/tasks/relu.py")
    outcome = judge.check(task, relu("out[i] = (x[i] < 0 ? 0 : x[i]);")).outcome
    assert isinstance(outcome, Rejected) and "line 4" in outcome.evidence


def test_what_is_not_emulated_is_no_verdict(judge: DeviceJudge) -> None:
    task, relu = CORPUS.read(HONEST / "relu_naive.cu")
    adds = 'unsigned sum; asm volatile("vadd.u32.u32.u32.sat %0, 3, 4;" : "=r"(sum));'
    body = relu.source.index("{", relu.source.index("__global__")) + 1
    source = relu.source[:body] + f" {adds} if (sum == 8) return; " + relu.source[body:]
    outcome = judge.evaluate(task, Candidate(source=source)).outcome
    assert isinstance(outcome, Unsupported) and "vadd" in outcome.reason, outcome


def test_planted_errors_are_caught(judge: DeviceJudge) -> None:
    for name in ("layer_norm", "two_outputs"):
        task, candidate = CORPUS.read(ROOT / "tests" / "candidates" / f"{name}.cu")
        assert isinstance(judge.check(task, candidate).outcome, Verification)
        planted = candidate.with_defines({"PLANTED_ERROR": 1})
        assert isinstance(judge.check(task, planted).outcome, Incorrect)


def test_results_remembered_by_address_are_caught(judge: DeviceJudge) -> None:
    cheat = ROOT / "tests" / "exploits" / "cheats" / "04_pointer_keyed_cache.cu"
    outcome = judge.check(*CORPUS.read(cheat)).outcome
    assert isinstance(outcome, Rejected) and outcome.reason == "host-state"


def test_a_task_without_a_small_workload_says_so(judge: DeviceJudge) -> None:
    task = CORPUS.task("tests/exploits/tasks/relu.py")
    large = task.model_copy(update={"workloads": (task.primary,)})
    with pytest.raises(BadTask, match="give small ones with SMALL"):
        judge.check(large, relu("if (i < n) out[i] = (x[i] < 0 ? 0 : x[i]);"))


def test_unknown_gpus_are_named(compiler: str) -> None:
    with pytest.raises(KernelBlasterError, match="is not one of"):
        EmulatedDevice("voodoo")
