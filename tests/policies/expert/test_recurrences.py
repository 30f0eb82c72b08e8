"""Recurrent layers are right on the emulated device: stacked, in both directions, batch first, with given
and with final states; what is not covered is named."""

from pathlib import Path

import pytest
import torch
from torch import nn

from kernelblaster.api import load_task
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.graph import UncoveredOperators
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.recurrences import StepByWarps, StepPerLaunch
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Task, Verification
from kernelblaster.tasks.torch_programs import task_from_module

SOURCE = """import torch, torch.nn as nn
batch, length, features, hidden = 8, 12, 24, 40
SMALL = {{"batch": 3, "length": 4, "features": 5, "hidden": 6}}
class Model(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        {layers}
    def forward(self, x):
        {body}
def get_inputs():
    return [torch.randn(length, batch, features)]
def get_init_inputs():
    return [features, hidden]
"""
STACKED = (
    "self.cell = nn.LSTM(features, hidden, num_layers=2, bidirectional=True, batch_first=True)",
    "out, (h, c) = self.cell(torch.relu(x.transpose(0, 1))); return out, h, c * 2",
)
SEVERAL = (
    "self.one, self.two = nn.RNN(features, hidden, bias=False), nn.RNN(hidden, hidden, nonlinearity='relu')\n"
    "        self.three = nn.GRU(hidden, hidden, num_layers=2)",
    "one, last = self.one(x); two, _ = self.two(one, last)\n"
    "        three, end = self.three(two); return three * 2, end",
)
TUNING = (
    "kernel_fusion",
    "warp_shuffle_reduction",
    "vectorized_memory_access",
    "register_tiling",
    "index_simplification",
)


def task_of(folder: Path, parts: tuple[str, str]) -> Task:
    file = folder / "recurrence.py"
    file.write_text(SOURCE.format(layers=parts[0], body=parts[1]))
    return load_task(str(file))


def tuned(plan: Plan) -> Plan:
    techniques = load_techniques()
    for name in TUNING:
        while (following := next(techniques[name](plan), None)) is not None:
            plan = following
    return plan


@pytest.mark.parametrize(("parts", "tune"), [(STACKED, True), (SEVERAL, False)], ids=["stacked", "several"])
def test_recurrences_are_right(
    judge: DeviceJudge, tmp_path: Path, parts: tuple[str, str], tune: bool
) -> None:
    task = task_of(tmp_path, parts)
    plan = initial_plan(simplify(capture(task)))
    plan = tuned(plan) if tune else plan
    expected = StepByWarps if tune else StepPerLaunch
    assert sum(isinstance(kernel.schedule, expected) for kernel in plan.kernels) == 4
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


def test_steps_are_a_loop_around_launches(tmp_path: Path) -> None:
    source = emit(initial_plan(capture(task_of(tmp_path, SEVERAL))))
    assert source.count("for (int64_t rnn_tanh_step = 0; rnn_tanh_step < x_0; ++rnn_tanh_step) {\n") == 1


def test_projections_are_named(tmp_path: Path) -> None:
    parts = "self.cell = nn.LSTM(features, hidden, proj_size=3)", "return self.cell(x)[0]"
    with pytest.raises(UncoveredOperators, match=r"lstm\.input with projections"):
        initial_plan(capture(task_of(tmp_path, parts)))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_layer_at_hand_is_one_operator(kind: type[nn.Module]) -> None:
    layer = kind(24, 16, batch_first=True)
    task = task_from_module(layer.eval(), [torch.randn(8, 12, 24)])
    plan = initial_plan(simplify(capture(task)))
    assert sum(isinstance(kernel.schedule, StepPerLaunch) for kernel in plan.kernels) == 1
