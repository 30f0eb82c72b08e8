"""Recognizes pointwise kernels that go through tensors in memory order (flat access). The offset of an
element is then the number of the iteration, and neighbouring elements can be loaded as vectors."""

from kernelblaster.policies.expert.expression import Counted, Gather, Load, walk
from kernelblaster.policies.expert.index import Index, names
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.vector_access import VECTOR_BYTES
from kernelblaster.records.signature import DTYPE_BYTES


def whole_position(kernel: Kernel, plan: Plan) -> tuple[Index, ...] | None:
    """Returns the position of the current element in a pointwise kernel that goes through tensors in memory
    order: the kernel's loop variables, one for each dimension. In every tensor that is accessed there, the
    element's offset is the number of the iteration. None if that is not so, because a tensor of the `plan`
    that the kernel accesses at this position, or one that it writes, has another shape than its loops."""
    whole = tuple(axis.index for axis in kernel.axes)
    shape = tuple(axis.extent for axis in kernel.axes)
    flat = [load.buffer for load in kernel.loads if load.position == whole]
    return whole if all(plan.buffers[name].shape == shape for name in (*flat, *kernel.writes)) else None


def is_flat(kernel: Kernel, plan: Plan) -> bool:
    """True if each load and store of a pointwise kernel of `plan` either is in memory order (at the loop
    variables, in a tensor of the loops' shape), or accesses the same element in all iterations."""
    whole = whole_position(kernel, plan)
    return whole is not None and not variables(kernel, whole)


def flat_width(kernel: Kernel, plan: Plan) -> int:
    """Returns how many elements of a pointwise kernel of `plan` a thread can process with vectors of at most
    16 bytes: 16 bytes divided by the size of the widest element, such as 4 for float32. The widest element is
    looked for among the tensors that the kernel writes and those that it reads in memory order. 1 if it reads
    none in memory order."""
    moved = vector_reads(kernel, plan)
    if not moved:
        return 1
    return VECTOR_BYTES // max(DTYPE_BYTES[plan.buffers[name].dtype] for name in (*moved, *kernel.writes))


def vector_reads(kernel: Kernel, plan: Plan) -> list[str]:
    """Returns the names of the tensors that a pointwise kernel of `plan` reads in memory order, so that a
    thread can load several neighbouring elements as one vector. Gathers (reads at an index that is itself
    read from memory) are not among them."""
    whole = whole_position(kernel, plan)
    found = [load for load in kernel.loads if whole and load.position == whole]
    return list(dict.fromkeys(load.buffer for load in found if isinstance(load, Load)))


def variables(kernel: Kernel, whole: tuple[Index, ...] | None) -> set[str]:
    """Returns the names of the loop variables and sizes that occur in the indices of a pointwise kernel. The
    loop variables among them are those that the emitted code must compute, by divisions, from the number of
    the iteration. Loads and stores at the position `whole`, that of the current element in memory order, do
    not count, because they need only that number itself; gathers always count. If `whole` is None, all loads
    and stores count."""
    found: set[str] = set()
    for expression in kernel.expressions:
        for part in walk(expression):
            if isinstance(part, Load | Gather) and (part.position != whole or isinstance(part, Gather)):
                found = found.union(*(names(index) for index in part.position))
            elif isinstance(part, Counted):
                found |= names(part.index)
    for store in kernel.stores:
        if store.position != whole:
            found = found.union(*(names(index) for index in store.position))
    return found
