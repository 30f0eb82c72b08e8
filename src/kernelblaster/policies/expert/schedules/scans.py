"""Schedules (layouts on the GPU) of scans, such as cumulative sums: each element along an axis has a result,
the reduction of all elements up to it."""

from dataclasses import dataclass
from typing import ClassVar

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


class _Scan(Schedule):
    """Base class of the layouts of scans, which give a prefix result (such as a cumulative sum) for each
    element along an axis."""

    family: ClassVar[Family] = "scan"
    kind: ClassVar[str] = "scan"


@dataclass(frozen=True)
class ThreadPerScan(_Scan):
    """The first layout of a scan: a thread for each scan, in blocks of `threads`, which goes along the whole
    axis."""

    threads: int = 256

    def nest(self, axes: Axes, scanned: Axes) -> Nest:
        return Nest((BoundAxes(axes, (Grid(), Threads(self.threads))), BoundAxes(scanned, (Serial(),))))


@dataclass(frozen=True)
class ScanRows(_Scan):
    """A scan along memory. If `rows` is 1, a block has `warps` warps, which share one row. Otherwise a block
    has `rows` warps, each with a row of its own; `warps` is 1 then. A row is processed in chunks, one after
    another. In a chunk, each lane has `elements` elements, in vectors of `vector_width`; neighbouring lanes
    have neighbouring vectors. Each thread scans its vectors; then lanes exchange their totals by shuffles,
    and warps theirs in shared memory. With `streaming`, data is read and written with streaming cache
    hints."""

    warps: int = 8
    rows: int = 1
    elements: int = 16
    vector_width: int = 1
    streaming: bool = False

    def nest(self, axes: Axes, scanned: Axes) -> Nest:
        loops = Serial(), Warps(self.warps), Unrolled(self.elements // self.vector_width), Lanes()
        outer = (Grid(), Warps(self.rows)) if self.rows > 1 else (Grid(),)
        return Nest((BoundAxes(axes, outer), BoundAxes(scanned, (*loops, Vector(self.vector_width)))))


@dataclass(frozen=True)
class ScanColumns(_Scan):
    """A scan across memory: a thread has `vector_width` neighbouring columns of a row-major matrix and goes
    down the rows, in a loop unrolled by `unroll`. A block has `threads` threads. With `streaming`, data is
    read and written with streaming cache hints."""

    vector_width: int = 1
    threads: int = 256
    unroll: int = 8
    streaming: bool = False

    def nest(self, axes: Axes, scanned: Axes) -> Nest:
        loops = Grid(), Threads(self.threads), Vector(self.vector_width)
        return Nest((BoundAxes(axes, loops), BoundAxes(scanned, (Serial(self.unroll),))))


Scan = ThreadPerScan | ScanRows | ScanColumns
