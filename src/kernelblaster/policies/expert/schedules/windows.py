"""The schedule (layout on the GPU) of reductions over sliding windows, like poolings and depthwise
convolutions, in which a thread computes several neighbouring results and reads the elements that their
windows share only once."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.nest import BoundAxes, Grid, Loop, Nest, Serial, Threads, Unrolled, Vector
from kernelblaster.policies.expert.schedules.schedule import Accumulate, Axes, Family, Schedule


@dataclass(frozen=True)
class WindowPatches(Schedule):
    """A layout of a reduction over sliding windows (as of a pooling, where the window of a result is the set
    of elements from which it is computed). Each thread computes a patch of neighbouring results and keeps
    them in registers; a block has `threads` threads. Along the dimension that is contiguous in memory, a
    patch has `columns` results. `lines` has the number of results along each other dimension in which windows
    slide. The thread reads the elements under all windows of its patch once, in vectors of `vector_width`. At
    sizes at which vectors would not be aligned, it reads single elements, and a patch has one column.
    `accumulate` is the type in which float32 numbers are summed."""

    lines: tuple[int, ...]
    columns: int
    vector_width: int
    threads: int = 256
    accumulate: Accumulate = "float"

    family: ClassVar[Family] = "column_reduction"
    kind: ClassVar[str] = "windows"

    @property
    def results(self) -> int:
        """The number of results in a patch (the neighbouring results that one thread computes)."""
        return prod(self.lines) * self.columns

    def nest(self, patches: Axes, lines: Axes, column: Axis, reduced: Axes) -> Nest:
        """Returns where each axis of the kernel runs on the GPU. The axes `patches` count the patches (the
        neighbouring results that one thread computes) and are spread over blocks and threads. All other axes
        are unrolled loops of a thread: `lines`, the axes along which a patch has several results; `column`,
        the axis along memory, as a vector; and `reduced`, the axes of a window (the elements from which a
        result is computed)."""
        several = [count for count in self.lines if count > 1]
        inside: list[tuple[Axis, Loop]] = [
            *((axis, Unrolled(count)) for axis, count in zip(lines, several, strict=True)),
            (column, Vector(self.columns)),
            *((axis, Unrolled(axis.extent.value)) for axis in reduced),
        ]
        bound = [BoundAxes((axis,), (loop,)) for axis, loop in inside if loop not in (Vector(1), Serial())]
        return Nest((BoundAxes(patches, (Grid(), Threads(self.threads))), *bound))
