"""The schedule (layout on the GPU) of attention as one kernel, with online softmax
(emission/attention.py)."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert.nest import BoundAxes, Grid, Leaf, Nest, Serial, Tile, Warps
from kernelblaster.policies.expert.schedules.products import HALF_BYTES, PACKED_DEPTH
from kernelblaster.policies.expert.schedules.schedule import Axes, Family, Schedule

MMA_ROWS = 16  # rows of a fragment
SCALED_TILES = 4  # tiles of a packed operand that have one scale
FLOAT_BYTES = 4


@dataclass(frozen=True)
class OnlineAttention(Schedule):
    """The layout of attention as one kernel, by tensor cores on packed operands. A block has `warps` warps,
    each of which computes 16 * `fragments` queries. The block goes over the keys in tiles of `keys`; two
    tiles of keys and two of values are in shared memory at once. Of each query and key, the first `depth`
    elements (a multiple of 32) are in shared memory; further ones are read from global memory. A block
    computes `width` columns of the result. (`family` and `kind`: see `Schedule`.)"""

    fragments: int
    warps: int
    keys: int
    depth: int
    width: int

    family: ClassVar[Family] = "matrix_product"
    kind: ClassVar[str] = "attention"

    def nest(self, batch: Axes, queries: Axes, columns: Axes, keys: Axes, depth: Axes) -> Nest:
        return Nest(
            (
                BoundAxes(batch, (Grid(),)),
                BoundAxes(queries, (Grid(), Warps(self.warps), Tile(self.fragments * MMA_ROWS))),
                BoundAxes(columns, (Grid(), Tile(self.width))),
                BoundAxes(keys, (Serial(), Tile(self.keys))),
                BoundAxes(depth, (Serial(), Tile(PACKED_DEPTH))),
            ),
            Leaf("mma", WARP),
        )

    @property
    def block(self) -> int:
        """The number of queries that a block computes."""
        return self.fragments * MMA_ROWS * self.warps

    @property
    def depth_tiles(self) -> int:
        return self.depth // PACKED_DEPTH

    def shared_bytes(self, terms: int, value_terms: int) -> int:
        """Returns the shared memory of a block in bytes: the queries, two tiles of keys and values, and the
        scales of the keys. Each element of a query or key is stored as `terms` half-precision numbers, each
        element of a value as `value_terms`."""
        element = HALF_BYTES * terms
        scales = -(-self.depth_tiles // SCALED_TILES) * self.keys if terms == 2 else 0
        values = self.keys * self.width * HALF_BYTES * value_terms
        tile = self.keys * self.depth * element + values + scales * FLOAT_BYTES
        return self.block * self.depth * element + 2 * tile
