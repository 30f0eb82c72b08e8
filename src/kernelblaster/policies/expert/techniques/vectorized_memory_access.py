"""Vectorized memory access: a thread loads and stores 16 bytes in one instruction.

A pointwise kernel that goes through all its tensors in memory order processes them as a sequence of vectors.
Tensors and scratch buffers begin at multiples of 256 bytes; elements after the last full vector are processed
singly. In other pointwise kernels (operands are broadcast or looked up) and in reductions, vectors run along
rows or across neighbouring columns; at sizes at which they would not be aligned, the same kernel processes
single elements.

Two changes come with it. In reductions down columns, the warps of a block share the rows, and all stages
share one pass. In a pointwise kernel with fewer than two rows for each SM (FEW), each row is cut into pieces
of at least 4096 elements (LEAST_PIECE), with a block for each piece; rows that are too short for two pieces
stay whole.
"""

from dataclasses import replace
from typing import get_args

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis, Part
from kernelblaster.policies.expert.flat_access import flat_width, is_flat
from kernelblaster.policies.expert.flatten import flattened
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.row_kernel import row_kernel
from kernelblaster.policies.expert.schedules.columns import ColumnReduction, Columns
from kernelblaster.policies.expert.schedules.pointwise import (
    BlockRowMap,
    ElementPerThread,
    FlatVectors,
    WarpRowMap,
)
from kernelblaster.policies.expert.schedules.rows import BlockPerRow, BlockRows, RowReduction, TunedRows
from kernelblaster.policies.expert.schedules.scans import Scan, ScanColumns, ScanRows, ThreadPerScan
from kernelblaster.policies.expert.schedules.schedule import Schedule
from kernelblaster.policies.expert.vector_access import VectorAccess, column_access

APPLIES_TO = get_args(ElementPerThread | RowReduction | ColumnReduction | Scan)
SHORTEST = 32  # vectors along a row of a pointwise kernel, below which rows are too short
SHORT_ROW = 256  # vectors of a row up to which a warp does it alone
UNROLL = 4
FEW, FILL = 2, 8  # blocks for each SM: with fewer, rows are cut into pieces, for so many
PIECE = "piece"
LEAST_PIECE = 4096  # elements, below which a block has too little to do
GRAIN = 8  # elements: pieces are multiples of this, so that vectors of any type are aligned
NOTHING = No("nothing that it reads is contiguous in a way that vectors could use")


def _vectorized(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> Kernel | No:
    schedule = kernel.schedule
    found: Schedule | No
    if isinstance(schedule, ElementPerThread):
        found = _pointwise(kernel, schedule, plan)
        if isinstance(found, BlockRowMap):
            kernel = _in_pieces(kernel, plan, gpu)
    elif isinstance(schedule, TunedRows | Columns | ScanRows | ScanColumns) and schedule.vector_width > 1:
        found = No("its accesses are vectors already")
    elif isinstance(schedule, ThreadPerScan | ScanColumns):
        found = _scan_columns(kernel, plan)
    elif isinstance(schedule, ColumnReduction):
        found = _columns(kernel, schedule, plan)
    else:
        assert isinstance(schedule, RowReduction | ScanRows)
        width = _width(row_kernel(kernel, plan).access, plan)
        if isinstance(schedule, BlockPerRow):
            schedule = BlockRows(threads=schedule.threads, accumulate=schedule.accumulate)
        found = replace(schedule, vector_width=width) if width > 1 else NOTHING
    return found if isinstance(found, No) else replace(kernel, schedule=found)


def _width(access: VectorAccess, plan: Plan) -> int:
    return access.width(plan) if access.reads else 1


def _columns(kernel: Kernel, schedule: ColumnReduction, plan: Plan) -> Columns | No:
    if not kernel.axes:
        return No("it has one column only")
    access = column_access(kernel, plan)
    width = _width(access, plan)
    if width == 1:
        return NOTHING
    aligned = access.possible(plan, width)
    if isinstance(schedule, Columns):
        found = replace(schedule, vector_width=width)
        return found if aligned else No("the primary workload's sizes leave vectors unaligned")
    return Columns(width if aligned else 1, schedule.threads, accumulate=schedule.accumulate)


def _scan_columns(kernel: Kernel, plan: Plan) -> ScanColumns | No:
    if not kernel.axes:
        return No("it has one column only")
    access = column_access(kernel, plan)
    width = _width(access, plan)
    if width == 1:
        return NOTHING
    if not access.possible(plan, width):
        return No("the primary workload's sizes leave vectors unaligned")
    return ScanColumns(width)


def _pointwise(kernel: Kernel, schedule: ElementPerThread, plan: Plan) -> Schedule | No:
    if not kernel.axes:
        return No("it has one element only")
    threads = schedule.threads
    if is_flat(kernel, plan):
        width = flat_width(kernel, plan)
        return FlatVectors(width, threads) if width > 1 else NOTHING
    found = row_kernel(kernel, plan)
    if not found.access.reads or not found.access.writes:
        return NOTHING
    width = found.access.width(plan)
    vectors = plan.elements(found.kernel.reduced) // width
    if width == 1 or vectors < SHORTEST:
        return No("its rows are too short for vectors")
    if not found.access.possible(plan, width):
        return No("the primary workload's sizes leave vectors unaligned")
    return (WarpRowMap if vectors <= SHORT_ROW else BlockRowMap)(width, threads, UNROLL)


def _in_pieces(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> Kernel:
    """The pointwise kernel with its rows cut into pieces, one for each block, if there are too few rows for a
    block each to fill the GPU; else unchanged."""
    flat = flattened(kernel, plan)
    *outer, row = flat.axes
    blocks, extent = plan.elements(tuple(outer)), plan.extent(row.extent)
    count = min(FILL * gpu.multiprocessors // blocks, extent // LEAST_PIECE)
    if blocks >= gpu.multiprocessors * FEW or count < 2:
        return kernel
    length = indices.number(-(-extent // (count * GRAIN)) * GRAIN)
    pieces = Axis(PIECE, indices.tiles(row.extent, length.value))
    return replace(flat, axes=(*outer, pieces, replace(row, part=Part(PIECE, length))))


REWRITES = (_vectorized,)
