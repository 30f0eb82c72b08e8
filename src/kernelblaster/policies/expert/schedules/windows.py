"""A schedule (layout on the GPU) for reductions over sliding windows, like poolings and depthwise
convolutions: a thread computes several neighbouring results, and reads what their windows share once."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.nest import BoundAxes, Grid, Loop, Nest, Serial, Threads, Unrolled, Vector
from kernelblaster.policies.expert.schedules.schedule import Accumulate, Axes, Family, Schedule


@dataclass(frozen=True)
class WindowPatches(Schedule):
    """Each thread computes a patch of neighbouring results: `columns` of them along the dimension that is
    contiguous in memory, and along each other dimension in which windows slide the number that `lines` has
    for it. It reads the elements under all windows of the patch once, as vectors of `vector_width` elements,
    and keeps the results in registers. At sizes where vectors would not be aligned, it reads single elements
    and computes one column."""

    lines: tuple[int, ...]
    columns: int
    vector_width: int
    threads: int = 256
    accumulate: Accumulate = "float"

    family: ClassVar[Family] = "column_reduction"
    kind: ClassVar[str] = "windows"

    @property
    def results(self) -> int:
        """The number of results in a patch, all of which one thread computes."""
        return prod(self.lines) * self.columns

    def nest(self, patches: Axes, lines: Axes, column: Axis, reduced: Axes) -> Nest:
        """Which loop, or which threads, run along each axis. `patches` count the patches and are spread over
        the grid's threads; `lines` (those axes along which a patch has several results), `column` (along
        memory) and `reduced` (the windows' elements) are loops of a thread."""
        several = [count for count in self.lines if count > 1]
        inside: list[tuple[Axis, Loop]] = [
            *((axis, Unrolled(count)) for axis, count in zip(lines, several, strict=True)),
            (column, Vector(self.columns)),
            *((axis, Unrolled(axis.extent.value)) for axis in reduced),
        ]
        bound = [BoundAxes((axis,), (loop,)) for axis, loop in inside if loop not in (Vector(1), Serial())]
        return Nest((BoundAxes(patches, (Grid(), Threads(self.threads))), *bound))
