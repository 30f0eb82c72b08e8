"""A verdict with all that is needed to repeat it, on the emulated device."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelblaster.api import DeviceJudge, open_judge
from kernelblaster.errors import KernelBlasterError
from kernelblaster.proof import Proof, prove, read_proof, repeat
from kernelblaster.records import Candidate, Task, Verification
from kernelblaster.records.outcome import CORRECT
from kernelblaster.tasks.catalog import load_task

FILE = """
import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(20, 30)]
def get_init_inputs():
    return []
"""
RELU = """
__global__ void relu(float* out, const float* x, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] < 0 ? 0 : x[i];
}
extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
  relu<<<(unsigned)((x_0 * x_1 + 127) / 128), 128, 0, stream>>>(out, x, x_0 * x_1);
}
"""


@pytest.fixture(scope="module")
def judge(compiler: str) -> Iterator[DeviceJudge]:
    with open_judge("emulated", keep_samples=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    path = tmp_path_factory.mktemp("task") / "relu.py"
    path.write_text(FILE)
    return load_task(str(path))


@pytest.fixture(scope="module")
def proof(judge: DeviceJudge, task: Task) -> Proof:
    return prove(task, Candidate(source=RELU), judge)


def test_a_proof_names_every_draw(proof: Proof) -> None:
    assert isinstance(proof.evaluation.outcome, CORRECT) and proof.evaluation.seed is not None
    assert isinstance(proof.evaluation.verification, Verification)
    assert len(proof.cases) >= 20 and all(case["workload"]["sizes"] for case in proof.cases)
    assert proof.task_source == FILE and proof.candidate_source == RELU
    assert "nvcc" in proof.software and proof.checked


def test_another_judge_repeats_it_to_the_bit(proof: Proof, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_text(proof.model_dump_json())
    with open_judge("emulated") as other:
        repeated = repeat(read_proof(path), other)
    assert repeated.correct and repeated.differences == () and repeated.holds
    then, now = repeated.then.verification, repeated.now.verification
    assert then is not None and now is not None
    assert [case.candidate for case in then.cases] == [case.candidate for case in now.cases]


def test_another_candidate_does_not_repeat_it(proof: Proof, judge: DeviceJudge) -> None:
    forged = proof.model_copy(update={"candidate_source": RELU.replace("< 0 ? 0", "< 0.1f ? 0")})
    assert not repeat(forged, judge).holds


def test_what_is_no_proof_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_text(json.dumps({"format": 7}))
    with pytest.raises(KernelBlasterError, match="not a proof"):
        read_proof(path)
    with pytest.raises(KernelBlasterError, match="cannot be read"):
        read_proof(tmp_path / "missing.json")
