"""Scans along every dimension are right on the emulated device, as first written and by warps and vectors."""

from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.scans import ScanColumns, ScanRows, ThreadPerScan
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Task, Verification

SOURCE = """import torch, torch.nn as nn
batch, rows, columns = 3, {rows}, {columns}
SMALL = {{"batch": 2, "rows": {rows}, "columns": {columns}}}
class Model(nn.Module):
    def forward(self, x, mask):
        largest, at = torch.cummax(x, -1)
        smallest, _ = torch.cummin(x, 1)
        return (
            torch.cumsum(torch.where(mask > 0, x, 0.0) * 2, -1) + 1,
            torch.cumsum(x, 1),
            torch.cumsum(x, 0),
            torch.flip(torch.cumsum(torch.flip(x, (-1,)), -1), (-1,)),
            torch.cumprod(1 + x * 0.01, -1),
            torch.logcumsumexp(x, -1),
            torch.logcumsumexp(x, 1),
            largest,
            at,
            smallest,
        )
def get_inputs():
    return [torch.randn(batch, rows, columns), torch.randn(batch, rows, columns)]
def get_init_inputs():
    return []
"""
CHAINS = {
    "initial": (),
    "fused": ("kernel_fusion",),
    "parallel": ("kernel_fusion", "parallel_scan"),
    "vectors": ("kernel_fusion", "parallel_scan", "vectorized_memory_access", "cache_hints"),
}


def task_of(folder: Path, rows: int, columns: int) -> Task:
    file = folder / "scans.py"
    file.write_text(SOURCE.format(rows=rows, columns=columns))
    return load_task(str(file))


def exhausted(plan: Plan, *techniques: str) -> Plan:
    for name in techniques:
        while (following := next(load_techniques()[name](plan), None)) is not None:
            plan = following
    return plan


@pytest.mark.parametrize(
    ("rows", "columns", "chain"),
    [(5, 37, "initial"), (5, 37, "parallel"), (3, 1032, "vectors"), (3, 2051, "vectors")],
)
def test_scans_are_right(judge: DeviceJudge, tmp_path: Path, rows: int, columns: int, chain: str) -> None:
    """In a warp, in the warps of a block, in chunks; aligned and not."""
    task = task_of(tmp_path, rows, columns)
    plan = exhausted(initial_plan(capture(task)), *CHAINS[chain])
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


def test_what_is_around_a_scan_is_done_in_its_kernel(tmp_path: Path) -> None:
    first = initial_plan(capture(task_of(tmp_path, 5, 1032)))
    fused = exhausted(first, "kernel_fusion")
    assert len(fused.kernels) == 4  # along each dimension one, and one from the end
    assert {type(kernel.schedule) for kernel in fused.kernels} == {ThreadPerScan}


def test_along_memory_warps_share_a_row_and_across_it_threads_walk_down(tmp_path: Path) -> None:
    plan = exhausted(initial_plan(capture(task_of(tmp_path, 5, 1032))), *CHAINS["vectors"])
    schedules = {kernel.writes[0]: kernel.schedule for kernel in plan.kernels}
    assert {name: type(schedule) for name, schedule in schedules.items()} == {
        "out7": ScanRows,
        "out9": ScanColumns,
        "out2": ScanColumns,
        "out3": ScanRows,
    }
    assert [s.vector_width for s in schedules.values() if isinstance(s, ScanRows | ScanColumns)] == [
        2,
        2,
        4,
        4,
    ]


def test_a_scan_across_memory_says_why_warps_do_not_share_it(tmp_path: Path) -> None:
    plan = exhausted(initial_plan(capture(task_of(tmp_path, 5, 64))), "kernel_fusion")
    refusals = load_techniques()["parallel_scan"].why_not(plan)
    assert "contiguous along the scanned axis" in " ".join(refusals.values())
