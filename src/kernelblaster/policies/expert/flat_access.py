"""Pointwise kernels that walk their tensors in order, so that an element's place is its number."""

from kernelblaster.policies.expert.expression import Counted, Gather, Load, walk
from kernelblaster.policies.expert.index import Index, names
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.vector_access import VECTOR_BYTES
from kernelblaster.records.signature import DTYPE_BYTES


def whole_position(kernel: Kernel, plan: Plan) -> tuple[Index, ...] | None:
    """The position at which all tensors of the result's shape are walked in order, if they are."""
    whole = tuple(axis.index for axis in kernel.axes)
    shape = tuple(axis.extent for axis in kernel.axes)
    flat = [load.buffer for load in kernel.loads if load.position == whole]
    return whole if all(plan.buffers[name].shape == shape for name in (*flat, *kernel.writes)) else None


def is_flat(kernel: Kernel, plan: Plan) -> bool:
    """Whether all that the kernel reads moves in order with what it writes, or not at all."""
    whole = whole_position(kernel, plan)
    return whole is not None and not variables(kernel, whole)


def flat_width(kernel: Kernel, plan: Plan) -> int:
    """Elements of the widest type in 16 bytes; one where nothing is read in order."""
    moved = vector_reads(kernel, plan)
    if not moved:
        return 1
    return VECTOR_BYTES // max(DTYPE_BYTES[plan.buffers[name].dtype] for name in (*moved, *kernel.writes))


def vector_reads(kernel: Kernel, plan: Plan) -> list[str]:
    """Buffers that are read in order, so that neighbours can be read together."""
    whole = whole_position(kernel, plan)
    found = [load for load in kernel.loads if whole and load.position == whole]
    return list(dict.fromkeys(load.buffer for load in found if isinstance(load, Load)))


def variables(kernel: Kernel, whole: tuple[Index, ...] | None) -> set[str]:
    """Axes that are mentioned other than as a whole position."""
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
