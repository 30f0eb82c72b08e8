"""The schedule (layout on the GPU) of transposed convolutions with a stride, in which a block computes all
results of its cells: those that read the same elements of the operand."""

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
    """A transposed convolution with a stride as one matrix product on tensor cores. Its columns are cells;
    its rows are the phases (results of a cell) of `block_m` output channels. Operands are rounded to half
    precision after exact scaling. A block has `block_n` cells and `warps_m` x `warps_n` warps, and goes over
    the input channels in tiles of `block_k`. The tile of the operand that it gathers serves all phases, and
    all taps along the last dimension. Results are brought into memory order in shared memory. Two tiles of
    each operand are in shared memory at once."""

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
        """How many fragments of each phase a warp has: (along the channels, along the cells)."""
        m, n = self.block_m // self.warps_m, self.block_n // self.warps_n
        return m // FRAGMENT_ROWS, n // FRAGMENT_COLUMNS

    def nest(self, cells: Axes, rows: Axes, outer: Axes, channel: Axes) -> Nest:
        """Where each axis of the product runs; `cells` are the images' and the cells' axes, `outer` the taps
        of all dimensions but the last. Taps of the last one and phases are unrolled."""
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
        """Returns the 4-byte words of a tile: (of the filters, for so many phases and taps along the last
        dimension; of the operand)."""
        left = taps * phases * self.block_k // 2 * self.block_m
        return left, self.block_k // 2 * (self.block_n + LINE_PADDING)

    def staged_line(self, stride: int) -> int:
        """Returns the floats of a line in which a warp brings results into memory order, if results of a cell
        are neighbours in groups of `stride`."""
        return self.block_n // self.warps_n * stride + 1

    def shared_bytes(self, phases: int, taps: int, stride: int) -> int:
        """Returns the shared memory of a block in bytes: two tiles of each operand (or the lines of results
        that take their place in the end), and two words for each column. There are so many `phases` with
        taps, so many `taps` along the last dimension, and its `stride`."""
        staged = self.warps_m * self.warps_n * STAGED_ROWS * self.staged_line(stride)
        return (max(2 * sum(self.tile_words(phases, taps)), staged) + 2 * self.block_n) * 4
