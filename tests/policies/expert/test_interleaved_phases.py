"""Transposed convolutions whose phases share a block are right on the emulated device."""

from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.phases import InterleavedPhases
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Task, Verification

SOURCE = """import torch, torch.nn as nn
batch, height, width = 64, 30, 28
SMALL = {"batch": 3, "height": 7, "width": 9}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([
            LAYERS
        ])
    def forward(self, line, plane, volume):
        forms = {1: line, 2: plane, 3: volume}
        return tuple(FORWARD)
def get_inputs():
    shapes = [(width * 20,), (height, width), (3, height, width)]
    return [torch.randn(batch, CHANNELS, *shape) for shape in shapes]
def get_init_inputs():
    return []
"""
PLANE = (
    "ConvTranspose2d(CHANNELS, 32, 4, stride=2, padding=1)",
    "ConvTranspose2d(CHANNELS, 33, 3, stride=2, padding=1, output_padding=1, bias=False)",
    "ConvTranspose2d(CHANNELS, 16, 3, stride=2)",
    "ConvTranspose2d(CHANNELS, 48, 2, stride=2)",
    "ConvTranspose2d(CHANNELS, 64, (5, 4), stride=(1, 2), padding=(0, 3), dilation=(2, 1))",
    "ConvTranspose2d(CHANNELS, 64, (3, 2), stride=(3, 1), padding=(2, 0))",
    "ConvTranspose1d(CHANNELS, 72, 4, stride=2)",
    "ConvTranspose3d(CHANNELS, 32, 2, stride=2)",
)
APART = (
    "ConvTranspose2d(CHANNELS, 64, 3, stride=5, padding=1, dilation=2)",
    "ConvTranspose2d(CHANNELS, 40, (3, 5), stride=(2, 3), padding=(1, 2), dilation=(2, 1))",
    "ConvTranspose1d(CHANNELS, 64, 3, stride=2, padding=1, dilation=2)",
    "ConvTranspose1d(CHANNELS, 64, 7, stride=4, padding=5, output_padding=3)",
    "ConvTranspose3d(CHANNELS, 16, 3, stride=2, padding=1)",
)


def written(folder: Path, layers: tuple[str, ...], channels: int, forward: str = "") -> Task:
    """A task of these layers, each with its own output."""
    dimensions = [int(layer[len("ConvTranspose")]) for layer in layers]
    forward = forward or f"layer(forms[dim]) for layer, dim in zip(self.layers, {dimensions})"
    source = SOURCE.replace("LAYERS", ", ".join(f"nn.{layer}" for layer in layers))
    file = folder / "transposed.py"
    file.write_text(source.replace("FORWARD", forward).replace("CHANNELS", str(channels)))
    return load_task(str(file))


def first_plan(task: Task) -> Plan:
    plan = initial_plan(simplify(capture(task)))
    while (following := next(load_techniques()["kernel_fusion"](plan), None)) is not None:
        plan = following
    return plan


def schedules(plan: Plan) -> list[InterleavedPhases]:
    return [k.schedule for k in plan.kernels if isinstance(k.schedule, InterleavedPhases)]


@pytest.mark.parametrize(("layers", "channels"), [(PLANE, 20), (APART, 32)], ids=["plane", "apart"])
def test_transposed_convolutions_of_every_kind_are_right(
    judge: DeviceJudge, tmp_path: Path, layers: tuple[str, ...], channels: int
) -> None:
    task = written(tmp_path, layers, channels)
    plan = next(load_techniques()["interleaved_phases"](first_plan(task)))
    assert len(schedules(plan)) == len(layers)
    plan = next(load_techniques()["index_simplification"](plan))
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome
