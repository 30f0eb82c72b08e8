"""Code that several emitters share: C++ statements that compute the variables of a kernel's axes (loops) from
one linear index, and C++ loops over axes."""

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
    """C++ statements that declare the variables of the loops `axes` and compute them from the variable
    `linear`, their row-major running number (the last axis fastest); only those in `wanted` unless that is
    None. Axes of extent 1 have no variable. `sizes` are the names of tensor sizes."""
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
    """C++ statements that declare the variables of those `axes` that are in `names` and compute them from
    `linear`, a C++ expression of their row-major running number (the last axis fastest). With `narrow` all
    numbers fit in 32 bits, and divisors are cast to unsigned. `sizes` are the names of tensor sizes."""
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
    """The name of the C++ variable for the running number over all `axes`, and the statements that declare
    the axes' own variables from it. If only one axis has an extent other than 1, that axis's variable is the
    running number and nothing is declared; else the name is `default`. `sizes` are the names of tensor
    sizes."""
    moving = [axis for axis in axes if not axis.once]
    return (moving[0].name, []) if len(moving) == 1 else (default, unravel(default, axes, sizes))


def nested(axes: Sequence[Axis], sizes: Sizes, body: Sequence[Statement]) -> list[Statement]:
    """The statements `body` within one C++ loop for each axis, the last axis innermost; axes of extent 1 have
    no loop. `sizes` are the names of tensor sizes."""
    found = list(body)
    for axis in reversed([axis for axis in axes if not axis.once]):
        first, last = index_term(axis.begin, sizes), index_term(axis.end, sizes)
        found = [loop(axis.name, first, last, found, type_=INT64)]
    return found


def grouped_tiles(number: Term, rows: Term, columns: Term, raster: int) -> list[Statement]:
    """C++ statements that declare `block_row` and `block_column`, the tile that a block computes, from the
    block's `number` among `rows` x `columns` tiles. Tiles are numbered in groups of `raster` rows (the last
    group may have fewer), column by column within a group, so that blocks that run together share operands in
    the L2 cache."""
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
