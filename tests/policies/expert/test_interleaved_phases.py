"""Transposed convolutions whose phases share a block are right on the emulated device."""

from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.phases import Phases, as_phases
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
    "ConvTranspose1d(CHANNELS, 72, 4, stride=2)",
    "ConvTranspose3d(CHANNELS, 32, 2, stride=2)",
)
APART = (
    "ConvTranspose2d(CHANNELS, 40, (3, 5), stride=(2, 3), padding=(1, 2), dilation=(2, 1))",
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


def test_a_cell_and_its_phases_follow_from_stride_and_padding(tmp_path: Path) -> None:
    """Of a filter with five elements, phase 0 has three taps, and phase 1 two."""
    layers = ("ConvTranspose2d(CHANNELS, 32, (5, 4), stride=2, padding=(3, 1))",)
    plan = first_plan(written(tmp_path, layers, 20))
    found = as_phases(plan.kernels[0], plan)
    assert isinstance(found, Phases)
    assert [(d.stride, d.ahead, d.reads, d.reach, d.first) for d in found.dimensions] == [
        (2, 3, 3, 2, 1),
        (2, 1, 2, 1, 0),
    ]
    assert [plan.extent(d.cells) for d in found.dimensions] == [29, 29]  # 57 and 56 results
    assert {tap for (row, _), (tap, _) in found.taken if row == 0} == {0, 1, 2}
    assert {tap for (row, _), (tap, _) in found.taken if row == 1} == {0, 1}


def test_phases_without_taps_need_no_sums(tmp_path: Path) -> None:
    layers = ("ConvTranspose2d(CHANNELS, 64, 3, stride=5, padding=1, dilation=2)",)
    plan = first_plan(written(tmp_path, layers, 32))
    found = as_phases(plan.kernels[0], plan)
    assert isinstance(found, Phases)
    assert found.live == [(row, column) for row in (0, 2, 4) for column in (0, 2, 4)]
    assert len(found.phases) == 25


def test_it_says_why_other_convolutions_are_not_for_it(tmp_path: Path) -> None:
    layers = (
        "ConvTranspose2d(CHANNELS, 32, 3, stride=2, groups=4)",
        "ConvTranspose2d(CHANNELS, 32, 3)",
        "ConvTranspose2d(CHANNELS, 32, 3, stride=2, dilation=3)",
        "ConvTranspose1d(CHANNELS, 64, 23, stride=2)",
    )
    refusals = []
    for layer in layers:
        plan = first_plan(written(tmp_path, (layer,), 20))
        refusals += load_techniques()["interleaved_phases"].why_not(plan).values()
    assert refusals == [
        "its channels are in groups",
        "it is no transposed convolution with a stride",
        "its windows do not slide over cells of results",
        "its windows reach too far back along memory",
    ]


RAMP = "4096.0 ** (torch.arange(64) // 32).reshape(64, 1, 1)"
SPREAD = "2.0 ** (24 * (torch.arange(64) % 3)).reshape(64, 1, 1, 1)"


@pytest.mark.parametrize(
    ("ramp", "operands"),
    [
        (RAMP, "x * self.ramp, self.conv.weight / self.ramp[:, None]"),
        (SPREAD, "x * self.ramp[: x.shape[0]], self.conv.weight"),
    ],
    ids=["channels", "images"],
)
def test_powers_of_two_follow_the_operand(
    judge: DeviceJudge, tmp_path: Path, ramp: str, operands: str
) -> None:
    """The second half of the channels is 4096 times as large, and so are the filters of the first one; or
    images that share a tile are of very different sizes."""
    file = tmp_path / "growing.py"
    file.write_text(
        "import torch, torch.nn as nn, torch.nn.functional as F\n"
        "batch, height, width = 64, 12, 10\n"
        'SMALL = {"batch": 4, "height": 5, "width": 6}\n'
        "class Model(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.conv = nn.ConvTranspose2d(64, 32, 4, stride=2)\n"
        f'        self.register_buffer("ramp", {ramp})\n'
        "    def forward(self, x):\n"
        f"        return F.conv_transpose2d({operands}, self.conv.bias, stride=2)\n"
        "def get_inputs():\n"
        "    return [torch.randn(batch, 64, height, width)]\n"
    )
    task = load_task(str(file))
    plan = next(load_techniques()["interleaved_phases"](initial_plan(simplify(capture(task)))))
    assert schedules(plan)[0].block_k == 32
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome
