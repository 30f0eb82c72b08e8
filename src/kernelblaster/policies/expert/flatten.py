"""Merges two neighbouring loops of a kernel into one wherever a single running number can take the place of
both variables, which saves variables and divisions.

An outer loop `a` and an inner loop `b` become one, whose variable is the number a * extent(b) + b. This is
possible if every address, and every index that is used as a value, depends on a and b only through that
number; for example, if all tensors are contiguous over the two dimensions together."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.expression import Counted, Expression, Gather, Load, move, walk
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.proofs import is_linear


def flattened(kernel: Kernel, plan: Plan) -> Kernel:
    """Returns `kernel`, a kernel of `plan`, with as few loops as possible. Neighbouring loops are merged
    wherever all addresses allow it, both loops over results (`axes`) and loops within one result (`reduced`);
    loops that run only once are removed."""
    kernel = kernel.with_loops({a.name: () for a in (*kernel.axes, *kernel.reduced) if a.once})
    axes, reduced = kernel.axes, kernel.reduced
    for place in reversed(range(len(axes) - 1)):
        kernel = _merged(kernel, plan, *kernel.axes[place : place + 2])
    for place in reversed(range(len(reduced) - 1)):
        kernel = _merged(kernel, plan, *kernel.reduced[place : place + 2])
    return kernel


def _merged(kernel: Kernel, plan: Plan, outer: Axis, inner: Axis) -> Kernel:
    """The kernel with the neighbouring loops `outer` and `inner` merged into one; unchanged if an access
    depends on them in another way than through their running number."""
    if outer.part is not None or inner.part is not None or not _together(kernel, plan, outer, inner):
        return kernel
    wide = Axis(inner.name, indices.multiply(outer.extent, inner.extent))
    return _moved(kernel, outer).with_loops({outer.name: (), inner.name: (wide,)})


def _loops(axes: Sequence[Axis]) -> list[tuple[str, Index]]:
    return [(axis.name, axis.extent) for axis in axes]


def _together(kernel: Kernel, plan: Plan, outer: Axis, inner: Axis) -> bool:
    if not all(is_linear(address, _loops((outer, inner))) for address in _addresses(kernel, plan)):
        return False
    parts = [axis.part.length for axis in (*kernel.axes, *kernel.reduced) if axis.part]
    return not any({outer.name, inner.name} & indices.names(length) for length in parts)


def _addresses(kernel: Kernel, plan: Plan) -> Iterator[Index]:
    for expression in kernel.expressions:
        for part in walk(expression):
            if isinstance(part, Counted):
                yield part.index
            elif isinstance(part, Load | Gather):
                yield indices.row_major(part.position, plan.buffers[part.buffer].shape)
    for store in kernel.stores:
        yield indices.row_major(store.position, plan.buffers[store.buffer].shape)


def _moved(kernel: Kernel, gone: Axis) -> Kernel:
    """The kernel with the variable of the loop `gone` replaced by 0: the loop that it was merged with now
    counts for both."""
    values = {gone.name: indices.ZERO}

    def changed(expression: Expression) -> Expression:
        return move(expression, values)

    stores = tuple(
        replace(store, position=tuple(indices.replace(index, values) for index in store.position))
        for store in kernel.stores
    )
    return replace(kernel, stores=stores).changed(changed)
