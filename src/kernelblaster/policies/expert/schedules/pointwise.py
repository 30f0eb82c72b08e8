"""Schedules (layouts on the GPU) of pointwise kernels, which compute each element of their results on its
own."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.nest import (
    BoundAxes,
    Grid,
    Lanes,
    Nest,
    Serial,
    Threads,
    Unrolled,
    Vector,
    Warps,
)
from kernelblaster.policies.expert.schedules.schedule import Axes, Family, Schedule

STAGED_TILE = 64  # elements of a side of a tile that is transposed


class _Map(Schedule):
    """Base class of the layouts of pointwise kernels, which compute each element of their results on its
    own."""

    family: ClassVar[Family] = "pointwise"
    kind: ClassVar[str] = "pointwise"


@dataclass(frozen=True)
class ElementPerThread(_Map):
    """The first layout of a pointwise kernel: one thread for each element of the result, in blocks of
    `threads`."""

    threads: int = 256

    def nest(self, axes: Axes) -> Nest:
        return Nest((BoundAxes(axes, (Grid(), Threads(self.threads))),))


@dataclass(frozen=True)
class FlatVectors(_Map):
    """A pointwise kernel that goes through all tensors in the order of memory, in blocks of `threads`. A
    thread has `coarsening` vectors of `vector_width` neighbouring elements, and issues the loads of all of
    them before it uses the first. With `streaming`, data that is accessed only once is read and written with
    streaming cache hints."""

    vector_width: int
    threads: int = 256
    coarsening: int = 1
    streaming: bool = False

    def nest(self, axes: Axes) -> Nest:
        loops = Grid(), Unrolled(self.coarsening), Threads(self.threads), Vector(self.vector_width)
        return Nest((BoundAxes(axes, loops),))


@dataclass(frozen=True)
class TransposedTiles(_Map):
    """A pointwise kernel that transposes in tiles, by blocks of `threads`. A block reads a square tile of an
    input into shared memory, along the axis in which the input is contiguous; then it computes and writes
    results along the axis in which these are contiguous."""

    threads: int = 256

    def nest(self, outer: Axes, other: Axis, last: Axis) -> Nest:
        warps = self.threads // WARP
        return Nest(
            (
                BoundAxes(outer, (Grid(),)),
                BoundAxes((other,), (Grid(), Unrolled(STAGED_TILE // warps), Warps(warps))),
                BoundAxes((last,), (Grid(), Unrolled(STAGED_TILE // WARP), Lanes())),
            )
        )


@dataclass(frozen=True)
class WarpRowMap(_Map):
    """A pointwise kernel in which each warp processes one row (the kernel's last axis), in blocks of
    `threads`. In each step of its loop, which is unrolled by `unroll`, every lane has `vector_width`
    neighbouring elements. With `streaming`, data that is accessed only once is read and written with
    streaming cache hints."""

    vector_width: int
    threads: int = 256
    unroll: int = 1
    streaming: bool = False

    def nest(self, axes: Axes, row: Axes) -> Nest:
        loops = Serial(self.unroll), Lanes(), Vector(self.vector_width)
        return Nest((BoundAxes(axes, (Grid(), Warps(self.threads // WARP))), BoundAxes(row, loops)))


@dataclass(frozen=True)
class BlockRowMap(_Map):
    """A pointwise kernel in which each block of `threads` processes one row (the kernel's last axis). In each
    step of its loop, which is unrolled by `unroll`, every thread has `vector_width` neighbouring elements.
    With `streaming`, data that is accessed only once is read and written with streaming cache hints."""

    vector_width: int
    threads: int = 256
    unroll: int = 1
    streaming: bool = False

    def nest(self, axes: Axes, row: Axes) -> Nest:
        loops = Serial(self.unroll), Threads(self.threads), Vector(self.vector_width)
        return Nest((BoundAxes(axes, (Grid(),)), BoundAxes(row, loops)))


RowMap = WarpRowMap | BlockRowMap
Pointwise = ElementPerThread | FlatVectors | TransposedTiles | RowMap
