"""The schedule (layout on the GPU) of kernels that pack an operand of a matrix product for tensor cores
(emission/packing.py)."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.policies.expert.nest import BoundAxes, Grid, Nest, Threads, Unrolled, Vector
from kernelblaster.policies.expert.schedules.products import PACKED_DEPTH
from kernelblaster.policies.expert.schedules.schedule import Axes, Family, Schedule

SLAB_ROWS = 64  # rows of an operand that lie together
TOGETHER = 4  # tiles of a packed operand that have one scale


@dataclass(frozen=True)
class Packing(Schedule):
    """The layout of a kernel that arranges an operand of a matrix product in tiles, each element as one or
    several half-precision numbers, for tensor cores. It has nothing to tune. (`family` and `kind`: see
    `Schedule`.)"""

    family: ClassVar[Family] = "pack"
    kind: ClassVar[str] = "packing"

    def nest(self, batch: Axes, rows: Axes, k_axes: Axes) -> Nest:
        k_loops = Grid(), Unrolled(TOGETHER), Threads(PACKED_DEPTH // 8), Vector(8)
        return Nest(
            (
                BoundAxes(batch, (Grid(),)),
                BoundAxes(rows, (Grid(), Threads(SLAB_ROWS))),
                BoundAxes(k_axes, k_loops),
            )
        )
