"""A module may call its tensors and numbers what the emitted code calls its own variables."""

from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Verification

SOURCE = """import torch, torch.nn as nn
n = 256
SMALL = {"n": 37}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.randn(1))
    def forward(self, k, row, i0, tile, c, total: float):
        y = torch.softmax(k @ row + c, dim=-1) * total + i0
        return y + tile.sum(dim=0) * self.first, (y * tile).mean(dim=1)
def get_inputs():
    return [*(torch.randn(n, n) for _ in range(4)), torch.randn(n), 0.5]
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    "techniques", [(), ("kernel_fusion", "split_operand_tensor_cores"), ("kernel_fusion", "register_tiling")]
)
def test_names_do_not_clash(judge: DeviceJudge, tmp_path: Path, techniques: tuple[str, ...]) -> None:
    (tmp_path / "task.py").write_text(SOURCE)
    task = load_task(str(tmp_path / "task.py"))
    plan = initial_plan(capture(task))
    for technique in techniques:
        plan = next(load_techniques()[technique](plan))
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome
