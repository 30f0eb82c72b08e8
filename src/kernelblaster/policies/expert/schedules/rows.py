"""Schedules (layouts on the GPU) of reductions along memory: over the contiguous elements of a row, one
result for each row."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert.nest import BoundAxes, Cluster, Grid, Lanes, Nest, Serial, Threads, Vector
from kernelblaster.policies.expert.schedules.pointwise import RowMap, WarpRowMap
from kernelblaster.policies.expert.schedules.schedule import Accumulate, Axes, Family, Schedule


class _RowReduction(Schedule):
    """Base class of the layouts of reductions over the contiguous elements of each row of a row-major
    matrix."""

    family: ClassVar[Family] = "row_reduction"
    kind: ClassVar[str] = "along memory"


@dataclass(frozen=True)
class BlockPerRow(_RowReduction):
    """The first layout of a row reduction: a block of `threads` for each row. It goes over the row once for
    each reduction (stage) of the kernel, and its threads combine their results in shared memory. `accumulate`
    is the type in which float32 numbers are summed."""

    threads: int = 256
    accumulate: Accumulate = "float"

    def nest(self, axes: Axes, row: Axes) -> Nest:
        return Nest((BoundAxes(axes, (Grid(),)), BoundAxes(row, (Serial(), Threads(self.threads)))))


@dataclass(frozen=True)
class WarpRows(_RowReduction):
    """A row reduction in which `lanes` lanes of a warp share a row; if fewer than 32, a warp has several
    rows. A block has `threads` threads. Each thread processes vectors of `vector_width` elements, in a loop
    unrolled by `unroll`; between passes over the row it keeps the first `register_elements` of its elements
    in registers. With `streaming`, data that is accessed only once is read and written with streaming cache
    hints. `accumulate` is the type in which float32 numbers are summed."""

    lanes: int = WARP
    register_elements: int = 0
    threads: int = 256
    vector_width: int = 1
    unroll: int = 1
    streaming: bool = False
    accumulate: Accumulate = "float"

    def nest(self, axes: Axes, row: Axes) -> Nest:
        loops = Serial(self.unroll), Lanes(self.lanes), Vector(self.vector_width)
        return Nest((BoundAxes(axes, (Grid(), Threads(self.threads // self.lanes))), BoundAxes(row, loops)))


@dataclass(frozen=True)
class BlockRows(_RowReduction):
    """A row reduction with a block of `threads` for each row. With `shuffles`, threads combine their results
    by warp shuffles, otherwise only through shared memory. Each thread processes vectors of `vector_width`
    elements, in a loop unrolled by `unroll`; between passes over the row it keeps the first
    `register_elements` of its elements in registers. With `streaming`, data that is accessed only once is
    read and written with streaming cache hints. `accumulate` is the type in which float32 numbers are
    summed."""

    shuffles: bool = False
    register_elements: int = 0
    threads: int = 256
    vector_width: int = 1
    unroll: int = 1
    streaming: bool = False
    accumulate: Accumulate = "float"

    def nest(self, axes: Axes, row: Axes) -> Nest:
        loops = Serial(self.unroll), Threads(self.threads), Vector(self.vector_width)
        return Nest((BoundAxes(axes, (Grid(),)), BoundAxes(row, loops)))


@dataclass(frozen=True)
class ClusterRows(_RowReduction):
    """A row reduction with a thread-block cluster of `blocks` blocks, each of `threads`, for each row. Each
    thread processes vectors of `vector_width` elements, in a loop unrolled by `unroll`. Between passes over
    the row it keeps the first `register_elements` of its elements in registers and the next `shared_elements`
    in shared memory. A `persistent` cluster processes several rows, one after another. `blocks_per_sm` is how
    many blocks must fit on an SM, `resident` how many clusters the GPU runs at once. With `streaming`, data
    that is accessed only once is read and written with streaming cache hints. `accumulate` is the type in
    which float32 numbers are summed."""

    blocks: int
    blocks_per_sm: int
    resident: int
    register_elements: int = 0
    shared_elements: int = 0
    persistent: bool = False
    threads: int = 256
    vector_width: int = 1
    unroll: int = 1
    streaming: bool = False
    accumulate: Accumulate = "float"

    def nest(self, axes: Axes, row: Axes) -> Nest:
        grid = Grid(most=self.resident if self.persistent else None)
        loops = Cluster(self.blocks), Serial(self.unroll), Threads(self.threads), Vector(self.vector_width)
        return Nest((BoundAxes(axes, (grid,)), BoundAxes(row, loops)))


WarpPerRow = WarpRows | WarpRowMap
TunedRows = WarpRows | BlockRows | ClusterRows
RowReduction = BlockPerRow | TunedRows
Rows = RowMap | TunedRows


def row_threads(schedule: Rows) -> int:
    """Returns how many threads of a block work on the same row under `schedule`: some lanes of a warp, a
    whole warp, or all threads of the block."""
    match schedule:
        case WarpRows():
            return schedule.lanes
        case WarpRowMap():
            return WARP
    return schedule.threads


def rows_per_block(schedule: Rows) -> int:
    """Returns how many rows a block works on at the same time under `schedule`: 1, unless each row is
    processed by one warp or less."""
    return schedule.threads // row_threads(schedule)


def cluster_blocks(schedule: Rows) -> int:
    """Returns how many thread blocks share a row under `schedule`: the blocks of a cluster, or 1 without a
    cluster."""
    return schedule.blocks if isinstance(schedule, ClusterRows) else 1
