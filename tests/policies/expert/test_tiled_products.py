"""Tiled products: right at odd sizes, in all layouts, with any prologue; each step only where it applies."""

from functools import cache
from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.products import TiledProduct
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.policies.expert.techniques.split_k import split_sums
from kernelblaster.policies.expert.tiling import retiled
from kernelblaster.records import Candidate, Task, Verification

SHARED, REGISTERS = "shared_memory_tiling", "register_tiling"
BUFFERS, COPIES, SPLIT = "double_buffering", "asynchronous_copy", "split_k"
SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, w):
        return BODY

def get_inputs():
    return [torch.randn(LEFT), torch.randn(RIGHT)]

def get_init_inputs():
    return []
"""


def written(folder: Path, body: str, left: str, right: str) -> Task:
    file = folder / "task.py"
    file.write_text(SOURCE.replace("BODY", body).replace("LEFT", left).replace("RIGHT", right))
    return load_task(str(file))


@cache
def plan_of(name: str, dtype: str = "float32") -> Plan:
    return initial_plan(capture(load_task(name, dtype)))  # type: ignore[arg-type]


def moves(plan: Plan, technique: str) -> list[Plan]:
    return list(load_techniques()[technique](plan))


def after(plan: Plan, *techniques: str) -> Plan:
    for technique in techniques:
        plan = moves(plan, technique)[0]
    return plan


def product_in(plan: Plan) -> Kernel:
    return next(kernel for kernel in plan.kernels if kernel.family == "matrix_product")


def tile_in(plan: Plan) -> TiledProduct:
    tile = product_in(plan).schedule
    assert isinstance(tile, TiledProduct)
    return tile


def with_tile(plan: Plan, tile: TiledProduct) -> Plan:
    kernel = product_in(plan)
    tiled = retiled(kernel, plan, lambda product, old: tile)
    assert isinstance(tiled, Kernel)
    return plan.with_kernel(kernel, tiled)


def assert_right(judge: DeviceJudge, task: Task, plan: Plan) -> None:
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


@pytest.mark.parametrize(
    ("body", "left", "right", "tile"),
    [
        ("x @ w", "70, 45", "45, 67", TiledProduct(16, 32, 32)),
        ("x.t() @ w.t()", "45, 70", "67, 45", TiledProduct(32, 32, 32, 4, 4)),
        ("x @ w.t()", "70, 44", "68, 44", TiledProduct(64, 64, 16, 4, 4, 2)),
        ("x.t() @ w", "44, 70", "44, 68", TiledProduct(64, 64, 16, 4, 4, 3, asynchronous=True)),
        (
            "torch.tril(x) @ w + w[0]",
            "45, 45",
            "45, 67",
            TiledProduct(32, 64, 16, 4, 4, 2, asynchronous=True),
        ),
        ("(x.reshape(5, 14, 44) @ w) * 2", "70, 44", "44, 36", TiledProduct(128, 64, 8, 8, 4, 2)),
    ],
)
def test_every_layout_and_kind_of_tile_is_right(
    judge: DeviceJudge, tmp_path: Path, body: str, left: str, right: str, tile: TiledProduct
) -> None:
    task = written(tmp_path, body, left, right)
    plan = initial_plan(capture(task))
    fused = next(load_techniques()["kernel_fusion"](plan), plan)
    assert_right(judge, task, with_tile(fused, tile))


def test_pieces_of_a_sum_are_right_where_the_last_is_short_or_empty(
    judge: DeviceJudge, tmp_path: Path
) -> None:
    task = written(tmp_path, "torch.relu(x @ w - 1)", "20, 700", "700, 24")
    plan = initial_plan(capture(task))
    tiled = with_tile(plan, TiledProduct(16, 16, 16))
    assert_right(judge, task, split_sums(tiled, product_in(tiled), 3))
    assert_right(judge, task, split_sums(plan, product_in(plan), 5))


def test_half_precisions_are_right_in_packs(judge: DeviceJudge) -> None:
    plan = after(plan_of("core/level1/matmul_a_transposed", "float16"), REGISTERS)
    assert "Pack<__half, 4>" in emit(plan)
    assert_right(judge, load_task("core/level1/matmul_a_transposed", "float16"), plan)


def test_steps_build_on_each_other_and_are_taken_once() -> None:
    first = plan_of("core/level1/matmul_square")
    assert not moves(first, BUFFERS) and not moves(first, COPIES)
    shared = after(first, SHARED)
    assert tile_in(shared).thread_m == 1 and not moves(shared, SHARED)
    registers = after(shared, REGISTERS)
    assert tile_in(registers).thread_m > 1 and not moves(registers, REGISTERS)
    assert tile_in(after(registers, BUFFERS)).stages == 2
    assert [tile_in(plan).stages for plan in moves(shared, COPIES)] == [3, 2, 4]
    assert all(tile_in(plan).asynchronous for plan in moves(registers, COPIES))


def test_tiles_are_not_much_wider_than_the_results() -> None:
    large = tile_in(after(plan_of("core/level1/matmul_square"), REGISTERS))
    narrow = tile_in(after(plan_of("core/level1/matmul_tall_skinny"), REGISTERS))
    assert (large.block_n, narrow.block_n) == (256, 128)


def test_every_product_of_a_plan_is_tiled_at_once() -> None:
    plan = after(plan_of("core/level3/mlp"), SHARED)
    products = [kernel for kernel in plan.kernels if kernel.family == "matrix_product"]
    assert len(products) == 3 and all(isinstance(kernel.schedule, TiledProduct) for kernel in products)


def test_long_sums_are_made_of_pieces_until_they_are_split() -> None:
    plan = moves(plan_of("core/level1/matmul_large_k"), REGISTERS)[1]
    assert tile_in(plan).flush is not None
    split = after(plan, SPLIT)
    assert tile_in(split).flush is None
    assert [kernel.family for kernel in split.kernels] == ["matrix_product", "column_reduction"]


def test_sums_are_split_only_where_processors_are_idle() -> None:
    assert not moves(plan_of("core/level1/matmul_square"), SPLIT)
    assert not moves(after(plan_of("core/level1/matmul_tall_skinny"), SHARED), SPLIT)
    split = after(plan_of("core/level1/matmul_large_k"), SPLIT)
    assert not moves(split, SPLIT)


def test_a_product_with_a_vector_is_not_tiled() -> None:
    plan = plan_of("core/level1/matmul_vector")
    assert not moves(plan, SHARED) and not moves(plan, REGISTERS)
