"""Schedules (layouts on the GPU) of convolutions as matrix products (implicit GEMM): the elements of the
input windows are gathered from the input tensor when they are needed, instead of being written to memory as a
matrix before."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert.nest import BoundAxes, Grid, Leaf, Nest, Serial, Tile, Warps
from kernelblaster.policies.expert.schedules.schedule import Axes, Family, Schedule

TILE_PADDING = 8  # elements after each line of a tile in shared memory: no bank conflicts between lanes


@dataclass(frozen=True)
class _Gathered(Schedule):
    """Base of the sums of products over several summed (K) axes by tensor cores, one operand of which is
    gathered. A block computes `block_m` x `block_n` results with `warps_m` x `warps_n` warps. The kernel goes
    over the outer K axes point by point, and over the inner ones in tiles of `block_k` terms."""

    block_m: int
    block_n: int
    block_k: int
    warps_m: int
    warps_n: int

    family: ClassVar[Family] = "matrix_product"
    kind: ClassVar[str] = "gathered"

    def nest(self, batch: Axes, rows: Axes, columns: Axes, outer: Axes, inner: Axes) -> Nest:
        """Where each axis of the product runs; `outer` and `inner` are the K axes. Neighbouring blocks have
        the same tile of columns, so that they gather the same elements while these are in the cache, and the
        phases of a transposed convolution are written next to each other."""
        return Nest(
            (
                BoundAxes(columns, (Grid(), Warps(self.warps_n), Tile(self.block_n // self.warps_n))),
                BoundAxes(batch, (Grid(),)),
                BoundAxes(rows, (Grid(), Warps(self.warps_m), Tile(self.block_m // self.warps_m))),
                BoundAxes(outer, (Serial(),)),
                BoundAxes(inner, (Serial(), Tile(self.block_k))),
            ),
            Leaf("mma", WARP),
        )

    @property
    def threads(self) -> int:
        return self.warps_m * self.warps_n * WARP


@dataclass(frozen=True)
class GatheredProduct(_Gathered):
    """A convolution as a matrix product on tensor cores in TF32, whose right operand is gathered: its
    elements are read from the input tensor when a tile is loaded, instead of from a matrix in memory.
    `stages` tiles of each operand are in shared memory at once. With `terms` 1, operands are rounded to TF32.
    With `terms` 2, each element is the sum of two TF32 numbers; a product of two elements is then four
    products of such numbers, of which all but the smallest are added."""

    stages: int = 3
    terms: int = 2

    def shared_bytes(self) -> int:
        """Returns the shared memory of a block in bytes: `stages` tiles of each operand, in float32, with
        padding."""
        return self.stages * self.block_k * (self.block_m + self.block_n + 2 * TILE_PADDING) * 4


@dataclass(frozen=True)
class GatheredHalves(_Gathered):
    """A convolution as a matrix product on tensor cores, whose operands are rounded to half precision after
    exact scaling. The left operand, the filters, was packed before (stored in tiles of scaled halves). The
    right one is gathered: one thread reads all elements of a column from the input tensor. Each row of the
    left operand and each column of the right one is divided by a power of two; the thread increases that of
    its column when an element would overflow. Two tiles of each operand are in shared memory at once.

    The inner loop runs over the longest K (summed) axes, no more of them than are needed for at least
    `inner_terms` iterations together. The other K axes are outer loops."""

    inner_terms: int = 16

    def shared_bytes(self) -> int:
        """Returns the shared memory of a block in bytes: two tiles of each operand in half precision, with
        padding, and a float for each column."""
        words = self.block_k // 2 * (self.block_m + self.block_n + 2 * TILE_PADDING)
        return (2 * words + self.block_n) * 4


Gathered = GatheredProduct | GatheredHalves
