"""Which techniques may fit a task, from the operators in its source."""

from pathlib import Path

import pytest

from kernelblaster.policies.llm.families import may_use
from kernelblaster.tasks.catalog import load_task

FILE = """
import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, x):
        return {result}


def get_inputs():
    return [torch.randn(2, 3, 8, 8)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("result", "has_product"),
    [
        ("F.interpolate(x, scale_factor=2, mode='bilinear').softmax(1)", False),
        ("x @ x.transpose(2, 3)", True),
        ("F.bilinear(x, x, torch.ones(4, 8, 8))", True),
    ],
)
def test_tensor_cores_are_for_products(tmp_path: Path, result: str, has_product: bool) -> None:
    (tmp_path / "task.py").write_text(FILE.format(result=result))
    task = load_task(str(tmp_path / "task.py"))
    assert may_use(task, "split_operand_tensor_cores") == has_product
    assert may_use(task, "vectorized_memory_access")
