"""Reductions and maps after techniques are right on the emulated device, aligned and cut into parts too.

The shipped tasks' small sizes are odd, so that packs are never aligned there; the tasks here have sizes
that are.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.judge.judge import Judge
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.flatten import flattened
from kernelblaster.policies.expert.graph import capture
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.splitting import split
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Verification
from kernelblaster.tasks.catalog import suites_folder

ROWS = ("warp_shuffle_reduction", "vectorized_memory_access", "rows_in_registers")
ALIGNED = {
    "softmax": ('"dim": 413', '"dim": 416', (*ROWS, "fast_math")),
    "argmax_columns": ('"cols": 29', '"cols": 32', ("vectorized_memory_access", "unrolling")),
    "broadcast_affine": ('"length": 47', '"length": 48', ("vectorized_memory_access", "cache_hints")),
}
PARTS = {"sum_all": 1000, "max_with_index": 24, "log_softmax": 100, "mean_variance": 80, "sum_columns": 16}


# Whether statistics are found in one pass, and how many elements each of 64 threads keeps: all of a small
# row, not even that, or none because there is only one pass.
ACROSS = {
    "group_norm": (False, 44),
    "log_softmax": (True, 4),
    "batch_norm": (True, 4),
    "max_with_index": (False, 8),
}


def rewritten(plan: Plan, *techniques: str) -> Plan:
    """The first plan that each technique gives, where it gives one."""
    for name in techniques:
        plan = next(load_techniques()[name](plan), plan)
    return plan


@pytest.mark.parametrize("name", ALIGNED)
def test_aligned_packs_are_right(judge: Judge, name: str, tmp_path: Path) -> None:
    odd, even, techniques = ALIGNED[name]
    source = (suites_folder() / "core" / "level1" / f"{name}.py").read_text()
    assert odd in source
    file = tmp_path / f"{name}.py"
    file.write_text(source.replace(odd, even))
    task = load_task(str(file))
    plan = rewritten(initial_plan(capture(task)), "kernel_fusion", *techniques)
    assert plan.kernels[0].schedule.vector_width > 1
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


@pytest.mark.parametrize("name", PARTS)
def test_reductions_in_parts_are_right(judge: Judge, name: str) -> None:
    task = load_task(f"core/level1/{name}")
    plan = rewritten(initial_plan(capture(task)), "warp_shuffle_reduction", "online_reduction")
    kernel = plan.kernels[0]
    plan = split(plan, kernel, flattened(kernel, plan), PARTS[name])
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


@pytest.mark.parametrize("name", ACROSS)
def test_rows_across_blocks_are_right(judge: Judge, name: str) -> None:
    online, kept = ACROSS[name]
    task = load_task(f"core/level1/{name}")
    techniques = ("warp_shuffle_reduction", *(["online_reduction"] if online else []))
    plan = rewritten(initial_plan(capture(task)), "kernel_fusion", *techniques, "vectorized_memory_access")
    kernel = plan.kernels[0]
    schedule = replace(kernel.schedule, workers="block", shuffles=True)
    schedule = replace(schedule, threads=64, cluster=4, kept=kept)
    plan = plan.with_kernel(kernel, replace(kernel, schedule=schedule))
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


def test_a_long_row_is_kept_by_blocks_of_which_several_fit() -> None:
    plan = rewritten(initial_plan(capture(load_task("core/level1/instance_norm"))), *ROWS[:2])
    found = [plan.kernels[0].schedule for plan in load_techniques()["rows_across_blocks"](plan)]
    assert [schedule.cluster for schedule in found] == [4, 2, 8, 16]
    assert all(s.kept * s.threads * s.cluster >= 57600 for s in found)
    assert "rows_across_blocks" not in load_techniques("sm_80")
    short = rewritten(initial_plan(capture(load_task("core/level1/layer_norm"))), *ROWS[:2])
    assert list(load_techniques()["rows_across_blocks"](short)) == []


def test_rows_that_begin_anywhere_are_read_in_packs(judge: Judge) -> None:
    task = load_task("core/level1/log_softmax")
    source = emit(rewritten(initial_plan(capture(task)), *ROWS))
    assert "const int head = min(row_length, (WIDTH - row_start % WIDTH) % WIDTH);" in source
    assert "log_softmax_kernel<1" not in source
    outcome = judge.check(task, Candidate(source=source)).outcome
    assert isinstance(outcome, Verification), outcome


def test_both_sides_of_a_boundary_are_read_in_packs(judge: Judge) -> None:
    task = load_task("core/level2/rmsnorm_rotary")
    plan = rewritten(initial_plan(capture(task)), *["kernel_fusion"] * 20, *ROWS)
    source = emit(plan)
    assert "if (first >= cos_1) return Pack<float, WIDTH>{};" in source
    assert "cos_1 % 4 == 0" in source
    outcome = judge.check(task, Candidate(source=source)).outcome
    assert isinstance(outcome, Verification), outcome


def test_a_row_that_a_warp_cannot_keep_is_kept_by_a_block() -> None:
    plan = initial_plan(capture(load_task("core/level2/scale_mask_softmax")))
    kernel = rewritten(plan, *["kernel_fusion"] * 20, *ROWS).kernels[0]
    assert (kernel.schedule.workers, kernel.schedule.threads, kernel.schedule.kept) == ("block", 64, 16)


def test_a_transposed_read_is_right(judge: Judge) -> None:
    task = load_task("core/level1/transpose_last")
    plan = rewritten(initial_plan(capture(task)), "transposed_staging")
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome
