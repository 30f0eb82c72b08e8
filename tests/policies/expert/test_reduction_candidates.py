"""Reductions and maps after techniques are right on the emulated device, aligned and cut into parts too.

The shipped tasks' small sizes are odd, so that packs are never aligned there; the tasks here have sizes
that are.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.devices.specs import gpu_named
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.flatten import flattened
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.row_kernel import kept_elements
from kernelblaster.policies.expert.schedules.columns import Columns
from kernelblaster.policies.expert.schedules.pointwise import BlockRowMap, FlatVectors
from kernelblaster.policies.expert.schedules.rows import (
    BlockRows,
    ClusterRows,
    Rows,
    WarpRows,
    rows_per_block,
)
from kernelblaster.policies.expert.splitting import split
from kernelblaster.policies.expert.techniques import load_techniques, vectorized_memory_access
from kernelblaster.records import Candidate, Verification
from kernelblaster.records.signature import Dtype
from kernelblaster.tasks.catalog import suites_folder

ROWS = ("warp_shuffle_reduction", "vectorized_memory_access", "rows_in_registers")
ALIGNED = {
    "softmax": ('"dim": 413', '"dim": 416', (*ROWS, "fast_math")),
    "argmax_columns": ('"cols": 29', '"cols": 32', ("vectorized_memory_access", "unrolling")),
    "broadcast_affine": ('"length": 47', '"length": 48', ("vectorized_memory_access", "cache_hints")),
}
SHORT_ROWS = 'batch = 600000\ndim = 51\nSMALL = {"batch": 5, "dim": 51}'
PARTS = {"sum_all": 1000, "max_with_index": 24, "log_softmax": 100, "mean_variance": 80, "sum_columns": 16}


FEW_ROWS = """
import torch, torch.nn as nn
rows = 2
columns = COLUMNS
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(columns)
    def forward(self, x):
        return self.norm(x)
def get_inputs():
    return [torch.randn(rows, columns)]
def get_init_inputs():
    return []
"""
IMAGES = {"batch": 4, "channels": 4, "height": 8, "width": 8}
NEAR_SMALL = {  # primary sizes that divide as the shipped ones do: what is drawn above them is small too
    "batch_norm": IMAGES,
    "group_norm": {**IMAGES, "groups": 2, "SMALL": {"batch": 5, "channels": 6, "height": 9, "width": 11}},
    "instance_norm": IMAGES,
    "log_softmax": {"batch": 8, "classes": 657},
    "max_with_index": {"batch": 16, "dim": 512},
}


@dataclass(frozen=True)
class Across:
    """A small row across blocks: whether its statistics are found in one pass, how many elements each thread
    has in shared memory and in registers, and whether the blocks go on to further rows."""

    name: str
    online: bool = False
    vectors: bool = True
    cluster: int = 4
    threads: int = 64
    kept: int = 0
    held: int = 0
    stays: bool = False


ACROSS = (
    Across("group_norm", kept=44),
    Across("group_norm", vectors=False, kept=1, held=1),
    Across("instance_norm", online=True, held=4),
    Across("log_softmax", online=True, threads=32, kept=4, held=4),
    Across("log_softmax", threads=32, held=4),  # not all of a row
    Across("batch_norm", online=True, vectors=False, kept=1, held=1),  # nor here
    Across("max_with_index", kept=8),  # which one pass does not use
    # 10 rows for seven clusters, of which one block takes more than half of a processor's memory
    Across("group_norm", cluster=16, threads=256, kept=112, held=4, stays=True),
    Across("instance_norm", vectors=False, online=True, cluster=16, threads=256, kept=112, stays=True),
    Across(
        "log_softmax", online=True, cluster=16, threads=256, kept=112, stays=True
    ),  # but rows begin anywhere
)


def rewritten(plan: Plan, *techniques: str) -> Plan:
    """The first plan that each technique gives, where it gives one."""
    for name in techniques:
        plan = next(load_techniques()[name](plan), plan)
    return plan


@pytest.mark.parametrize("name", ALIGNED)
def test_aligned_packs_are_right(judge: DeviceJudge, name: str, tmp_path: Path) -> None:
    odd, even, techniques = ALIGNED[name]
    source = (suites_folder() / "core" / "level1" / f"{name}.py").read_text()
    assert odd in source
    file = tmp_path / f"{name}.py"
    file.write_text(source.replace(odd, even))
    task = load_task(str(file))
    plan = rewritten(initial_plan(capture(task)), "kernel_fusion", *techniques)
    schedule = plan.kernels[0].schedule
    assert isinstance(schedule, Rows | Columns | FlatVectors) and schedule.vector_width > 1
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


@pytest.mark.parametrize("name", PARTS)
def test_reductions_in_parts_are_right(judge: DeviceJudge, name: str) -> None:
    task = load_task(f"core/level1/{name}")
    plan = rewritten(initial_plan(capture(task)), "warp_shuffle_reduction", "online_reduction")
    kernel = plan.kernels[0]
    plan = split(plan, kernel, flattened(kernel, plan), PARTS[name])
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


@pytest.mark.parametrize("columns", [416, 413])
def test_long_rows_in_pieces_are_right(
    judge: DeviceJudge, columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With pieces as short as that, most sizes that are drawn have several and a last one that is shorter."""
    monkeypatch.setattr(vectorized_memory_access, "SHORT_ROW", 8)
    monkeypatch.setattr(vectorized_memory_access, "LEAST_PIECE", 32)
    file = tmp_path / "rows.py"
    file.write_text(FEW_ROWS.replace("COLUMNS", str(columns)))
    task = load_task(str(file))
    plan = rewritten(initial_plan(capture(task)), "warp_shuffle_reduction", "online_reduction")
    kernel = plan.kernels[0]
    plan = rewritten(split(plan, kernel, flattened(kernel, plan), 48), "vectorized_memory_access")
    last = plan.kernels[-1]
    cut = isinstance(last.schedule, BlockRowMap) and last.axes[-1].part is not None
    assert cut == (columns % 8 == 0)
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


@pytest.mark.parametrize("name", ["argmax_columns", "mean_middle"])
def test_unaligned_columns_share_the_rows_of_a_block(judge: DeviceJudge, name: str, tmp_path: Path) -> None:
    source = (suites_folder() / "core" / "level1" / f"{name}.py").read_text()
    source, found = re.subn(r"^(cols|width|dim|features) = \d+$", r"\1 = 4095", source, flags=re.MULTILINE)
    assert found >= 1
    file = tmp_path / f"{name}.py"
    file.write_text(source)
    task = load_task(str(file))
    plan = rewritten(initial_plan(capture(task)), "vectorized_memory_access")
    schedule = plan.kernels[0].schedule
    assert isinstance(schedule, Columns) and schedule.vector_width == 1
    technique = load_techniques()["vectorized_memory_access"]
    assert "unaligned" in technique.why_not(plan)[plan.kernels[0].name]
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


def test_few_long_rows_fill_the_gpu(tmp_path: Path) -> None:
    file = tmp_path / "rows.py"
    file.write_text(FEW_ROWS.replace("COLUMNS", "1 << 22"))
    techniques = ("warp_shuffle_reduction", "online_reduction", "two_level_reduction")
    plan = rewritten(initial_plan(capture(load_task(str(file)))), *techniques)
    few = rewritten(plan, "vectorized_memory_access").kernels[-1]
    assert isinstance(few.schedule, BlockRowMap)
    *blocks, piece = few.axes
    assert 4 * 132 <= plan.elements(tuple(blocks)) <= 8 * 132 and piece.part is not None
    file.write_text(FEW_ROWS.replace("COLUMNS", "1 << 14").replace("rows = 2", "rows = 4096"))
    many = rewritten(initial_plan(capture(load_task(str(file)))), *techniques, "vectorized_memory_access")
    assert all(axis.part is None for kernel in many.kernels for axis in kernel.axes)


@pytest.mark.parametrize("case", ACROSS, ids=str)
def test_rows_across_blocks_are_right(judge: DeviceJudge, case: Across, tmp_path: Path) -> None:
    source = (suites_folder() / "core" / "level1" / f"{case.name}.py").read_text()
    for name, value in NEAR_SMALL[case.name].items():
        source, found = re.subn(rf"^{name} = .*$", f"{name} = {value}", source, flags=re.MULTILINE)
        assert found == 1
    file = tmp_path / f"{case.name}.py"
    file.write_text(source)
    task = load_task(str(file))
    techniques = (
        "online_reduction" if case.online else "",
        "vectorized_memory_access" if case.vectors else "",
    )
    plan = rewritten(initial_plan(capture(task)), "kernel_fusion", "warp_shuffle_reduction")
    plan = rewritten(plan, *filter(None, techniques))
    kernel = plan.kernels[0]
    assert isinstance(kernel.schedule, WarpRows | BlockRows)
    schedule = ClusterRows(
        blocks=case.cluster,
        blocks_per_sm=1,
        resident=gpu_named("h200").clusters(case.cluster),
        register_elements=case.held,
        shared_elements=case.kept,
        persistent=case.stays,
        threads=case.threads,
        vector_width=kernel.schedule.vector_width,
        accumulate=kernel.schedule.accumulate,
    )
    plan = plan.with_kernel(kernel, replace(kernel, schedule=schedule))
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


def clusters_of(plan: Plan) -> list[ClusterRows]:
    found = [plan.kernels[0].schedule for plan in load_techniques()["rows_across_blocks"](plan)]
    return [schedule for schedule in found if isinstance(schedule, ClusterRows)]


def test_a_long_row_is_kept_by_blocks_of_which_several_fit() -> None:
    plan = rewritten(initial_plan(capture(load_task("core/level1/instance_norm"))), *ROWS[:2])
    found = clusters_of(plan)
    assert found[0].blocks_per_sm >= 3 and found[0].register_elements > 0
    assert any(schedule.register_elements == 0 for schedule in found)
    assert all(kept_elements(schedule) >= 57600 // 2 for schedule in found)
    assert kept_elements(found[0]) >= 57600
    assert "rows_across_blocks" not in load_techniques(gpu_named("a100"))
    short = rewritten(initial_plan(capture(load_task("core/level1/layer_norm"))), *ROWS[:2])
    assert list(load_techniques()["rows_across_blocks"](short)) == []


def test_a_row_that_shared_memory_has_no_room_for_is_held_in_registers_too() -> None:
    plan = rewritten(initial_plan(capture(load_task("core/level1/batch_norm"))), *ROWS[:2])
    found = clusters_of(plan)
    assert all(s.shared_elements * s.threads * s.blocks < 1 << 20 for s in found)
    assert any(kept_elements(schedule) >= 1 << 20 for schedule in found)
    assert found[0].blocks_per_sm == 1  # with all of it; with two, the rest is read twice
    assert kept_elements(found[0]) >= 1 << 20
    assert any(schedule.blocks_per_sm == 2 for schedule in found)
    assert found[0].persistent and not any(s.persistent for s in found if s.blocks_per_sm > 1)


def test_what_is_the_same_for_a_row_is_found_once() -> None:
    plan = rewritten(initial_plan(capture(load_task("core/level1/group_norm"))), *ROWS, "rows_across_blocks")
    source = emit(plan)
    assert "const float out_fixed0 = total / (float)(x_1 / 8 * x_2 * x_3);" in source
    assert "(x_at.at[lane] - out_fixed0) * out_fixed1" in source
    assert source.count("inner.divide(j, member, first)") == 1  # for scale and shift only


def test_rows_that_begin_anywhere_are_read_in_packs(judge: DeviceJudge) -> None:
    task = load_task("core/level1/log_softmax")
    source = emit(rewritten(initial_plan(capture(task)), *ROWS))
    assert "const int head = min(row_length, (32 - row_start % 32) % 32);" in source
    assert "log_softmax_kernel<1" not in source
    outcome = judge.check(task, Candidate(source=source)).outcome
    assert isinstance(outcome, Verification), outcome


def test_both_sides_of_a_boundary_are_read_in_packs(judge: DeviceJudge) -> None:
    task = load_task("core/level2/rmsnorm_rotary")
    plan = rewritten(initial_plan(capture(task)), *["kernel_fusion"] * 20, *ROWS)
    source = emit(plan)
    assert "if (first >= cos_1) return Pack<float, WIDTH>{};" in source
    assert "cos_1 % 4 == 0" in source
    outcome = judge.check(task, Candidate(source=source)).outcome
    assert isinstance(outcome, Verification), outcome


def test_sizes_as_constants(judge: DeviceJudge, tmp_path: Path) -> None:
    """The sizes that all checks use are the constants here; others, and any number of rows, are right too."""
    source = (suites_folder() / "core" / "level2" / "rmsnorm_rotary.py").read_text()
    source = source.replace("length = 2048", "length = 9").replace("heads = 32", "heads = 3")
    file = tmp_path / "task.py"
    file.write_text(source.replace("head_dim = 128", "head_dim = 28"))
    task = load_task(str(file))
    plan = rewritten(initial_plan(capture(task)), *["kernel_fusion"] * 20, *ROWS, "index_simplification")
    source = emit(plan)
    assert "const int64_t cos_1 = SIZED ? 14 : any_cos_1;" in source
    assert "if (x_1 == 9 && x_2 == 3 && x_3 == 28 && cos_1 == 14 &&" in source  # and any x_0
    outcome = judge.check(task, Candidate(source=source)).outcome
    assert isinstance(outcome, Verification), outcome
    assert list(load_techniques()["index_simplification"](plan)) == []


def test_rows_that_are_taken_together_are_added_in_double_once(judge: DeviceJudge) -> None:
    task = load_task("core/level1/sum_columns")
    plan = rewritten(initial_plan(capture(task)), "vectorized_memory_access", "unrolling")
    source = emit(plan)
    assert "total_here[lane] += x_at.at[lane];" in source
    assert source.count("total_so_far[lane] += ") == 2  # of four rows, and of those that are left
    outcome = judge.check(task, Candidate(source=source)).outcome
    assert isinstance(outcome, Verification), outcome


def test_short_rows_are_done_by_a_few_lanes_each(judge: DeviceJudge) -> None:
    """54 small rows of 8 lanes: half of the last warp has none, and what remains may not wait for it."""
    task = load_task("core/level2/rmsnorm_rotary")
    plan = rewritten(initial_plan(capture(task)), *["kernel_fusion"] * 20, *ROWS, "thread_coarsening")
    schedule = plan.kernels[0].schedule
    assert isinstance(schedule, WarpRows)
    assert (schedule.lanes, schedule.register_elements, rows_per_block(schedule)) == (8, 16, 32)
    source = emit(plan)
    assert "warp_reduce<THREADS>(total_so_far, Sum(), members)" in source
    assert "const float out_fixed0 = rsqrtf(" in source  # needed on both sides of the boundary
    outcome = judge.check(task, Candidate(source=source)).outcome
    assert isinstance(outcome, Verification), outcome
    long = rewritten(initial_plan(capture(load_task("core/level1/layer_norm"))), *ROWS)
    assert list(load_techniques()["thread_coarsening"](long)) == []


def lanes_of(plan: Plan) -> int:
    schedule = plan.kernels[0].schedule
    assert isinstance(schedule, WarpRows)
    return schedule.lanes


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("order", [(*ROWS, "thread_coarsening"), (ROWS[0], "thread_coarsening", *ROWS[1:])])
def test_few_lanes_take_all_of_a_row_that_begins_anywhere(
    judge: DeviceJudge, tmp_path: Path, order: tuple[str, ...], dtype: Dtype
) -> None:
    """Rows of 51: three elements behind the packs of four, or seven around those of eight, for two lanes."""
    file = tmp_path / "short_softmax.py"
    source = (suites_folder() / "core" / "level1" / "softmax.py").read_text()
    file.write_text(re.sub(r"batch = .*\ndim = .*\nSMALL = .*", SHORT_ROWS, source))
    task = load_task(str(file), dtype=dtype)
    plan = initial_plan(capture(task))
    for name in order:
        plan = min(load_techniques()[name](plan), key=lanes_of)
    assert lanes_of(plan) <= 4
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


def test_every_technique_can_be_asked_about_rows_with_nothing_side_by_side() -> None:
    plan = initial_plan(capture(load_task("core/level2/bmm_trace_tanh")))
    plan = rewritten(plan, "algebraic_simplification", *["kernel_fusion"] * 20, "warp_shuffle_reduction")
    for technique in load_techniques().values():
        assert all(emit(found) for found in technique(plan))


def test_a_row_that_a_warp_cannot_keep_is_kept_by_a_block() -> None:
    plan = initial_plan(capture(load_task("core/level2/scale_mask_softmax")))
    kernel = rewritten(plan, *["kernel_fusion"] * 20, *ROWS).kernels[0]
    assert isinstance(kernel.schedule, BlockRows)
    assert (kernel.schedule.threads, kernel.schedule.register_elements) == (64, 16)


def test_a_transposed_read_is_right(judge: DeviceJudge) -> None:
    task = load_task("core/level1/transpose_last")
    plan = rewritten(initial_plan(capture(task)), "transposed_staging")
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome
