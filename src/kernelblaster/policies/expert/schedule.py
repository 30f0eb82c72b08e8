"""Schedules: how a kernel is laid out on the GPU. Techniques change them.

There is one type for each kind of kernel, with the fields that mean something there and no others. The type
alone says which emitter writes the kernel (emission/).

| computes | types |
|---|---|
| each element on its own | ElementPerThread, FlatVectors, TransposedTiles, WarpRowMap, BlockRowMap |
| a reduction along memory | BlockPerRow, WarpRows, BlockRows, ClusterRows |
| a reduction across memory | ThreadPerColumn, Columns |
| a matrix product | ThreadPerResult, TiledProduct, MmaProduct, WgmmaProduct |
| an operand for tensor cores | Packing |

Everywhere, `threads` are those of a block; `vector_width` is the number of elements that a thread moves with
one instruction; loops over vectors or rows are unrolled `unroll` times; with `streaming`, what is touched
once is read and written past the caches; `accumulate` is the type of running sums of float32 numbers."""

from dataclasses import dataclass
from typing import Literal

from kernelblaster.devices.occupancy import WARP

Accumulate = Literal["float", "double"]
PACKED_ROWS, PACKED_DEPTH = 128, 32  # a packed operand is filled up to multiples of these
LINE_PADDING = 4  # elements after each line of a tile in shared memory, at most
HALF_BYTES = 2
STATIC_SHARED_BYTES = 48 << 10  # of shared memory that a launch may have without asking


@dataclass(frozen=True)
class ElementPerThread:
    """One thread for each element."""

    threads: int = 256


@dataclass(frozen=True)
class FlatVectors:
    """All tensors are walked in order: a thread has `coarsening` vectors of neighbouring elements, whose
    loads are issued before the first is used."""

    vector_width: int
    threads: int = 256
    coarsening: int = 1
    streaming: bool = False


@dataclass(frozen=True)
class TransposedTiles:
    """A block reads a square tile along one axis into shared memory and writes it along another."""

    threads: int = 256


@dataclass(frozen=True)
class WarpRowMap:
    """A map along rows, one warp for each row."""

    vector_width: int
    threads: int = 256
    unroll: int = 1
    streaming: bool = False


@dataclass(frozen=True)
class BlockRowMap:
    """A map along rows, one block for each row."""

    vector_width: int
    threads: int = 256
    unroll: int = 1
    streaming: bool = False


@dataclass(frozen=True)
class BlockPerRow:
    """As first written: a block for each row, one pass for each stage, combined in shared memory."""

    threads: int = 256
    accumulate: Accumulate = "float"


@dataclass(frozen=True)
class WarpRows:
    """`lanes` of a warp for each row; with fewer than all, the warp has several rows. Each thread keeps its
    first `register_elements` of a row in registers between passes."""

    lanes: int = WARP
    register_elements: int = 0
    threads: int = 256
    vector_width: int = 1
    unroll: int = 1
    streaming: bool = False
    accumulate: Accumulate = "float"


@dataclass(frozen=True)
class BlockRows:
    """A block for each row; its threads combine results by `shuffles` within warps, or in shared memory. Each
    keeps its first `register_elements` of a row in registers between passes."""

    shuffles: bool = False
    register_elements: int = 0
    threads: int = 256
    vector_width: int = 1
    unroll: int = 1
    streaming: bool = False
    accumulate: Accumulate = "float"


@dataclass(frozen=True)
class ClusterRows:
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


@dataclass(frozen=True)
class ThreadPerColumn:
    """As first written: a thread for each column, which walks its rows once for each stage."""

    threads: int = 256
    accumulate: Accumulate = "float"


@dataclass(frozen=True)
class Columns:
    """The lanes of a warp have neighbouring columns, a vector each; the warps of a block share the rows."""

    vector_width: int = 1
    threads: int = 256
    unroll: int = 1
    streaming: bool = False
    accumulate: Accumulate = "float"


@dataclass(frozen=True)
class ThreadPerResult:
    """As first written: a thread for each result of a matrix product."""

    threads: int = 256
    accumulate: Accumulate = "float"


@dataclass(frozen=True)
class TiledProduct:
    """A matrix product by plain arithmetic, on tiles of both operands in shared memory.

    A block computes `block_m` x `block_n` results, `block_k` terms at a time, and a thread `thread_m` x
    `thread_n` of them (one or multiples of four). With two or more `stages` the next tiles are fetched
    while one is in use, past the registers where `asynchronous`. With `flush`, sums of so many terms
    are added to totals: a long sum then loses less.
    """

    block_m: int
    block_n: int
    block_k: int
    thread_m: int = 1
    thread_n: int = 1
    stages: int = 1
    asynchronous: bool = False
    flush: int | None = None

    @property
    def threads(self) -> int:
        return self.block_m // self.thread_m * (self.block_n // self.thread_n)

    def shared_bytes(self, element_bytes: int) -> int:
        """Shared memory of a block, with the padding of its lines."""
        lines = self.block_m + self.block_n + 2 * LINE_PADDING
        return self.stages * self.block_k * lines * element_bytes


@dataclass(frozen=True)
class _PackedTile:
    """A block computes `block_m` x `block_n` results; `stages` tiles of the K axis are in flight."""

    block_m: int = 128
    block_n: int = 128
    stages: int = 3

    def shared_bytes(self, terms: int) -> int:
        """Shared memory of a block, where each element is a sum of so many half-precision terms."""
        return (self.block_m + self.block_n) * PACKED_DEPTH * HALF_BYTES * terms * self.stages


@dataclass(frozen=True)
class MmaProduct(_PackedTile):
    """A matrix product by tensor cores, on packed operands (packing.py): warps multiply on their own."""


@dataclass(frozen=True)
class WgmmaProduct(_PackedTile):
    """The same by warpgroups (sm_90a), in persistent blocks of which one warpgroup only fetches tiles."""


@dataclass(frozen=True)
class Packing:
    """An operand is rearranged and split for tensor cores; there is one way to do it."""


WarpPerRow = WarpRows | WarpRowMap
RowMap = WarpRowMap | BlockRowMap
Pointwise = ElementPerThread | FlatVectors | TransposedTiles | RowMap
TunedRows = WarpRows | BlockRows | ClusterRows
RowReduction = BlockPerRow | TunedRows
ColumnReduction = ThreadPerColumn | Columns
Reduction = RowReduction | ColumnReduction
Product = ThreadPerResult | TiledProduct | MmaProduct | WgmmaProduct
TensorProduct = MmaProduct | WgmmaProduct
Rows = RowMap | TunedRows
Accumulating = Reduction | ThreadPerResult
Schedule = Pointwise | Reduction | Product | Packing


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
