"""Plans give candidates that are right on the emulated device, as first written and rewritten."""

from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Verification

INITIAL = (
    "core/level1/axpy",
    "core/level1/max_with_index",
    "core/level1/group_norm",
    "core/level1/cross_entropy",
    "core/level1/matmul_both_transposed",
    "core/level1/sum_all",
    "core/level2/rmsnorm_rotary",
    "core/level2/linear_groupnorm_hardtanh",
)
REWRITTEN = (
    "core/level1/hinge_loss",
    "core/level1/broadcast_affine",
    "core/level1/cross_entropy",
    "core/level1/instance_norm",
    "core/level2/conv2d_hardswish_maxpool",
    "core/level2/matmul_bias_softmax",
    "core/level2/residual_layernorm_gelu",
    "core/level2/rmsnorm_rotary",
)

WINDOWS = """
import torch
import torch.nn as nn
import torch.nn.functional as F

batch, height, width = 2, 9, 8
SMALL = {"batch": 1, "height": 7, "width": 6}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(6, 8, (3, 2), stride=(1, 2), padding=(1, 0), dilation=(2, 1), groups=2)
        self.second = nn.ConvTranspose2d(8, 5, 3, stride=2, padding=1, output_padding=1)
        self.last = nn.Conv2d(5, 5, 3, padding=2, groups=5, bias=False)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first(x)), (3, 2), stride=2, padding=1, ceil_mode=True)
        x = self.last(self.second(x) * 0.5)
        x = F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)
        return F.interpolate(x, scale_factor=(2, 3)).repeat(1, 2, 1, 1).unfold(2, 3, 2)

def get_inputs():
    return [torch.randn(batch, 6, height, width)]

def get_init_inputs():
    return []
"""


def exhausted(plan: Plan, *techniques: str) -> Plan:
    """The plan after each technique was applied wherever it can be, one after the other."""
    for name in techniques:
        while (following := next(load_techniques()[name](plan), None)) is not None:
            plan = following
    return plan


@pytest.mark.parametrize("name", INITIAL)
def test_initial_candidates_are_right(judge: DeviceJudge, name: str) -> None:
    task = load_task(name)
    outcome = judge.check(task, Candidate(source=emit(initial_plan(capture(task))))).outcome
    assert isinstance(outcome, Verification), outcome


@pytest.mark.parametrize("name", REWRITTEN)
def test_rewritten_candidates_are_right(judge: DeviceJudge, name: str) -> None:
    task = load_task(name)
    first = initial_plan(capture(task))
    plan = exhausted(first, "kernel_fusion", "vectorized_memory_access")
    assert len(plan.kernels) < len(first.kernels)
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precisions_are_right(judge: DeviceJudge, dtype: str) -> None:
    task = load_task("core/level1/softmax", dtype)  # type: ignore[arg-type]
    outcome = judge.check(task, Candidate(source=emit(initial_plan(capture(task))))).outcome
    assert isinstance(outcome, Verification), outcome


def test_windows_after_windows_are_right_in_half_precision(judge: DeviceJudge, tmp_path: Path) -> None:
    """Sums are kept in float; what follows a convolution is done in its kernel."""
    file = tmp_path / "windows.py"
    file.write_text(WINDOWS)
    task = load_task(str(file), "bfloat16")
    plan = exhausted(initial_plan(capture(task)), "kernel_fusion")
    families = [kernel.family for kernel in plan.kernels]
    pools, products = ["column_reduction"], ["matrix_product"]
    assert families == [*products, *pools, *products, *pools * 2, "pointwise"]
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome
