"""Schedules (layouts on the GPU) of reductions across memory: down the rows of a row-major matrix, one result
for each column."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert.nest import BoundAxes, Grid, Lanes, Nest, Serial, Threads, Vector, Warps
from kernelblaster.policies.expert.schedules.schedule import Accumulate, Axes, Family, Schedule


class _ColumnReduction(Schedule):
    """Base class of the layouts of reductions over the rows of a row-major matrix, with one result for each
    column."""

    family: ClassVar[Family] = "column_reduction"
    kind: ClassVar[str] = "across memory"


@dataclass(frozen=True)
class ThreadPerColumn(_ColumnReduction):
    """The first layout of a reduction across memory: a thread for each column, in blocks of `threads`. It
    goes down the rows of its column once for each reduction (stage) of the kernel. `accumulate` is the type
    in which float32 numbers are summed."""

    threads: int = 256
    accumulate: Accumulate = "float"

    def nest(self, axes: Axes, reduced: Axes) -> Nest:
        return Nest((BoundAxes(axes, (Grid(), Threads(self.threads))), BoundAxes(reduced, (Serial(),))))


@dataclass(frozen=True)
class Columns(_ColumnReduction):
    """The tuned layout of a reduction across memory: each lane of a warp has `vector_width` neighbouring
    columns, and the warps of a block of `threads` share the rows. The loop over rows is unrolled by `unroll`.
    With `streaming`, data that is accessed only once is read and written with streaming cache hints.
    `accumulate` is the type in which float32 numbers are summed."""

    vector_width: int = 1
    threads: int = 256
    unroll: int = 1
    streaming: bool = False
    accumulate: Accumulate = "float"

    def nest(self, axes: Axes, reduced: Axes) -> Nest:
        return Nest(
            (
                BoundAxes(axes[:-1], (Grid(),)),
                BoundAxes(axes[-1:], (Grid(), Lanes(), Vector(self.vector_width))),
                BoundAxes(reduced, (Serial(self.unroll), Warps(self.threads // WARP))),
            )
        )


ColumnReduction = ThreadPerColumn | Columns
