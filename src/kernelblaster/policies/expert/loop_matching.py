"""Loop matching, for the fusion of two kernels. One kernel (the writer) stores a tensor and another one (the
reader) reads it. The reader's loop variables are expressed by those of the writer.

The reader may see the tensor through views (reshapes, permutations). A loop of the reader may therefore be
part of a loop of the writer, or several of its loops together; but both kernels must run over the same
points."""

from collections.abc import Mapping
from dataclasses import dataclass

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert import proofs
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.expression import Gather, Load
from kernelblaster.policies.expert.index import ONE, ZERO, Index
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.polynomial import polynomial

Position = tuple[Index, ...]


@dataclass(frozen=True)
class LoopMatch:
    """How the loops of the reader (a kernel that reads a tensor) correspond to those of the writer (the
    kernel that stores it). `moved` maps the name of each loop variable of the reader to an equal index in the
    writer's loop variables. `each` is true if the reader also runs over the elements of the writer's rows
    (its reduced axes), false if it handles one value for each row."""

    moved: Mapping[str, Index]
    each: bool


def match_loops(plan: Plan, writer: Kernel, reader: Kernel) -> LoopMatch | None:
    """Returns, for each loop variable of `reader`, the equal index in the loop variables of `writer`, and
    whether the reader runs over the elements of the writer's rows too. `writer` is a kernel of `plan` that
    stores a tensor, `reader` one that reads it. None if the two do not run over the same points, or if the
    reader needs, at one point, results of the writer from another row (another point of the writer's
    axes)."""
    written = {store.buffer: store for store in writer.stores}
    found = [load for load in reader.loads if load.buffer in written]
    extents = {axis.name: axis.extent for axis in writer.axes + writer.reduced}
    moved: dict[str, Index] = {}
    for load in found:
        moved = solved(load.position, written[load.buffer].position) | moved
    axes = [axis for axis in reader.axes + reader.reduced if not axis.once]
    missing = [axis for axis in axes if axis.name not in moved]
    seen = set().union(*(indices.names(index) for index in moved.values()))
    inner = [axis for axis in writer.reduced if not axis.once and axis.name not in seen]
    if missing:
        if len(missing) != len(inner):
            return None
        moved |= {a.name: b.index for a, b in zip(missing, inner, strict=True)}
    moved = {name: proofs.within(index, extents, plan.same) for name, index in moved.items()}
    for axis in axes:
        limit = proofs.bound(moved[axis.name], extents)
        if limit is None or not plan.same(limit, axis.extent):
            return None
        if _subtracts(moved[axis.name]) and not proofs.starts_at_zero(moved[axis.name], extents):
            return None
    each = any(bool(written[load.buffer].over) for load in found) or bool(missing)
    if not _same_points(plan, writer, reader, moved, each):
        return None
    shifted = not reader.stages and not any(stage.combine.each for stage in writer.stages)
    rows = all(in_row(plan, writer, load, moved, shifted=shifted) for load in found)
    return LoopMatch(moved, each) if rows else None


def in_row(
    plan: Plan, writer: Kernel, load: Load | Gather, moved: Mapping[str, Index], *, shifted: bool
) -> bool:
    """True if `load` reads the element that the kernel `writer` stores at the same point of its loops or, if
    `shifted`, anywhere in the same row (at the same point of the writer's axes). `load` is a load of another
    kernel, the reader; `moved` maps the reader's loop variables to indices in those of the writer."""
    store = next(store for store in writer.stores if store.buffer == load.buffer)
    inner = {axis.index for axis in writer.reduced if not axis.once}
    return all(
        own == there or (shifted and store.over and there in inner)
        for own, there in zip(placed(plan, writer, load, moved), store.position, strict=True)
    )


def placed(plan: Plan, writer: Kernel, load: Load | Gather, moved: Mapping[str, Index]) -> tuple[Index, ...]:
    """Returns the position that `load` reads in its tensor, as indices in the loop variables of `writer`, the
    kernel that stores that tensor. `load` belongs to another kernel, the reader; `moved` maps the reader's
    loop variables to indices in those of the writer."""
    extents = {axis.name: axis.extent for axis in writer.axes + writer.reduced}
    found = (proofs.within(indices.replace(i, moved), extents, plan.same) for i in load.position)
    return tuple(polynomial(index).index() if _subtracts(index) else index for index in found)


def _subtracts(index: Index) -> bool:
    return index.operator == "-" or any(map(_subtracts, index.operands))


def solved(position: Position, there: Position) -> dict[str, Index]:
    """Solves the equation `position` = `there` between two positions, which have an index for each dimension.
    Returns a mapping from the names of the variables in `position` to their values, as indices in the
    variables of `there`. Variables that cannot be found are left out."""
    moved: dict[str, Index] = {}
    digits: dict[str, Index] = {}
    for own, other in zip(position, there, strict=True):
        _solve(own, other, moved, digits)
    return digits | moved


def _solve(own: Index, there: Index, moved: dict[str, Index], digits: dict[str, Index]) -> None:
    if own.operator == "name":
        moved.setdefault(own.name, there)
    elif own.operator == "+" and own.operands[0].operator == "*":
        (high, step), low = own.operands[0].operands, own.operands[1]
        _solve(high, indices.divide(there, step), moved, digits)
        _solve(low, indices.remainder(there, step), moved, digits)
    elif own.operator == "-" and own.operands[1].operator == "name":
        moved.setdefault(own.operands[1].name, indices.subtract(own.operands[0], there))
    elif own.operator in "/%":
        name, step = _digit(own)
        if name:
            known = digits.get(name, ZERO)
            digits[name] = indices.add(known, indices.multiply(there, step))


def _digit(index: Index) -> tuple[str, Index]:
    """The variable v of an index v / a, v % b or (v / a) % b, and by how much v grows when the index grows by
    1 (a or 1); ("", 1) for other indices."""
    inner = index.operands[0]
    if inner.operator == "name":
        return inner.name, index.operands[1] if index.operator == "/" else ONE
    if index.operator == "%" and inner.operator == "/" and inner.operands[0].operator == "name":
        return inner.operands[0].name, inner.operands[1]
    return "", ONE


def _same_points(plan: Plan, writer: Kernel, reader: Kernel, moved: Mapping[str, Index], each: bool) -> bool:
    """Whether the loops of `reader` run over exactly the points at which `writer` stores, by the
    correspondence `moved`. If the reader reduces, outer and reduced axes must match separately. Otherwise its
    axes must match the axes of the writer, with `each` the writer's reduced axes too."""
    if reader.stages:
        outer = _runs_over(plan, reader.axes, writer.axes, moved)
        return outer and _runs_over(plan, reader.reduced, writer.reduced, moved)
    return _runs_over(plan, reader.axes, writer.axes + (writer.reduced if each else ()), moved)


def _runs_over(
    plan: Plan, axes: tuple[Axis, ...], there: tuple[Axis, ...], moved: Mapping[str, Index]
) -> bool:
    named = set().union(*(indices.names(moved[axis.name]) for axis in axes if not axis.once))
    used = named - set(plan.sizes[0])
    count, points = (indices.product(axis.extent for axis in some) for some in (axes, there))
    return used == {axis.name for axis in there if not axis.once} and plan.same(count, points)
