"""What the effect of a rounding of the inputs excuses in rows with different kinds of values."""

from pathlib import Path
from random import Random

import pytest
import torch

from kernelblaster.judge.baseline import ModuleBaseline
from kernelblaster.judge.case import LENIENCE, SORTED, Case
from kernelblaster.judge.compare_outputs import OutputComparer
from kernelblaster.judge.layout import lay_out, slot_bytes
from kernelblaster.judge.operand_rounding import OperandRounding
from kernelblaster.judge.samples import OutputSample, allowed, share
from kernelblaster.judge.truth import Truth
from kernelblaster.tasks.catalog import load_task
from kernelblaster.tasks.distributions import Distribution
from kernelblaster.testing.fake_device import FakeDevice

ROWS, COLUMNS, LANES = 24, 4096, 16
FILE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return {result}

def get_inputs():
    return [torch.randn({rows}, {columns})]

def get_init_inputs():
    return []
"""
SUM = "x.sum(1)"
NORM = "torch.nn.functional.layer_norm(x, x.shape[1:])"
AT_MAXIMUM = "(x == x.amax(1, keepdim=True)).float().sum(1)"


def sample(
    folder: Path,
    result: str,
    x: torch.Tensor,
    output: torch.Tensor,
    *,
    kind: Distribution = "written",
    mixed: bool = False,
) -> OutputSample:
    """The errors of `output` on `x`, called values of this `kind`, for a task whose module returns
    `result`."""
    path = folder / "task.py"
    path.write_text(FILE.format(result=result, rows=ROWS, columns=COLUMNS))
    task = load_task(str(path))
    device = FakeDevice(task.signature, seed=1)
    baseline = ModuleBaseline(task, device)
    arena = device.arena(slot_bytes(task.signature, [task.primary]))
    layout = lay_out(arena, task.signature, task.primary, Random(1))
    view = layout.view(task.signature.input_tensors[0])
    view.copy_(x)
    truth = Truth(task, baseline, arena, Random(1))
    truth.adopt(0, [view])
    comparer = OutputComparer(task, truth, OperandRounding("none", 1.0), mixed=mixed)
    return comparer.compare(Case(task.primary, kind), 0, baseline.outputs(layout), [[output]])[0]


def in_lanes(x: torch.Tensor) -> torch.Tensor:
    """The sum of each row in float32: LANES sums from left to right, then the sum of these."""
    total = torch.zeros(len(x), LANES)
    for piece in x.split(LANES, 1):
        total += piece
    return total.sum(1, keepdim=True)


def two_passes(x: torch.Tensor) -> torch.Tensor:
    centred = x - in_lanes(x) / COLUMNS
    return centred * torch.rsqrt(in_lanes(centred * centred) / COLUMNS + 1e-5)


def almost_equal() -> torch.Tensor:
    """Rows of one number each, except for a few elements, and one row in four of random values."""
    generator = torch.Generator().manual_seed(1)
    x = 3 * torch.rand(ROWS, 1, generator=generator).expand(ROWS, COLUMNS).clone() + 7.3
    x[:, ::1024] += torch.randn(ROWS, COLUMNS // 1024, generator=generator)
    x[::4] = torch.randn(ROWS // 4, COLUMNS, generator=generator)
    return x


def test_sums_of_equal_values_are_excused_in_mixed_rows(tmp_path: Path) -> None:
    """In such a sum all roundings have one direction. Equal values that are moved equally move no result of a
    layer norm: only by itself moved ones show what a rounding costs."""
    x = almost_equal()
    assert share([sample(tmp_path, NORM, x, two_passes(x), mixed=False)]) > 1
    assert share([sample(tmp_path, NORM, x, two_passes(x), mixed=True)]) < 1


@pytest.mark.parametrize("ties", [2, 300])
def test_what_ties_decide_is_bounded_as_before(tmp_path: Path, ties: int) -> None:
    """Counts of equal elements are others once these are moved apart: that is no rounding of the result."""
    x = torch.rand(ROWS, COLUMNS, generator=torch.Generator().manual_seed(1))
    x[:, :ties] = 2.0
    wrong = torch.ones(ROWS)
    found = [sample(tmp_path, AT_MAXIMUM, x, wrong, mixed=mixed) for mixed in (False, True)]
    assert allowed([found[0]]) == allowed([found[1]]) and share([found[1]]) > 1


def test_sorted_rows_may_be_summed_from_left_to_right(tmp_path: Path) -> None:
    """Their partial sums are hundreds of times the result; values of eight bits are no such matter."""
    shares = []
    for seed in range(16):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(ROWS, COLUMNS, generator=generator).sort(1).values
        total = torch.zeros(ROWS)
        for column in x.unbind(1):
            total += column
        shares.append(share([sample(tmp_path, SUM, x, total, kind="sorted")]))
        coarse = x.bfloat16().double().sum(1).float()
        assert share([sample(tmp_path, SUM, x, coarse, kind="sorted")]) > 1
    assert max(shares) < 0.7 and max(shares) * SORTED / LENIENCE > 1
