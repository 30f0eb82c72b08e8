"""Blocks in groups of rows of tiles: right at any size, and only where operands do not fit the L2 cache."""

from dataclasses import replace
from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.devices.specs import gpu_named
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.products import MmaProduct, TiledProduct, WgmmaProduct
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.policies.expert.techniques.block_rasterization import RASTERS
from kernelblaster.records import Candidate, Task, Verification

ROWS, COLUMNS, TERMS = 20480, 12288, 2048
SOURCE = f"""import torch, torch.nn as nn
rows, columns, terms = {ROWS}, {COLUMNS}, {TERMS}
SMALL = {{"rows": 300, "columns": 37, "terms": 20}}
class Model(nn.Module):
    def forward(self, x, w):
        return BODY
def get_inputs():
    return [torch.randn(OUTERrows, terms), torch.randn(OUTERterms, columns)]
def get_init_inputs():
    return []
"""
TILE = TiledProduct(16, 16, 16)


def written(folder: Path, body: str = "x @ w", outer: str = "") -> Task:
    file = folder / "products.py"
    file.write_text(SOURCE.replace("BODY", body).replace("OUTER", outer))
    return load_task(str(file))


def product_in(plan: Plan) -> Kernel:
    return next(kernel for kernel in plan.kernels if kernel.family == "matrix_product")


def tiled(task: Task, tile: TiledProduct) -> Plan:
    plan = initial_plan(capture(task))
    kernel = product_in(plan)
    return plan.with_kernel(kernel, replace(kernel, schedule=tile))


def grouped(plan: Plan) -> Plan:
    return next(load_techniques()["block_rasterization"](plan))


def raster_of(plan: Plan) -> int:
    tile = product_in(plan).schedule
    assert isinstance(tile, TiledProduct | MmaProduct | WgmmaProduct)
    return tile.raster


@pytest.mark.parametrize(("body", "outer"), [("x @ w", ""), ("torch.relu(x @ w - 1)", "3, ")])
def test_groups_are_right_where_the_last_has_fewer_rows(
    judge: DeviceJudge, tmp_path: Path, body: str, outer: str
) -> None:
    task = written(tmp_path, body, outer)
    plan = grouped(tiled(task, TILE))
    assert 1 < raster_of(plan) < 300 // 16 and 300 // 16 % raster_of(plan)
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


def test_groups_of_tensor_core_tiles_are_right(judge: DeviceJudge, tmp_path: Path) -> None:
    task = written(tmp_path)
    plan = next(load_techniques()["split_operand_tensor_cores"](initial_plan(capture(task))))
    kernel = product_in(plan)
    plan = plan.with_kernel(kernel, replace(kernel, schedule=MmaProduct(64, 64, raster=3)))
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


def read_together(tile: TiledProduct, raster: int, blocks: int) -> int:
    """Rows and columns of operands that the first `blocks` blocks read, by walking through their tiles."""
    down, across = -(-ROWS // tile.block_m), -(-COLUMNS // tile.block_n)
    order = [
        (row, column)
        for first in range(0, down, raster)
        for column in range(across)
        for row in range(first, min(first + raster, down))
    ][:blocks]
    rows, columns = ({place[side] for place in order} for side in (0, 1))
    return len(rows) * tile.block_m + len(columns) * tile.block_n


@pytest.mark.parametrize("tile", [TiledProduct(128, 256, 8, 8, 16), TiledProduct(128, 64, 16, 8, 4)])
def test_the_groups_are_those_that_read_least(tmp_path: Path, tile: TiledProduct) -> None:
    gpu = gpu_named("h200")
    read = {raster: read_together(tile, raster, gpu.multiprocessors) for raster in (1, *RASTERS)}
    chosen = raster_of(grouped(tiled(written(tmp_path), tile)))
    assert read[chosen] == min(read.values()) < read[1]


def test_it_says_why_not(tmp_path: Path) -> None:
    plan = tiled(written(tmp_path), TiledProduct(128, 128, 16, 8, 8))
    h200 = gpu_named("h200")

    def why_not(plan: Plan, **facts: float) -> str:
        technique = load_techniques(h200.model_copy(update=facts))["block_rasterization"]
        return technique.why_not(plan)[product_in(plan).name]

    assert why_not(plan, l2_mb=10_000) == "both operands fit in the L2 cache"
    assert why_not(plan, multiprocessors=100_000) == "all of its blocks run at once"
    assert "share more" in why_not(grouped(plan))


def test_groups_outlive_the_step_to_warpgroups(tmp_path: Path) -> None:
    techniques = load_techniques()
    plan = next(techniques["split_operand_tensor_cores"](initial_plan(capture(written(tmp_path)))))
    kernel = product_in(plan)
    plan = plan.with_kernel(kernel, replace(kernel, schedule=MmaProduct(raster=16)))
    assert raster_of(next(techniques["warpgroup_matrix_multiply"](plan))) == 16
