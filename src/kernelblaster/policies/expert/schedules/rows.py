"""Reductions along memory."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert.nest import BoundAxes, Cluster, Grid, Lanes, Nest, Serial, Threads, Vector
from kernelblaster.policies.expert.schedules.pointwise import RowMap, WarpRowMap
from kernelblaster.policies.expert.schedules.schedule import Accumulate, Axes, Family, Schedule


class _RowReduction(Schedule):
    """A reduction along memory."""

    family: ClassVar[Family] = "row_reduction"
    kind: ClassVar[str] = "along memory"


@dataclass(frozen=True)
class BlockPerRow(_RowReduction):
    """As first written: a block for each row, one pass for each stage, combined in shared memory."""

    threads: int = 256
    accumulate: Accumulate = "float"

    def nest(self, axes: Axes, row: Axes) -> Nest:
        return Nest((BoundAxes(axes, (Grid(),)), BoundAxes(row, (Serial(), Threads(self.threads)))))


@dataclass(frozen=True)
class WarpRows(_RowReduction):
    """`lanes` of a warp for each row; with fewer than all, the warp has several rows. Each thread keeps its
    first `register_elements` of a row in registers between passes."""

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
    """A block for each row; its threads combine results by `shuffles` within warps, or in shared memory. Each
    keeps its first `register_elements` of a row in registers between passes."""

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
    """A thread-block cluster of `blocks` for each row. Each thread keeps the first `register_elements` of its
    part in registers and the next `shared_elements` in shared memory. A `persistent` cluster goes on to
    further rows. `blocks_per_sm` is how many blocks an SM must have room for, `resident` how many clusters
    the GPU runs at once."""

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
    """Threads of a block that share a row."""
    match schedule:
        case WarpRows():
            return schedule.lanes
        case WarpRowMap():
            return WARP
    return schedule.threads


def rows_per_block(schedule: Rows) -> int:
    """Rows that a block has at once."""
    return schedule.threads // row_threads(schedule)


def cluster_blocks(schedule: Rows) -> int:
    """The number of thread blocks of the cluster that share a row; 1 without a cluster."""
    return schedule.blocks if isinstance(schedule, ClusterRows) else 1
