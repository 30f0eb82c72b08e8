"""Vectorized memory access: a thread moves 16 bytes in one instruction.

A pointwise kernel that walks all its tensors in order is a sequence of packs: tensors and scratch begin
at multiples of 256 bytes, and what is left after the last full pack is done singly. Where operands are
broadcast or looked up, and in reductions, packs run along rows, or across neighbouring columns; at
sizes that leave them unaligned, the same kernel runs on single elements.
"""

from collections.abc import Iterator
from dataclasses import replace

from kernelblaster.policies.expert.families import columns
from kernelblaster.policies.expert.families.pointwise import flat, packed_width
from kernelblaster.policies.expert.families.row_kernel import rows_of
from kernelblaster.policies.expert.plan import Kernel, Plan, Schedule
from kernelblaster.policies.expert.rewriting import everywhere

REDUCTIONS = ("row_reduction", "full_reduction")
SHORTEST = 32  # packs along a row of a pointwise kernel, below which rows are too short
SHORT_ROW = 256  # packs of a row up to which a warp does it alone


def apply(plan: Plan) -> Iterator[Plan]:
    yield from everywhere(plan, _vectorized)


def _vectorized(kernel: Kernel, plan: Plan) -> Kernel | None:
    if kernel.schedule.vector_width > 1:
        return None
    if kernel.family == "pointwise":
        return _pointwise(kernel, plan)
    if kernel.family in REDUCTIONS and kernel.schedule.workers != "thread":
        found = rows_of(kernel, plan).near
        width = found.width(plan) if found.reads else 1
        return _with(kernel, width) if width > 1 else None
    if kernel.family == "column_reduction" and kernel.axes:
        found = columns.columns_of(kernel, plan).near
        width = found.width(plan) if found.reads else 1
        if width > 1 and found.possible(plan, width):
            return _with(kernel, width, workers="tile")
    return None


def _pointwise(kernel: Kernel, plan: Plan) -> Kernel | None:
    if not kernel.axes or kernel.schedule.workers != "thread" or kernel.schedule.staged:
        return None
    if flat(kernel, plan):
        width = packed_width(kernel, plan)
        return _with(kernel, width) if width > 1 else None
    found = rows_of(kernel, plan)
    if not found.near.reads or not found.near.writes:
        return None
    width = found.near.width(plan)
    packs = plan.elements(found.kernel.reduced) // width
    if width == 1 or packs < SHORTEST or not found.near.possible(plan, width):
        return None
    if packs <= SHORT_ROW:
        return _with(kernel, width, workers="warp", unroll=4)
    return _with(kernel, width, workers="block", unroll=4)


def _with(kernel: Kernel, width: int, **changes: object) -> Kernel:
    schedule: Schedule = replace(kernel.schedule, vector_width=width, **changes)  # type: ignore[arg-type]
    return replace(kernel, schedule=schedule)
