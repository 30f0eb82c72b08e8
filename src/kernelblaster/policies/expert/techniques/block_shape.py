"""Block shape: gives a kernel another number of threads per block, if its schedule (layout on the GPU) works
with any number."""

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.columns import ColumnReduction
from kernelblaster.policies.expert.schedules.pointwise import Pointwise
from kernelblaster.policies.expert.schedules.products import ThreadPerResult
from kernelblaster.policies.expert.schedules.rows import BlockPerRow, BlockRows, WarpRows
from kernelblaster.policies.expert.schedules.scans import ScanColumns, ThreadPerScan
from kernelblaster.policies.expert.schedules.windows import WindowPatches

Shaped = (
    Pointwise
    | BlockPerRow
    | WarpRows
    | BlockRows
    | ColumnReduction
    | ThreadPerResult
    | ThreadPerScan
    | ScanColumns
    | WindowPatches
)
APPLIES_TO = get_args(Shaped)
THREADS = (64, 128, 256, 512, 1024)


def apply(plan: Plan, gpu: GpuSpec) -> Iterator[Plan]:
    for kernel in plan.kernels:
        for threads in THREADS:
            if isinstance(kernel.schedule, Shaped) and threads != kernel.schedule.threads:
                shaped = replace(kernel, schedule=replace(kernel.schedule, threads=threads))
                yield plan.with_kernel(kernel, shaped)


def why_not(plan: Plan) -> str | None:
    """Returns why the technique does not apply to any kernel of `plan`; None if it applies. Always None here,
    since the technique can change every kernel whose schedule (layout on the GPU) has a type in
    APPLIES_TO."""
    return None
