"""Kernels that only their file knows."""

from pathlib import Path

from kernelblaster.api import load_task, open_judge
from kernelblaster.records import Candidate
from kernelblaster.records.outcome import CORRECT

TASK = """
import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(300)]
def get_init_inputs():
    return []
"""
SOURCE = """
namespace {
__device__ float largest(float a, float b) { return b > a ? b : a; }
__global__ void relu(float* out, const float* x, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = largest(x[i], 0.0f);
}
}  // namespace
extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t n, cudaStream_t stream) {
    relu<<<(n + 255) / 256, 256, 0, stream>>>(out, x, n);
}
"""


def test_a_kernel_in_an_anonymous_namespace_is_found(compiler: str, tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(TASK)
    with open_judge("emulated") as judge:
        evaluation = judge.evaluate(load_task(str(tmp_path / "task.py")), Candidate(source=SOURCE))
    assert isinstance(evaluation.outcome, CORRECT), evaluation.outcome
