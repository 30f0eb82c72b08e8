"""`topk` of one or two elements: right by every kind of reduction, ties and NaN included, or refused."""

from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.combines.second_largest import SECOND_LARGEST
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.graph import UncoveredOperators
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Task, Verification

SOURCE = """import torch, torch.nn as nn
rows, columns = 64, 65536
SMALL = {"rows": 5, "columns": 72}
class Model(nn.Module):
    def forward(self, x):
        BODY
def get_inputs():
    return [torch.randn(rows, columns)]
def get_init_inputs():
    return []
"""
ALONG = """best = torch.topk(x, 2, 1).values
        return best[:, 0] - best[:, 1], torch.topk((x * 2).clamp(-9, 9).int(), 2, 1).values"""
ACROSS = """best = torch.topk(x, 2, 0).values
        root = torch.topk(torch.sqrt(x + 1), 2, 0).values
        return best, torch.topk(x, 1, 0).values * 3, torch.where(root == root, root, -1.0)"""


def task_of(folder: Path, body: str) -> Task:
    file = folder / "largest.py"
    file.write_text(SOURCE.replace("BODY", body))
    return load_task(str(file))


def after(plan: Plan, *techniques: str) -> Plan:
    for name in techniques:
        plan = next(load_techniques()[name](plan))
    return plan


@pytest.mark.parametrize(
    ("body", "techniques"),
    [
        (ALONG, ()),
        (ALONG, ("kernel_fusion",)),
        (ALONG, ("warp_shuffle_reduction", "vectorized_memory_access")),
        (ALONG, ("two_level_reduction",)),
        (ACROSS, ()),
        (ACROSS, ("two_level_reduction",)),
        (ACROSS, ("vectorized_memory_access",)),
    ],
)
def test_the_largest_two_are_right(
    judge: DeviceJudge, tmp_path: Path, body: str, techniques: tuple[str, ...]
) -> None:
    task = task_of(tmp_path, body)
    plan = after(initial_plan(capture(task)), *techniques)
    assert any(stage.combine == SECOND_LARGEST for kernel in plan.kernels for stage in kernel.stages)
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return torch.topk(x, 2, 1)", "the places that"),
        ("return torch.topk(x, 3, 1).values", "of other than one or two elements"),
        ("return torch.topk(x, 2, 1, largest=False).values", "of the smallest elements"),
    ],
)
def test_what_is_not_covered_is_refused(tmp_path: Path, body: str, why: str) -> None:
    with pytest.raises(UncoveredOperators, match=why):
        initial_plan(capture(task_of(tmp_path, body)))
