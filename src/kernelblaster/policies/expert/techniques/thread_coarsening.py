"""Thread coarsening: a thread of a pointwise kernel does several packs, whose loads are all on their way
before the first is used."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.rewriting import everywhere

PACKS = (4, 2, 8)
MANY = 1 << 20  # elements from which the GPU is full with fewer threads too


def apply(plan: Plan) -> Iterator[Plan]:
    yield from everywhere(plan, *(partial(_coarser, packs=packs) for packs in PACKS))


def _coarser(kernel: Kernel, plan: Plan, packs: int) -> Kernel | None:
    schedule = kernel.schedule
    if kernel.family != "pointwise" or schedule.workers != "thread" or schedule.vector_width == 1:
        return None
    if schedule.coarsening == packs or plan.elements(kernel.axes) < MANY:
        return None
    return replace(kernel, schedule=replace(schedule, coarsening=packs))
