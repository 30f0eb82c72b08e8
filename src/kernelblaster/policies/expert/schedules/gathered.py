"""Products of which an operand is gathered: convolutions as matrix products, without a matrix of windows in
memory."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert.nest import BoundAxes, Grid, Leaf, Nest, Serial, Tile, Warps
from kernelblaster.policies.expert.schedules.schedule import Axes, Family, Schedule

TILE_PADDING = 8  # elements after each line of a tile in shared memory: no bank conflicts between lanes


@dataclass(frozen=True)
class GatheredProduct(Schedule):
    """A sum of products over several K axes by tensor cores, in TF32. A block computes `block_m` x `block_n`
    results with `warps_m` x `warps_n` warps. The K axes but the inner ones are walked one after another; of
    the inner ones, `block_k` terms at a time are in shared memory, `stages` such tiles at once: of the packed
    operand as they lie, of the other one gathered element by element. With `terms` 1, operands are rounded to
    TF32; with 2, each is a sum of two such numbers, of whose products the largest three are added."""

    block_m: int
    block_n: int
    block_k: int
    warps_m: int
    warps_n: int
    stages: int = 3
    terms: int = 2

    family: ClassVar[Family] = "matrix_product"
    kind: ClassVar[str] = "gathered"

    def nest(self, batch: Axes, rows: Axes, columns: Axes, outer: Axes, inner: Axes) -> Nest:
        """Blocks of one tile of columns follow each other: they gather the same elements."""
        return Nest(
            (
                BoundAxes(batch, (Grid(),)),
                BoundAxes(columns, (Grid(), Warps(self.warps_n), Tile(self.block_n // self.warps_n))),
                BoundAxes(rows, (Grid(), Warps(self.warps_m), Tile(self.block_m // self.warps_m))),
                BoundAxes(outer, (Serial(),)),
                BoundAxes(inner, (Serial(), Tile(self.block_k))),
            ),
            Leaf("mma", WARP),
        )

    @property
    def threads(self) -> int:
        return self.warps_m * self.warps_n * WARP

    def shared_bytes(self) -> int:
        """Shared memory of a block, with the padding of its lines."""
        return self.stages * self.block_k * (self.block_m + self.block_n + 2 * TILE_PADDING) * 4
