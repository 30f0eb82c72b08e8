"""The schedule of reductions over sliding windows (poolings, depthwise convolutions) in which neighbouring
results share what they read."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.nest import BoundAxes, Grid, Loop, Nest, Serial, Threads, Unrolled, Vector
from kernelblaster.policies.expert.schedules.schedule import Accumulate, Axes, Family, Schedule


@dataclass(frozen=True)
class WindowPatches(Schedule):
    """A thread computes a patch of neighbouring results: `lines` of them along each dimension in which
    windows slide, but for the one along memory, where it computes `columns`. It reads the elements under all
    of their windows once, as vectors of `vector_width` elements, and keeps the results in registers. At
    sizes that leave vectors unaligned, it reads single elements and computes one column."""

    lines: tuple[int, ...]
    columns: int
    vector_width: int
    threads: int = 256
    accumulate: Accumulate = "float"

    family: ClassVar[Family] = "column_reduction"
    kind: ClassVar[str] = "windows"

    @property
    def results(self) -> int:
        """How many results a thread computes."""
        return prod(self.lines) * self.columns

    def nest(self, patches: Axes, lines: Axes, column: Axis, reduced: Axes) -> Nest:
        """Where each axis runs; `patches` count the patches along each axis of the results, `lines` are the
        axes along which a patch has several."""
        several = [count for count in self.lines if count > 1]
        inside: list[tuple[Axis, Loop]] = [
            *((axis, Unrolled(count)) for axis, count in zip(lines, several, strict=True)),
            (column, Vector(self.columns)),
            *((axis, Unrolled(axis.extent.value)) for axis in reduced),
        ]
        bound = [BoundAxes((axis,), (loop,)) for axis, loop in inside if loop not in (Vector(1), Serial())]
        return Nest((BoundAxes(patches, (Grid(), Threads(self.threads))), *bound))
