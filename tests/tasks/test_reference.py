"""A module made ready to run on a device: here the meta device, which like a GPU is not the host."""

from pathlib import Path

import torch

from kernelblaster.tasks.catalog import load_task
from kernelblaster.tasks.reference import ModuleReference, open_reference

FILE = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(40, 24)
        self.norm = nn.BatchNorm1d(24)
        self.eval()
    def forward(self, x):
        return self.norm(self.linear(x))
def get_inputs():
    return [torch.randn(32, 40)]
def get_init_inputs():
    return []
"""


def test_parameters_are_where_the_module_runs(tmp_path: Path) -> None:
    (tmp_path / "linear.py").write_text(FILE)
    task = load_task(str(tmp_path / "linear.py"))
    here = open_reference(task, task.primary, torch.device("cpu"))
    there = ModuleReference(task, "primary", torch.device("meta"), donor=here)
    assert len(there.parameters) == len(task.signature.parameters) == len(here.parameters)
    assert {p.device.type for p in here.parameters} == {"cpu"}
    assert {p.device.type for p in there.parameters} == {"meta"}
    inputs = [torch.empty(32, 40, device="meta")]
    there.bind(there.parameters)
    assert there.run(inputs)[0].device.type == "meta"
