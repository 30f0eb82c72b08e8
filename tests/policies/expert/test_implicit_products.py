"""Convolutions as implicit matrix products on tensor cores are right on the emulated device."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.devices.occupancy import limits_of
from kernelblaster.devices.specs import gpu_named
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.contraction import as_contraction
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.gathered import GatheredHalves, GatheredProduct
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Incorrect, Task, Verification

SOURCE = """import torch, torch.nn as nn, torch.nn.functional as F
batch, height, width = 64, 30, 28
SMALL = {"batch": 3, "height": 12, "width": 10}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.plain = nn.Conv2d(6, 70, 3, padding=1)
        self.strided = nn.Conv2d(6, 33, (5, 2), stride=(2, 3), padding=(2, 1), dilation=(1, 2), bias=False)
        self.grouped = nn.Conv2d(6, 66, 3, padding="same", groups=2)
        self.line = nn.Conv1d(6, 64, 7, padding=3)
        self.volume = nn.Conv3d(2, 32, (2, 3, 3), padding=(0, 1, 1))
        self.spread = nn.ConvTranspose2d(6, 33, 4, stride=2, padding=1)
        self.pixel = nn.Conv2d(6, 48, 1)
    def forward(self, x):
        plain = F.relu(self.plain(x))
        return (
            plain * 2 + x.mean(),
            F.pixel_shuffle(self.strided(x)[:, :32], 2),
            self.grouped(x),
            self.line(x.flatten(2)),
            torch.sigmoid(self.volume(x.unflatten(1, (2, 3)))),
            self.spread(x) + self.plain.bias[:33, None, None],
            self.pixel(x),
        )
def get_inputs():
    return [torch.randn(batch, 6, height, width)]
def get_init_inputs():
    return []
"""


def implicit(plan: Plan, *further: str) -> Plan:
    """The plan after fusion with every convolution on tensor cores."""
    techniques = load_techniques()
    while (following := next(techniques["kernel_fusion"](plan), None)) is not None:
        plan = following
    for name in ("implicit_matrix_product", *further):
        plan = next(techniques[name](plan))
    return plan


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    file = tmp_path_factory.mktemp("task") / "convolutions.py"
    file.write_text(SOURCE)
    return load_task(str(file))


@pytest.fixture(scope="module")
def first(task: Task) -> Iterator[Plan]:
    yield initial_plan(simplify(capture(task)))


def test_convolutions_of_every_kind_are_right_with_what_follows_them(
    judge: DeviceJudge, task: Task, first: Plan
) -> None:
    plan = implicit(first)
    assert sum(isinstance(kernel.schedule, GatheredProduct) for kernel in plan.kernels) == 7
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


def test_rounded_to_tf32_they_are_no_longer_float32(judge: DeviceJudge) -> None:
    """Where the baseline is not rounded: on the host."""
    task = load_task("core/level1/conv2d_7x7_stride2")
    plan = implicit(initial_plan(capture(task)), "tf32_operands")
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Incorrect) and outcome.reason == "wrong values"


def test_the_longest_axes_are_gathered_together_and_the_others_walked(first: Plan) -> None:
    found = {
        kernel.name: [[axis.name for axis in axes] for axes in (c.batch, c.rows, c.columns, c.outer, c.inner)]
        for kernel in first.kernels
        if (c := as_contraction(kernel, first)) is not None
    }
    assert found["convolution_kernel"] == [[], ["i1"], ["i0", "i2", "i3"], ["w0"], ["w1", "member"]]


@pytest.mark.parametrize("name", ["a6000", "h200"])
def test_tiles_fit_the_shared_memory_of_the_gpu(first: Plan, name: str) -> None:
    gpu = gpu_named(name)
    room = limits_of(gpu.architecture).shared_bytes - limits_of(gpu.architecture).reserved_shared_bytes
    known = load_techniques(gpu)
    plans = list(known["implicit_matrix_product"](first))
    deeper = [further for plan in plans for further in known["pipeline_depth"](plan)]
    tiles = [k.schedule for plan in (*plans, *deeper) for k in plan.kernels]
    assert {tile.stages for tile in tiles if isinstance(tile, GatheredProduct)} >= {2, 3, 4}
    assert all(tile.shared_bytes() <= room for tile in tiles if isinstance(tile, GatheredProduct))


def test_a_pipeline_grows_until_shared_memory_is_full(first: Plan) -> None:
    start = implicit(first)
    (tile,) = {k.schedule for k in start.kernels if k.name == "convolution_kernel"}
    assert isinstance(tile, GatheredProduct)
    full = 227 * 1024 // (tile.shared_bytes() // tile.stages)
    deepest = (replace(k, schedule=replace(tile, stages=full)) for k in start.kernels if k.schedule == tile)
    further = load_techniques()["pipeline_depth"](start.with_kernels(tuple(deepest)))
    assert [plan.kernels[0].schedule for plan in further] == [replace(tile, stages=full - 1)]


def test_linear_layers_and_small_groups_are_left_to_others(tmp_path: Path) -> None:
    file = tmp_path / "others.py"
    file.write_text(
        "import torch, torch.nn as nn\n"
        "class Model(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.linear, self.small = nn.Linear(64, 96), nn.Conv2d(6, 33, 3, groups=3)\n"
        "    def forward(self, x, y):\n"
        "        return self.linear(x), self.small(y)\n"
        "def get_inputs():\n"
        "    return [torch.randn(16, 48, 64), torch.randn(64, 6, 30, 28)]\n"
    )
    refusals = load_techniques()["implicit_matrix_product"].why_not(
        initial_plan(simplify(capture(load_task(str(file)))))
    )
    assert {why for why in refusals.values() if "its schedule is" not in why} == {
        "it has one K axis, and is a matrix product as it is",
        "its results fill less than half of a tile",
    }


@pytest.fixture(scope="module")
def rounded(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """Convolutions whose operands PyTorch rounds to TF32 on a GPU: with multiples of four channels."""
    source = SOURCE.replace("(6, ", "(8, ").replace("batch, 6", "batch, 8").replace("(2, 3))", "(4, 2))")
    file = tmp_path_factory.mktemp("task") / "rounded.py"
    file.write_text(source.replace("nn.Conv3d(2,", "nn.Conv3d(4,"))
    return load_task(str(file))


def test_scaled_halves_are_as_precise_as_tf32(judge: DeviceJudge, rounded: Task) -> None:
    plan = implicit(initial_plan(simplify(capture(rounded))), "scaled_half_operands", "index_simplification")
    assert sum(isinstance(kernel.schedule, GatheredHalves) for kernel in plan.kernels) == 7
    outcome = judge.check(rounded, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


def test_sums_follow_a_column_whose_power_of_two_grows(judge: DeviceJudge, tmp_path: Path) -> None:
    """The second half of the channels is 4096 times as large, and so are the filters of the first one."""
    file = tmp_path / "growing.py"
    file.write_text(
        "import torch, torch.nn as nn, torch.nn.functional as F\n"
        "batch, height, width = 64, 12, 10\n"
        'SMALL = {"batch": 2, "height": 5, "width": 6}\n'
        "class Model(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.conv = nn.Conv2d(64, 32, 3, padding=1)\n"
        '        self.register_buffer("ramp", 4096.0 ** (torch.arange(64) // 32).reshape(64, 1, 1))\n'
        "    def forward(self, x):\n"
        "        return F.conv2d(x * self.ramp, self.conv.weight / self.ramp, self.conv.bias, padding=1)\n"
        "def get_inputs():\n"
        "    return [torch.randn(batch, 64, height, width)]\n"
    )
    task, techniques = load_task(str(file)), load_techniques()
    plan = next(techniques["implicit_matrix_product"](initial_plan(simplify(capture(task)))))
    plan = next(techniques["scaled_half_operands"](plan))
    assert any(isinstance(k.schedule, GatheredHalves) and k.schedule.block_k == 32 for k in plan.kernels)
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome
