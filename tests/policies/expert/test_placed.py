"""argmax and argmin: right by every kind of reduction, the first NaN before every number, as in PyTorch."""

from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.combines.placed import ARGMAX, ARGMIN
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Verification

SOURCE = """import torch, torch.nn as nn
rows, columns = 64, 65536
SMALL = {"rows": 37, "columns": 72}
class Model(nn.Module):
    def forward(self, x):
        root = torch.sqrt(x + 2.5)  # NaN for one normal value in 160
        return torch.argmax(root, DIM), torch.argmin(root, DIM)
def get_inputs():
    return [torch.randn(rows, columns)]
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("dim", "techniques"),
    [
        (1, ()),
        (1, ("warp_shuffle_reduction", "vectorized_memory_access")),
        (1, ("two_level_reduction",)),
        (0, ("vectorized_memory_access",)),
        (0, ()),
    ],
)
def test_the_first_nan_is_found(
    judge: DeviceJudge, tmp_path: Path, dim: int, techniques: tuple[str, ...]
) -> None:
    file = tmp_path / "placed.py"
    file.write_text(SOURCE.replace("DIM", str(dim)))
    task = load_task(str(file))
    plan = initial_plan(capture(task))
    for name in techniques:
        plan = next(load_techniques()[name](plan))
    assert {ARGMAX, ARGMIN} <= {stage.combine for kernel in plan.kernels for stage in kernel.stages}
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome
