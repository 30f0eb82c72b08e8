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


SEQUENTIAL = """import torch, torch.nn as nn
class Model(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(64, 32), nn.LayerNorm(32))
        self._0_weight = nn.Parameter(torch.rand(32))
        self.out = nn.Parameter(torch.rand(32))
        self.register_buffer("union", torch.rand(32))
        self.named = nn.ParameterDict({"a-b": torch.rand(32), "a_b": torch.rand(32)})
    def forward(self, template, switch):
        y = self[1](self[0](template)) * self._0_weight + self.out * switch
        return y + self.union + self.named["a-b"] - self.named["a_b"] ** 2
def get_inputs():
    return [torch.randn(512, 64), 0.5]
def get_init_inputs():
    return []
"""


def test_names_that_are_none_in_c_become_such_and_stay_apart(judge: DeviceJudge, tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(SEQUENTIAL)
    task = load_task(str(tmp_path / "task.py"))
    names = [tensor.name for tensor in task.signature.tensors] + [s.name for s in task.signature.sizes]
    assert len({*names}) == len(names) and all(name.isidentifier() for name in names)
    assert {"template_", "_0_weight", "_0_weight_parameter", "out_parameter", "union_parameter"} <= {*names}
    outcome = judge.check(task, Candidate(source=emit(initial_plan(capture(task))))).outcome
    assert isinstance(outcome, Verification), outcome
