"""Operators that have kernels of their own: fused as far as they go, they compute what PyTorch does, judged
on the emulated device. All of a kind are outputs of one module, so that one compilation serves them all."""

import sys
from contextlib import closing
from pathlib import Path

import pytest

from kernelblaster.api import load_task, open_device
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.graph import UncoveredOperators
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.records import Candidate, Task, Verification

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from random_plans import fused

FILE = """
import torch
import torch.nn as nn
import torch.nn.functional as F


def whole(x):
    return torch.nan_to_num(torch.tanh(x) * 100).int()


class Model(nn.Module):
    def forward(self, x, y):
        return ({results})


def get_inputs():
    return [torch.randn({shape}), torch.randn({shape})]


def get_init_inputs():
    return []
"""
POINTWISE = (
    *(f"torch.{name}(x)" for name in ("asinh", "trunc", "round")),
    "torch.acos(torch.tanh(x) * 0.9)",
    "torch.special.erfc(x)",
    "torch.atan2(x, y)",
    "torch.where((x > 0) ^ (y > 0), x, y)",
)
QUOTIENTS = (
    "torch.floor(whole(x) * 1000003).float()",
    "torch.remainder(x, 1.5)",
    "torch.remainder(x, -0.75)",
    "torch.remainder(x, y.abs() + 1)",
    "torch.floor_divide(x, 0.3)",
    'torch.div(x, -0.3, rounding_mode="floor")',
    'torch.div(x, 0.3, rounding_mode="trunc")',
    "(whole(x) // 7).float()",
    "(whole(x) % 7).float()",
    'torch.div(whole(x), -7, rounding_mode="floor").float()',
    'torch.div(whole(x), 7, rounding_mode="trunc").float()',
    "(whole(x) >> 2).float()",
    "((whole(x) & 12) | (whole(y) ^ 5)).float()",
)
LOOKED_UP = (
    "torch.index_select(x, 2, torch.arange(0, x.shape[2], 3))",
    "torch.roll(y, (3, -2), (2, 3))",
    "torch.roll(x, (1, 1, 2), (2, 2, 3))",
    "x[:, :, torch.arange(4)[:, None], torch.tensor([3, 1, 0, -1])]",
    "x[:, 1][:, torch.tensor([2, 0, 1, -2])]",
    "x.transpose(1, 2)[:, torch.tensor([5, 1])]",
    "F.unfold(x, 3, padding=1)",
)
RESAMPLED = (
    'F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)',
    'F.interpolate(x, scale_factor=0.5, mode="bilinear", align_corners=False)',
    "F.interpolate(y, scale_factor=1.5)",
)


def task_of(folder: Path, results: tuple[str, ...], shape: str) -> Task:
    path = folder / "task.py"
    path.write_text(FILE.format(results=", ".join(results) + ",", shape=shape))
    return load_task(str(path))


@pytest.mark.parametrize(
    ("results", "shape"),
    [(POINTWISE, "5, 67"), (QUOTIENTS, "37, 67"), (LOOKED_UP, "2, 3, 11, 13"), (RESAMPLED, "1, 2, 7, 9")],
    ids=["pointwise", "quotients", "looked-up", "resampled"],
)
def test_operators_are_right(compiler: str, tmp_path: Path, results: tuple[str, ...], shape: str) -> None:
    task = task_of(tmp_path, results, shape)
    plan = fused(initial_plan(simplify(capture(task))))
    with closing(open_device("emulated")) as device, closing(DeviceJudge(device)) as judge:
        outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


def test_what_cannot_be_looked_up_is_named(tmp_path: Path) -> None:
    task = task_of(tmp_path, ("x.flatten(2)[:, :, torch.tensor([5, 0])]",), "2, 3, 11, 13")
    with pytest.raises(UncoveredOperators, match="of a view"):
        initial_plan(simplify(capture(task)))
