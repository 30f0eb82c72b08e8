"""Splits an axis (loop) in two: an outer one that counts pieces of a fixed length, and an inner one that goes
over a piece.

This saves divisions in a kernel that divides the axis's variable by that length, for example to find the
group to which a channel belongs: the quotient is the outer loop's variable, and the remainder the inner
one's."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.expression import Counted, Expression, Gather, Load, rebuild, walk
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel, Store
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.polynomial import ZERO, polynomial


def divisor(kernel: Kernel, axis: Axis, plan: Plan) -> Index | None:
    """Returns the number by which the kernel's reductions divide the variable of `axis` (with / or %), as a
    symbolic index. None if they do not divide it, or if the extent of `axis` is not a multiple of that number
    in every workload of the `plan`."""
    found = [index for stage in kernel.stages for index in _indices(stage.body)]
    for part in (part for index in found for part in _parts(index)):
        if part.operator in ("/", "%") and _rest(part.operands[0], axis) is not None:
            by = part.operands[1]
            whole = indices.multiply(indices.divide(axis.extent, by), by)
            if not indices.names(by) - plan.sizes[0].keys() and plan.same(whole, axis.extent):
                return by
    return None


def divided(kernel: Kernel, axis: Axis, by: Index) -> Kernel:
    """Returns `kernel` with its loop `axis` split into two loops: an outer one over pieces of length `by`,
    and an inner one within a piece. `by` must divide the axis's extent."""
    outer = Axis(f"{axis.name}_piece", indices.divide(axis.extent, by))
    inner = Axis(f"{axis.name}_within", by)
    whole = {axis.name: indices.add(indices.multiply(outer.index, by), inner.index)}

    def changed(index: Index) -> Index:
        if index.operator in indices.LEAVES:
            return indices.replace(index, whole)
        rest = _rest(index.operands[0], axis) if index.operator in ("/", "%") else None
        if rest is None or index.operands[1] != by:
            left, right = (changed(operand) for operand in index.operands)
            return indices.BUILD[index.operator](left, right)
        if rest == indices.ZERO:
            return outer.index if index.operator == "/" else inner.index
        within = indices.add(inner.index, rest)
        if index.operator == "%":
            return indices.remainder(within, by)
        return indices.add(outer.index, indices.divide(within, by))

    def moved(store: Store) -> Store:
        return replace(store, position=tuple(changed(index) for index in store.position))

    new = kernel.changed(lambda expression: rebuild(expression, _in_indices(changed)))
    new = replace(new, stores=tuple(moved(store) for store in new.stores))
    return new.with_loops({axis.name: (outer, inner)})


def _rest(index: Index, axis: Axis) -> Index | None:
    """The index r if `index` is (variable of `axis`) + r, with r non-negative and without that variable; None
    otherwise."""
    rest = polynomial(index) - polynomial(axis.index)
    plain = rest.is_non_negative and not any(axis.name in indices.names(atom.index) for atom in rest.atoms())
    return (rest.index() if rest != ZERO else indices.ZERO) if plain else None


def _in_indices(change: Callable[[Index], Index]) -> Callable[[Expression], Expression]:
    def changed(part: Expression) -> Expression:
        if isinstance(part, Load | Gather):
            return replace(part, position=tuple(change(index) for index in part.position))
        return replace(part, index=change(part.index)) if isinstance(part, Counted) else part

    return changed


def _indices(expression: Expression) -> Iterator[Index]:
    for part in walk(expression):
        if isinstance(part, Load | Gather):
            yield from part.position
        elif isinstance(part, Counted):
            yield part.index


def _parts(index: Index) -> Iterator[Index]:
    yield index
    for operand in index.operands:
        yield from _parts(operand)
