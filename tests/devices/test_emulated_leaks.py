"""Scratch memory that a call keeps is named: which allocation of the call, and its size."""

from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.records import Candidate, Rejected, Verification
from kernelblaster.testing.corpus import Corpus

SOURCE = """
__global__ void relu(float* out, const float* x, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] < 0 ? 0 : x[i];
}
extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
  int64_t n = x_0 * x_1;
  void *first = nullptr, *second = nullptr;
  cudaMallocAsync(&first, 64, stream);
  cudaMallocAsync(&second, 1000, stream);
  relu<<<(unsigned)((n + 127) / 128), 128, 0, stream>>>(out, x, n);
  cudaFreeAsync(first, stream);
  FREE
}
"""


def test_leaks_are_named(compiler: str) -> None:
    device = EmulatedDevice()
    judge = DeviceJudge(device)
    task = Corpus().task("tests/exploits/tasks/relu.py")
    leaking = judge.check(task, Candidate(source=SOURCE.replace("FREE", "")))
    clean = judge.check(task, Candidate(source=SOURCE.replace("FREE", "cudaFreeAsync(second, stream);")))
    judge.close()
    device.close()
    assert isinstance(leaking.outcome, Rejected) and leaking.outcome.reason == "memory-not-returned"
    named = "leak: 1000 bytes of cudaMallocAsync number 2 of the call are still held"
    assert named in leaking.outcome.evidence
    assert isinstance(clean.outcome, Verification), clean.outcome
