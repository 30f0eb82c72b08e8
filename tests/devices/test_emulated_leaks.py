"""Scratch memory that a call keeps is named: which allocation of the call, and its size."""

from typing import Any

import pytest

from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.devices.worker_process import WorkerProcess
from kernelblaster.judge.judge import Judge
from kernelblaster.records import Candidate, Rejected, Verification
from kernelblaster.testing.corpus import Corpus

SOURCE = """
__global__ void relu(float* out, const float* x, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = fmaxf(x[i], 0.f);
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


def test_leaks_are_named(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[dict[str, Any]] = []
    command = WorkerProcess.command

    def recorded(self: WorkerProcess, text: str, limit_s: float) -> dict[str, Any]:
        answers.append(command(self, text, limit_s))
        return answers[-1]

    monkeypatch.setattr(WorkerProcess, "command", recorded)
    device = EmulatedDevice()
    judge = Judge(device)
    task = Corpus().task("tests/exploits/tasks/relu.py")
    leaking = judge.check(task, Candidate(source=SOURCE.replace("FREE", "")))
    leaks = [leak for answer in answers for leak in answer.get("leaks", ())]
    answers.clear()
    clean = judge.check(task, Candidate(source=SOURCE.replace("FREE", "cudaFreeAsync(second, stream);")))
    judge.close()
    device.close()
    assert isinstance(leaking.outcome, Rejected) and leaking.outcome.reason == "memory-not-returned"
    assert leaks[0] == "leak: 1000 bytes of cudaMallocAsync number 2 of the call are still held"
    assert isinstance(clean.outcome, Verification), clean.outcome
    assert all(not answer.get("leaks") for answer in answers)
