"""The schedule (layout on the GPU) of transposed convolutions with a stride, in which a block computes all
results of its cells. A cell is the set of results that read the same elements of the operand."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert.nest import BoundAxes, Grid, Leaf, Nest, Serial, Tile, Warps
from kernelblaster.policies.expert.schedules.schedule import Axes, Family, Schedule

FRAGMENT_ROWS, FRAGMENT_COLUMNS, FRAGMENT_TERMS = 16, 8, 16  # of a matrix instruction
LINE_PADDING = 8  # words before each line of a tile: columns of the tile before, and no bank conflicts
STAGED_ROWS = 8  # rows of results that a warp passes through shared memory at a time


@dataclass(frozen=True)
class InterleavedPhases(Schedule):
    """A transposed convolution with a stride as one matrix product on tensor cores. Its columns are cells:
    sets of results that read the same elements of the operand. The number of a result within its cell is its
    phase. The rows of the product are the output channels, once for each phase. Operands are rounded to half
    precision after exact scaling. A block has `block_m` output channels, `block_n` cells and `warps_m` x
    `warps_n` warps, and goes over the input channels in tiles of `block_k`. A tile of the operand, gathered
    once, serves all phases, and all elements that a result reads along the last dimension. Two tiles of each
    operand are in shared memory at once; in the end, results are brought into the order of memory there.
    (`family` and `kind`: see `Schedule`.)"""

    block_m: int
    block_n: int
    block_k: int
    warps_m: int
    warps_n: int

    family: ClassVar[Family] = "matrix_product"
    kind: ClassVar[str] = "gathered"

    @property
    def threads(self) -> int:
        return self.warps_m * self.warps_n * WARP

    @property
    def fragments(self) -> tuple[int, int]:
        """How many fragments of results a warp has for each phase: (along the output channels, along the
        cells). A fragment is the 16 x 8 results of one matrix instruction."""
        m, n = self.block_m // self.warps_m, self.block_n // self.warps_n
        return m // FRAGMENT_ROWS, n // FRAGMENT_COLUMNS

    def nest(self, cells: Axes, rows: Axes, outer: Axes, channel: Axes) -> Nest:
        """Returns where each axis of the product runs on the GPU. `cells` are the axes of the images and
        cells, `rows` those of the output channels, `channel` that of the input channels. `outer` are the axes
        of the taps (the elements that a result reads) along all dimensions but the last. Phases, and taps
        along the last dimension, are no axes of the nest: they are unrolled in each thread."""
        return Nest(
            (
                BoundAxes(cells, (Grid(), Warps(self.warps_n), Tile(self.block_n // self.warps_n))),
                BoundAxes(rows, (Grid(), Warps(self.warps_m), Tile(self.block_m // self.warps_m))),
                BoundAxes(channel, (Serial(), Tile(self.block_k))),
                BoundAxes(outer, (Serial(),)),
            ),
            Leaf("mma", WARP),
        )

    def tile_words(self, phases: int, taps: int) -> tuple[int, int]:
        """Returns the number of 4-byte words of (a tile of the filters, a tile of the operand). `phases` is
        the number of phases that have sums, `taps` the number of elements that a result reads along the last
        dimension."""
        left = taps * phases * self.block_k // 2 * self.block_m
        return left, self.block_k // 2 * (self.block_n + LINE_PADDING)

    def staged_line(self, stride: int) -> int:
        """Returns the length, in floats, of a line of shared memory in which a warp puts its results of one
        output channel into the order of memory; it is one float longer than the results. `stride` is the
        stride of the convolution along the last dimension: so many results of a cell are neighbours in
        memory."""
        return self.block_n // self.warps_n * stride + 1

    def shared_bytes(self, phases: int, taps: int, stride: int) -> int:
        """Returns the shared memory in bytes that a block of this transposed convolution needs: for two
        tiles of each operand, or for the lines of results that take their place in the end, if these are
        larger; and two words for each column of a tile. A phase is the set of results whose index leaves
        the same remainder by the stride. `phases` is the number of those that read anything, `taps` the
        number of elements that a result reads along the last dimension, `stride` the stride along that
        dimension."""
        staged = self.warps_m * self.warps_n * STAGED_ROWS * self.staged_line(stride)
        return (max(2 * sum(self.tile_words(phases, taps)), staged) + 2 * self.block_n) * 4
