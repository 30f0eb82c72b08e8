"""Unrolling: the loop over the vectors of a row, or over the rows of a column, processes several in each
iteration, so that all their loads are issued before the first is used."""

from dataclasses import replace
from functools import partial
from typing import get_args

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.row_kernel import keeps_all
from kernelblaster.policies.expert.schedules.columns import Columns
from kernelblaster.policies.expert.schedules.rows import Rows, TunedRows
from kernelblaster.policies.expert.schedules.scans import ScanColumns

Unrolled = Rows | Columns | ScanColumns
APPLIES_TO = get_args(Unrolled)
TIMES = (4, 8, 2)


def _unrolled(kernel: Kernel, plan: Plan, gpu: GpuSpec, times: int) -> Kernel | No:
    schedule = kernel.schedule
    assert isinstance(schedule, Unrolled)
    if schedule.unroll == times:
        return No("its loops are unrolled that often already")
    if isinstance(schedule, TunedRows) and keeps_all(kernel, schedule, plan):
        return No("all of a row is kept, and nothing is left for the loop")
    return replace(kernel, schedule=replace(schedule, unroll=times))


REWRITES = tuple(partial(_unrolled, times=times) for times in TIMES)
