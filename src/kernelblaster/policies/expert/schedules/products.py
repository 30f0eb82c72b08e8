"""Schedules (layouts on the GPU) of matrix products: a thread for each result, tiles in shared memory, and
tensor cores with `mma` or `wgmma` instructions."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert.nest import (
    BoundAxes,
    Grid,
    Leaf,
    Nest,
    Serial,
    Threads,
    Tile,
    Unrolled,
    Warps,
)
from kernelblaster.policies.expert.schedules.schedule import Accumulate, Axes, Family, Schedule

PACKED_ROWS, PACKED_DEPTH = 128, 32  # a packed operand is filled up to multiples of these
LINE_PADDING = 4  # elements after each line of a tile in shared memory, at most
HALF_BYTES = 2
RASTER = 8  # rows of tiles that blocks of products by tensor cores walk together at first
MMA_M, MMA_N = 64, 32  # results of a warp
WGMMA_M, WARPGROUP = 64, 128  # rows of results of a warpgroup, and its threads


class _Product(Schedule):
    """Base class of the layouts of matrix products on the GPU."""

    family: ClassVar[Family] = "matrix_product"
    kind: ClassVar[str] = "product"


@dataclass(frozen=True)
class ThreadPerResult(_Product):
    """The first layout of a matrix product (or convolution): a thread for each result, in blocks of
    `threads`, which reads all terms of its sum from global memory. `accumulate` is the type in which float32
    numbers are summed."""

    threads: int = 256
    accumulate: Accumulate = "float"

    def nest(self, axes: Axes, k_axes: Axes) -> Nest:
        return Nest((BoundAxes(axes, (Grid(), Threads(self.threads))), BoundAxes(k_axes, (Serial(),))))


@dataclass(frozen=True)
class TiledProduct(_Product):
    """A matrix product without tensor cores, on tiles of both operands in shared memory.

    A block computes `block_m` x `block_n` results, adding `block_k` terms to their sums for each tile. A
    thread computes `thread_m` x `thread_n` of these results (each 1 or a multiple of 4). With two or more
    `stages`, the next tiles are fetched while one is in use: by `cp.async` if `asynchronous`, otherwise
    through registers. With `flush`, a thread adds its sum to a separate total after every `flush` terms, so
    that long sums lose less precision. Blocks are numbered in groups of `raster` rows of tiles, column by
    column within a group, so that blocks that run at the same time read the same operands from the L2 cache;
    `raster` 1 is row by row.
    """

    block_m: int
    block_n: int
    block_k: int
    thread_m: int = 1
    thread_n: int = 1
    stages: int = 1
    asynchronous: bool = False
    flush: int | None = None
    raster: int = 1

    @property
    def threads(self) -> int:
        return self.block_m // self.thread_m * (self.block_n // self.thread_n)

    def nest(self, batch: Axes, rows: Axes, columns: Axes, k_axes: Axes) -> Nest:
        down, across = self.block_m // self.thread_m, self.block_n // self.thread_n
        return Nest(
            (
                BoundAxes(batch, (Grid(),)),
                BoundAxes(rows, (Grid(grouped=self.raster), Threads(down), Unrolled(self.thread_m))),
                BoundAxes(columns, (Grid(), Threads(across), Unrolled(self.thread_n))),
                BoundAxes(k_axes, (Serial(), Unrolled(self.block_k))),
            )
        )

    def shared_bytes(self, element_bytes: int) -> int:
        """Returns the most shared memory that a block takes, in bytes: `stages` tiles of both operands,
        padding included, with `element_bytes` bytes for each element."""
        lines = self.block_m + self.block_n + 2 * LINE_PADDING
        return self.stages * self.block_k * lines * element_bytes


@dataclass(frozen=True)
class _PackedTile(_Product):
    """Base of the matrix products on operands that were packed for tensor cores: a block computes `block_m` x
    `block_n` results, and has `stages` tiles of the K axis in shared memory at once. Blocks are numbered in
    groups of `raster` rows of tiles, column by column within a group."""

    block_m: int = 128
    block_n: int = 128
    stages: int = 3
    raster: int = RASTER

    def shared_bytes(self, terms: int) -> int:
        """Shared memory of a block in bytes, where each element of an operand is stored as the sum of `terms`
        half-precision numbers."""
        return (self.block_m + self.block_n) * PACKED_DEPTH * HALF_BYTES * terms * self.stages


@dataclass(frozen=True)
class MmaProduct(_PackedTile):
    """A matrix product by tensor cores, with the `mma` instructions of single warps. Kernels before it have
    packed its operands (arranged them in tiles of half-precision numbers). A block computes `block_m` x
    `block_n` results; `stages` tiles along K are in shared memory at once; blocks are numbered in groups of
    `raster` rows of tiles."""

    def nest(self, batch: Axes, rows: Axes, columns: Axes, k_axes: Axes) -> Nest:
        return Nest(
            (
                BoundAxes(batch, (Grid(),)),
                BoundAxes(rows, (Grid(grouped=self.raster), Warps(self.block_m // MMA_M), Tile(MMA_M))),
                BoundAxes(columns, (Grid(), Warps(self.block_n // MMA_N), Tile(MMA_N))),
                BoundAxes(k_axes, (Serial(), Tile(PACKED_DEPTH))),
            ),
            Leaf("mma", WARP),
        )


@dataclass(frozen=True)
class WgmmaProduct(_PackedTile):
    """A matrix product by tensor cores, with the `wgmma` instructions of warpgroups (sm_90a). Kernels before
    it have packed its operands (arranged them in tiles of half-precision numbers). Blocks are persistent:
    each computes several tiles of `block_m` x `block_n` results, one after another. One warpgroup of a block
    only fetches tiles of the operands; `stages` of these, along K, are in shared memory at once. Tiles of
    results are numbered in groups of `raster` rows of tiles."""

    def nest(self, batch: Axes, rows: Axes, columns: Axes, k_axes: Axes) -> Nest:
        return Nest(
            (
                BoundAxes(batch, (Grid(),)),
                BoundAxes(
                    rows, (Grid(grouped=self.raster), Unrolled(self.block_m // WGMMA_M), Tile(WGMMA_M))
                ),
                BoundAxes(columns, (Grid(), Tile(self.block_n))),
                BoundAxes(k_axes, (Serial(), Tile(PACKED_DEPTH))),
            ),
            Leaf("wgmma", self.block_m // WGMMA_M * WARPGROUP),
            helpers=WARPGROUP,
        )


Product = ThreadPerResult | TiledProduct | MmaProduct | WgmmaProduct
TensorProduct = MmaProduct | WgmmaProduct
