"""Loop nests, which say where the axes of a kernel run on the GPU.

Some axes are taken together as one linear index, and the loop over it is split into nested loops. Each of
these is bound to one level: the blocks of the grid or of a cluster, the warps or all threads of a block, the
lanes of a warp, the elements of a vector, or the iterations of a serial or unrolled loop. A loop that is
bound to a tile is done by matrix instructions. The numbers of blocks and threads of a launch follow from the
nest.
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
    """A loop that is spread over the blocks of the grid, one block for each step. With `most`, there are at
    most that many blocks (or clusters), which are persistent and do several steps each. If two axes are on
    the grid, blocks are numbered in groups of `grouped` steps of the outer axis, so that blocks that run at
    the same time read the same operands from the L2 cache."""

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
    """A loop that each thread runs itself, unrolled by the factor `unroll`. Its number of iterations is not
    fixed: it is the number of elements divided by the number of steps of all loops inside of it, rounded up.
    """

    unroll: int = 1


@dataclass(frozen=True)
class Unrolled:
    """A loop of `count` iterations that is fully unrolled, so that the results of each iteration are in
    registers of their own."""

    count: int


@dataclass(frozen=True)
class Tile:
    """A loop that is not written as code, because one matrix instruction of the tensor cores (`Leaf`) does
    all of its steps. `count` is their number: the rows, the columns, or the elements along K of the
    instruction's tile."""

    count: int


Loop = Grid | Cluster | Warps | Lanes | Threads | Vector | Serial | Unrolled | Tile
WORKERS = (Warps, Lanes, Threads)


@dataclass(frozen=True)
class BoundAxes:
    """Axes that are taken together as one linear index (the last axis varies fastest), and the nested `loops`
    into which the loop over it is split, from the outermost to the innermost. Each loop says where it runs:
    blocks, warps, lanes, registers. Inner loops have fixed numbers of steps; the outermost has as many as are
    needed to cover all elements. The index may therefore run beyond the last element, and emitted code must
    check that."""

    axes: tuple[Axis, ...]
    loops: tuple[Loop, ...]

    @property
    def extent(self) -> Index:
        return indices.product(axis.extent for axis in self.axes)

    @property
    def step(self) -> int:
        """How many elements one step of the outermost loop covers: the product of the numbers of steps of the
        other loops."""
        return prod(_count(loop) for loop in self.loops[1:])

    def split(self, place: int, *into: Loop) -> "BoundAxes":
        """Returns a copy in which the loop at index `place` of `loops` is replaced by the loops `into`; the
        axes stay as they are."""
        return replace(self, loops=(*self.loops[:place], *into, *self.loops[place + 1 :]))

    def __str__(self) -> str:
        names = " ".join(axis.name for axis in self.axes if not axis.once) or "all"
        return f"{names}: {', '.join(_words(loop) for loop in self.loops)}"


@dataclass(frozen=True)
class Leaf:
    """The innermost part of a kernel that uses tensor cores: one matrix instruction, which computes a tile.
    `instruction` is "mma" or "wgmma", and `threads` is how many threads execute it together."""

    instruction: str
    threads: int


@dataclass(frozen=True)
class Nest:
    """Where all loops of a kernel run on the GPU: `bound` has its axes and the levels of the GPU over which
    they are split. Axes on the grid are listed from the one that changes least from block to block to the one
    that changes most. `leaf` is the matrix instruction, None if there is none; `helpers` is how many threads
    of a block only fetch data."""

    bound: tuple[BoundAxes, ...]
    leaf: Leaf | None = None
    helpers: int = 0

    @property
    def threads(self) -> int:
        """The number of threads of a block, those that only fetch data (`helpers`) included."""
        counts = [loop.count for loop in self._loops() if isinstance(loop, WORKERS)]
        return prod(counts) * (self.leaf.threads if self.leaf else 1) + self.helpers

    @property
    def cluster(self) -> int:
        """The number of blocks of a thread-block cluster; 1 if the kernel has no clusters."""
        return prod(loop.count for loop in self._loops() if isinstance(loop, Cluster))

    def blocks(self) -> Index:
        """Returns the number of blocks of the grid as a symbolic index: one block (or cluster of blocks) for
        each step of the grid's loops. Persistent kernels are launched with fewer."""
        counts = [
            indices.tiles(found.extent, found.step)
            for found in self.bound
            if found.loops and isinstance(found.loops[0], Grid)
        ]
        return indices.product([*counts, indices.number(self.cluster)])

    def reordered(self, order: Sequence[int]) -> "Nest":
        """Returns a copy of the nest with its axes in another order. `order` lists the axes by their present
        positions: (1, 0) exchanges the first two. Blocks of the grid are then numbered in the new order, so
        that the last axis on the grid changes most from block to block."""
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
