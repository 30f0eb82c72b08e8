"""Thread coarsening: each thread does more of the work, so that addresses are computed less often.

In a pointwise kernel, a thread processes several vectors, and issues the loads of all of them before it uses
the first. In a reduction of short rows, a warp processes several rows at once: each row gets fewer lanes, and
each lane more vectors.
"""

from dataclasses import replace
from functools import partial

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.row_kernel import element_bytes, row_kernel
from kernelblaster.policies.expert.schedules.pointwise import FlatVectors
from kernelblaster.policies.expert.schedules.rows import WarpRows
from kernelblaster.policies.expert.techniques.rows_in_registers import LANES, MOST_BYTES, share

APPLIES_TO = (FlatVectors, WarpRows)
VECTORS = (4, 2, 8)
MANY = 1 << 20  # elements, or lanes with a row's vectors, from which the GPU is full with fewer threads too


def _coarser(kernel: Kernel, plan: Plan, gpu: GpuSpec, vectors: int) -> Kernel | No:
    if isinstance(kernel.schedule, WarpRows):
        return _fewer_lanes(kernel, kernel.schedule, plan, vectors)
    assert isinstance(kernel.schedule, FlatVectors)
    if kernel.schedule.coarsening == vectors:
        return No("its threads have that many vectors already")
    if plan.elements(kernel.axes) < MANY:
        return No("it has too few elements to fill the GPU with fewer threads")
    return replace(kernel, schedule=replace(kernel.schedule, coarsening=vectors))


def _fewer_lanes(kernel: Kernel, schedule: WarpRows, plan: Plan, vectors: int) -> Kernel | No:
    rows = row_kernel(kernel, plan)
    length, grain = plan.elements(kernel.reduced), rows.access.width(plan)
    lanes = next((n for n in LANES if share(length, n, grain) <= grain * vectors), schedule.lanes)
    if lanes >= schedule.lanes:
        return No("its rows are too long for fewer lanes")
    if plan.elements(kernel.axes) * lanes < MANY:
        return No("it has too few rows to fill the GPU with fewer lanes for each")
    kept = share(length, lanes, grain) if schedule.register_elements else 0
    if kept * element_bytes(rows.resident(schedule), plan) > MOST_BYTES[0]:
        return No("fewer lanes have no room for a row in their registers")
    return replace(kernel, schedule=replace(schedule, lanes=lanes, register_elements=kept))


REWRITES = tuple(partial(_coarser, vectors=vectors) for vectors in VECTORS)
