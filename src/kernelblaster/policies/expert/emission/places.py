"""C++ code that several emitters need: statements that compute the variables of several axes (loops) from one
linear index, and loops over axes."""

from collections.abc import Collection, Iterable, Sequence

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.cuda.statements import Statement, const, consts, loop
from kernelblaster.policies.expert.cuda.terms import INT64, Choice, Local, Term, cast, term
from kernelblaster.policies.expert.emission.values import index_term
from kernelblaster.policies.expert.index import Index

Sizes = Collection[str]


def unravel(
    linear: str, axes: Sequence[Axis], sizes: Sizes, wanted: set[str] | None = None
) -> list[Statement]:
    """Returns C++ statements that declare the variables of `axes` and compute them from the variable named
    `linear`, their row-major linear index (the last axis varies fastest). Only the axes named in `wanted` are
    declared, all if it is None; axes of extent 1 have no variable. `sizes` are the names of tensor sizes."""
    found: list[Statement] = []
    for place, axis in enumerate(axes):
        inner = indices.product(a.extent for a in axes[place + 1 :])
        value: Index = indices.divide(indices.variable(linear), inner)
        if place:
            value = indices.remainder(value, axis.extent)
        if not axis.once and (wanted is None or axis.name in wanted):
            found.append(const(INT64, axis.name, index_term(value, sizes)))
    return found


def unravel_term(
    linear: Term, axes: Iterable[Axis], names: set[str], sizes: Sizes, *, narrow: bool
) -> list[Statement]:
    """Returns C++ statements that declare variables of `axes` and compute them from `linear`, the C++
    expression of the row-major linear index over all `axes` (the last axis varies fastest). Only axes named
    in `names` are declared. `narrow` says that all numbers fit in 32 bits; divisors are then cast to
    unsigned. `sizes` are the names of tensor sizes."""
    found: list[Statement] = []
    inner = indices.ONE
    listed = list(axes)

    def divisor(extent: Index) -> Term:
        value = index_term(extent, sizes)
        return cast("unsigned", value) if narrow and extent.operator != "int" else value

    for place in reversed(range(len(listed))):
        axis = listed[place]
        value = linear
        if not indices.is_number(inner, 1):
            value = value / divisor(inner)
        if place:
            value = value % divisor(axis.extent)
        if axis.name in names:
            found.insert(0, const(INT64, axis.name, value))
        inner = indices.multiply(axis.extent, inner)
    return found


def running(default: str, axes: Sequence[Axis], sizes: Sizes) -> tuple[str, list[Statement]]:
    """Returns (the name of the C++ variable for the linear index over all `axes`, statements that compute the
    axes' own variables from it). If only one axis has an extent other than 1, its own variable is the linear
    index and there are no statements; otherwise the name is `default`. `sizes` are the names of tensor
    sizes."""
    moving = [axis for axis in axes if not axis.once]
    return (moving[0].name, []) if len(moving) == 1 else (default, unravel(default, axes, sizes))


def nested(axes: Sequence[Axis], sizes: Sizes, body: Sequence[Statement]) -> list[Statement]:
    """Returns the C++ statements `body` inside nested loops, one for each axis, the last axis innermost. Axes
    of extent 1 have no loop. `sizes` are the names of tensor sizes."""
    found = list(body)
    for axis in reversed([axis for axis in axes if not axis.once]):
        first, last = index_term(axis.begin, sizes), index_term(axis.end, sizes)
        found = [loop(axis.name, first, last, found, type_=INT64)]
    return found


def grouped_tiles(number: Term, rows: Term, columns: Term, raster: int) -> list[Statement]:
    """Returns C++ statements that declare `block_row` and `block_column`, the position of the tile that a
    block computes. It follows from the block's `number`, if there are `rows` x `columns` tiles. Blocks are
    numbered in groups of `raster` rows of tiles (the last group may have fewer), column by column within a
    group, so that blocks that run at the same time read the same operands from the L2 cache."""
    place, group, group_row, group_rows = local("place", "group", "group_row", "group_rows")
    left = rows - group_row
    return [
        const(INT64, "place", number),
        consts(INT64, group=raster * columns, group_row=place / group * raster),
        const(INT64, "group_rows", Choice(left < raster, left, term(raster))),
        const(INT64, "block_row", group_row + place % group % group_rows),
        const(INT64, "block_column", place % group / group_rows),
    ]


def count(extents: Iterable[Index], sizes: Sizes) -> Term:
    return index_term(indices.product(extents), sizes)


def local(*names: str) -> tuple[Local, ...]:
    return tuple(Local(name) for name in names)
