"""Unrolling: the loop over a row's packs, or a column's rows, does several of them at a time, so that
their loads are on their way before the first is used."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kernelblaster.policies.expert.families.reduction import FAMILIES, is_rows
from kernelblaster.policies.expert.families.row_kernel import keeps_all
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.rewriting import everywhere

TIMES = (4, 8, 2)


def apply(plan: Plan) -> Iterator[Plan]:
    yield from everywhere(plan, *(partial(_unrolled, times=times) for times in TIMES))


def _unrolled(kernel: Kernel, plan: Plan, times: int) -> Kernel | None:
    schedule = kernel.schedule
    reducing = kernel.family in FAMILIES and (schedule.workers == "tile" or is_rows(kernel))
    mapping = kernel.family == "pointwise" and schedule.workers != "thread"
    if schedule.unroll == times or not (reducing or mapping):
        return None
    if keeps_all(kernel, plan):  # nothing is left for the loop
        return None
    return replace(kernel, schedule=replace(schedule, unroll=times))
