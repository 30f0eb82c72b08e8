"""Recognizes pointwise kernels that walk tensors in memory order (flat access): an element's offset is then
its running number, and neighbours can be loaded as vectors."""

from kernelblaster.policies.expert.expression import Counted, Gather, Load, walk
from kernelblaster.policies.expert.index import Index, names
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.vector_access import VECTOR_BYTES
from kernelblaster.records.signature import DTYPE_BYTES


def whole_position(kernel: Kernel, plan: Plan) -> tuple[Index, ...] | None:
    """The tuple of a pointwise kernel's loop variables, if its loops walk memory in order: every tensor that
    it writes, and every one that it reads at exactly this position, has the shape of its loops. None
    otherwise."""
    whole = tuple(axis.index for axis in kernel.axes)
    shape = tuple(axis.extent for axis in kernel.axes)
    flat = [load.buffer for load in kernel.loads if load.position == whole]
    return whole if all(plan.buffers[name].shape == shape for name in (*flat, *kernel.writes)) else None


def is_flat(kernel: Kernel, plan: Plan) -> bool:
    """Whether every load and store of a pointwise kernel is in memory order (at the loop variables, in a
    tensor of the loops' shape) or always at the same position, whatever the loop variables."""
    whole = whole_position(kernel, plan)
    return whole is not None and not variables(kernel, whole)


def flat_width(kernel: Kernel, plan: Plan) -> int:
    """How many elements fit in a 16-byte vector, by the widest type among the tensors that are written or
    read in memory order; 1 where no tensor is read in memory order."""
    moved = vector_reads(kernel, plan)
    if not moved:
        return 1
    return VECTOR_BYTES // max(DTYPE_BYTES[plan.buffers[name].dtype] for name in (*moved, *kernel.writes))


def vector_reads(kernel: Kernel, plan: Plan) -> list[str]:
    """Names of the tensors that a pointwise kernel reads in memory order, so that a thread can load several
    neighbouring elements as one vector; empty when there are none. Gathers (indices from memory) do not
    count."""
    whole = whole_position(kernel, plan)
    found = [load for load in kernel.loads if whole and load.position == whole]
    return list(dict.fromkeys(load.buffer for load in found if isinstance(load, Load)))


def variables(kernel: Kernel, whole: tuple[Index, ...] | None) -> set[str]:
    """Names of the loop variables and sizes that occur in the kernel's indices. Accesses at the position
    `whole` do not count, since they are in memory order and need only the running number of the element; all
    variables that are returned must be computed from that number by divisions."""
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
