"""Loop nests: where the axes of a kernel run on the GPU.

Axes that are walked as one running number are split into nested loops, and each loop is bound to one level:
the blocks of the grid or of a cluster, the warps or all threads of a block, the lanes of a warp, the elements
of a vector, or the iterations of a loop that is serial or unrolled. A loop bound to a tile is done by matrix
instructions. The numbers of blocks and threads of a launch are computed from the nest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.index import Index


@dataclass(frozen=True)
class Grid:
    """A loop that is spread over the blocks of the grid: one block for each of its steps or, with `most`, at
    most so many persistent blocks (or clusters), each of which does several steps. If two axes are on the
    grid, blocks are numbered in groups of `grouped` steps of the outer axis, so that operands that they share
    stay in the L2 cache."""

    most: int | None = None
    grouped: int = 1


@dataclass(frozen=True)
class Cluster:
    """A loop of `count` steps, which the `count` blocks of a thread-block cluster do side by side, one
    each."""

    count: int


@dataclass(frozen=True)
class Warps:
    """A loop of `count` steps, which `count` warps of a block do side by side, one each."""

    count: int


@dataclass(frozen=True)
class Lanes:
    """A loop of `count` steps, which `count` lanes of a warp do side by side, one each."""

    count: int = WARP


@dataclass(frozen=True)
class Threads:
    """A loop of `count` steps, which `count` threads of a block do side by side, one each."""

    count: int


@dataclass(frozen=True)
class Vector:
    """A loop over `count` neighbouring elements that one instruction of a thread loads or stores."""

    count: int


@dataclass(frozen=True)
class Serial:
    """A loop that each thread runs itself. It has as many iterations as are left of its axes after the other
    loops that these are split into; it is unrolled by the factor `unroll`."""

    unroll: int = 1


@dataclass(frozen=True)
class Unrolled:
    """A loop of `count` iterations that is fully unrolled, so that each has its results in registers of its
    own."""

    count: int


@dataclass(frozen=True)
class Tile:
    """A loop of `count` steps that matrix instructions do (see `Leaf`): `count` is the number of rows,
    columns or K elements of a tile."""

    count: int


Loop = Grid | Cluster | Warps | Lanes | Threads | Vector | Serial | Unrolled | Tile
WORKERS = (Warps, Lanes, Threads)


@dataclass(frozen=True)
class BoundAxes:
    """Axes walked as one running index (the last axis varies fastest), split into nested loops, listed from
    the outermost to the innermost; each loop says where it runs: blocks, warps, lanes, registers. Inner loops
    have fixed numbers of steps; the outermost has as many as are needed to cover all elements, so the index
    may run beyond the last one, and emitted code must guard it."""

    axes: tuple[Axis, ...]
    loops: tuple[Loop, ...]

    @property
    def extent(self) -> Index:
        return indices.product(axis.extent for axis in self.axes)

    @property
    def step(self) -> int:
        """How many elements one step of the outermost loop covers: the product of the counts of the
        others."""
        return prod(_count(loop) for loop in self.loops[1:])

    def split(self, place: int, *into: Loop) -> "BoundAxes":
        """The same axes with the loop at index `place` replaced by the loops `into`."""
        return replace(self, loops=(*self.loops[:place], *into, *self.loops[place + 1 :]))

    def __str__(self) -> str:
        names = " ".join(axis.name for axis in self.axes if not axis.once) or "all"
        return f"{names}: {', '.join(_words(loop) for loop in self.loops)}"


@dataclass(frozen=True)
class Leaf:
    """The innermost work of a kernel with matrix instructions: `instruction` is "mma" or "wgmma", and
    `threads` is how many threads compute one tile together."""

    instruction: str
    threads: int


@dataclass(frozen=True)
class Nest:
    """Where all loops of a kernel run: `bound` has its axes and the levels of the GPU that they are split
    over; those on the grid are listed from the slowest to the fastest. `leaf` is the matrix instruction, if
    any; `helpers` is how many threads of a block only fetch data."""

    bound: tuple[BoundAxes, ...]
    leaf: Leaf | None = None
    helpers: int = 0

    @property
    def threads(self) -> int:
        """Threads of a block, `helpers` included."""
        counts = [loop.count for loop in self._loops() if isinstance(loop, WORKERS)]
        return prod(counts) * (self.leaf.threads if self.leaf else 1) + self.helpers

    @property
    def cluster(self) -> int:
        """Blocks of a thread-block cluster; 1 if the kernel has no clusters."""
        return prod(loop.count for loop in self._loops() if isinstance(loop, Cluster))

    def blocks(self) -> Index:
        """The grid size as a symbolic index: one block (with clusters, one cluster) for every step of the
        grid's loops; persistent launches have fewer."""
        counts = [
            indices.tiles(found.extent, found.step)
            for found in self.bound
            if found.loops and isinstance(found.loops[0], Grid)
        ]
        return indices.product([*counts, indices.number(self.cluster)])

    def reordered(self, order: Sequence[int]) -> "Nest":
        """The nest with its axes listed in another order, in which the grid then walks them: `order` has
        their present positions."""
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
