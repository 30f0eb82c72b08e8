"""Loop nests: where the axes of a kernel run.

Axes that are walked as one running number are split into loops, from the outside in, and each loop is bound
to one place: the blocks of the grid or of a cluster, the warps or all threads of a block, the lanes of a
warp, the elements of a vector, or the turns of a loop that is serial or written out. Tiles are what matrix
instructions do in one go. Blocks and threads of a launch follow from the nest."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.index import Index


@dataclass(frozen=True)
class Grid:
    """Blocks of the grid, as many as the axes need; with `most`, persistent blocks (or clusters) that go on
    to further steps, at most so many. Where two axes are on the grid, `grouped` steps of the outer one are
    walked together, so that what they share stays in the L2 cache."""

    most: int | None = None
    grouped: int = 1


@dataclass(frozen=True)
class Cluster:
    """Blocks of a thread-block cluster."""

    count: int


@dataclass(frozen=True)
class Warps:
    """Warps of a block."""

    count: int


@dataclass(frozen=True)
class Lanes:
    """Lanes of a warp."""

    count: int = WARP


@dataclass(frozen=True)
class Threads:
    """Threads of a block."""

    count: int


@dataclass(frozen=True)
class Vector:
    """Neighbouring elements that one instruction moves."""

    count: int


@dataclass(frozen=True)
class Serial:
    """Turns of a loop, as many as the axes need; `unroll` of them at a time."""

    unroll: int = 1


@dataclass(frozen=True)
class Unrolled:
    """Turns of a loop that is written out, with results in registers of their own."""

    count: int


@dataclass(frozen=True)
class Tile:
    """Steps that the threads of a `Leaf` do together."""

    count: int


Loop = Grid | Cluster | Warps | Lanes | Threads | Vector | Serial | Unrolled | Tile
WORKERS = (Warps, Lanes, Threads)


@dataclass(frozen=True)
class BoundAxes:
    """Axes that are walked as one number, the last one fastest, and its loops from the outside in. The first
    loop has as many steps as the others leave."""

    axes: tuple[Axis, ...]
    loops: tuple[Loop, ...]

    @property
    def extent(self) -> Index:
        return indices.product(axis.extent for axis in self.axes)

    @property
    def step(self) -> int:
        """How many elements one step of the first loop has."""
        return prod(_count(loop) for loop in self.loops[1:])

    def split(self, place: int, *into: Loop) -> "BoundAxes":
        """The same axes with one of the loops divided into several."""
        return replace(self, loops=(*self.loops[:place], *into, *self.loops[place + 1 :]))

    def __str__(self) -> str:
        names = " ".join(axis.name for axis in self.axes if not axis.once) or "all"
        return f"{names}: {', '.join(_words(loop) for loop in self.loops)}"


@dataclass(frozen=True)
class Leaf:
    """What is done by matrix instructions: `instruction` is mma or wgmma, and so many threads do one tile."""

    instruction: str
    threads: int


@dataclass(frozen=True)
class Nest:
    """Axes with where they run, those of the grid from the slowest to the fastest; `helpers` are threads of a
    block that only fetch."""

    bound: tuple[BoundAxes, ...]
    leaf: Leaf | None = None
    helpers: int = 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        counts = [loop.count for loop in self._loops() if isinstance(loop, WORKERS)]
        return prod(counts) * (self.leaf.threads if self.leaf else 1) + self.helpers

    @property
    def cluster(self) -> int:
        """Blocks of a cluster; 1 without one."""
        return prod(loop.count for loop in self._loops() if isinstance(loop, Cluster))

    def blocks(self) -> Index:
        """Blocks of a launch that has one for every step of the grid's loops."""
        counts = [
            indices.tiles(found.extent, found.step)
            for found in self.bound
            if found.loops and isinstance(found.loops[0], Grid)
        ]
        return indices.product([*counts, indices.number(self.cluster)])

    def reordered(self, order: Sequence[int]) -> "Nest":
        """The nest with its axes in another order: that in which the grid walks them."""
        return replace(self, bound=tuple(self.bound[place] for place in order))

    def _loops(self) -> Iterable[Loop]:
        return (loop for found in self.bound for loop in found.loops)

    def __str__(self) -> str:
        leaf = f"; {self.leaf.instruction} by {self.leaf.threads} threads" if self.leaf else ""
        return "; ".join(str(found) for found in self.bound if found.axes) + leaf


def _count(loop: Loop) -> int:
    return loop.count if not isinstance(loop, Grid | Serial | Cluster) else 1


def _words(loop: Loop) -> str:
    match loop:
        case Grid(most=None, grouped=1):
            return "grid"
        case Grid(most=None):
            return f"grid by {loop.grouped}"
        case Grid():
            return "persistent"
        case Serial():
            return f"serial by {loop.unroll}" if loop.unroll > 1 else "serial"
        case Vector():
            return f"vector {loop.count}"
    return f"{type(loop).__name__.lower()} {loop.count}"
