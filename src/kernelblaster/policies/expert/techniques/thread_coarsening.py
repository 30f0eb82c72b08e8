"""Thread coarsening: a thread has more of the work, so that addresses are found less often.

A thread of a pointwise kernel does several packs, whose loads are all on their way before the first is
used. Of short rows, a warp does several: each has fewer of its lanes, and a lane more of its packs.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kernelblaster.policies.expert.families.reduction import FAMILIES
from kernelblaster.policies.expert.families.row_kernel import element_bytes, rows_of
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.rewriting import everywhere
from kernelblaster.policies.expert.techniques.rows_in_registers import LANES, MOST_BYTES, share

PACKS = (4, 2, 8)
MANY = 1 << 20  # elements, or lanes with a row's packs, from which the GPU is full with fewer threads too


def apply(plan: Plan) -> Iterator[Plan]:
    yield from everywhere(plan, *(partial(_coarser, packs=packs) for packs in PACKS))


def _coarser(kernel: Kernel, plan: Plan, packs: int) -> Kernel | None:
    schedule = kernel.schedule
    if kernel.family in FAMILIES and schedule.workers == "warp":
        return _fewer_lanes(kernel, plan, packs)
    if kernel.family != "pointwise" or schedule.workers != "thread" or schedule.vector_width == 1:
        return None
    if schedule.coarsening == packs or plan.elements(kernel.axes) < MANY:
        return None
    return replace(kernel, schedule=replace(schedule, coarsening=packs))


def _fewer_lanes(kernel: Kernel, plan: Plan, packs: int) -> Kernel | None:
    schedule = kernel.schedule
    rows = rows_of(kernel, plan)
    length, grain = plan.elements(kernel.reduced), rows.near.width(plan)
    lanes = next((n for n in LANES if share(length, n, grain) <= grain * packs), schedule.lanes)
    if lanes >= schedule.lanes or plan.elements(kernel.axes) * lanes < MANY:
        return None
    kept = share(length, lanes, grain) if schedule.kept else 0
    if kept * element_bytes(rows.kept, plan) > MOST_BYTES[0]:
        return None
    return replace(kernel, schedule=replace(schedule, lanes=lanes, kept=kept))
