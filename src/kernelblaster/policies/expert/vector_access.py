"""Vectorization analysis: which loads and stores of a kernel are contiguous along an axis, and which indices
must be divisible by the vector width, so that 16 bytes can be accessed at once.

A vector is a number of neighbouring elements that a thread loads or stores with one instruction.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.expression import (
    Counted,
    Expression,
    Gather,
    Load,
    Operation,
    address,
    children,
    used_names,
    walk,
)
from kernelblaster.policies.expert.flatten import flattened
from kernelblaster.policies.expert.guards import Guards, guarded
from kernelblaster.policies.expert.index import Index, row_major
from kernelblaster.policies.expert.kernel import Kernel, Store
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.proofs import alignment, stays_below
from kernelblaster.records.signature import DTYPE_BYTES

VECTOR_BYTES = 16
NARROW = 2**31  # numbers below this fit in 32 bits


@dataclass(frozen=True)
class VectorAccess:
    """The loads (`reads`) and stores (`writes`) of a kernel that can be vectors along the axis `along`, each
    with the name of its vector in the emitted code. Vectors are aligned only if the vector width divides all
    of `divisors` (symbolic expressions of the sizes); code that uses vectors must test that (see `possible`
    and `conditions`). `guards` has the loads that are made only on one side of a boundary, as in a
    concatenation: each with the conditions that must hold where it is made.
    """

    along: Axis
    reads: Mapping[Load | Gather, str]
    writes: Mapping[Store, str]
    divisors: tuple[Index, ...]
    guards: Mapping[Load | Gather, Guards] = field(default_factory=dict)

    def conditions(self, width: int) -> list[Index]:
        """Returns the indices that must be divisible by `width`, the number of elements of a vector, so that
        vectors are aligned. Constants that are divisible by it are left out."""
        return [d for d in self.divisors if width > 1 and (d.operator != "int" or d.value % width)]

    def possible(self, plan: Plan, width: int) -> bool:
        """True if vectors of `width` elements are aligned in the primary workload of `plan` (the one that is
        timed)."""
        return all(plan.extent(divisor) % width == 0 for divisor in self.divisors)

    def width(self, plan: Plan) -> int:
        """Returns how many elements a vector can have: as many of the widest type that is accessed as fit
        into 16 bytes; 1 if nothing is contiguous. `plan` has the types."""
        names = [load.buffer for load in self.reads] + [store.buffer for store in self.writes]
        widest = max((DTYPE_BYTES[plan.buffers[name].dtype] for name in names), default=VECTOR_BYTES)
        return VECTOR_BYTES // widest


def vector_access(kernel: Kernel, plan: Plan, along: Axis, *, guards_too: bool = False) -> VectorAccess:
    """Returns which loads and stores of `kernel`, a kernel of `plan`, are contiguous along the axis `along`,
    so that they can be vectors. A load that is needed only under a condition counts in two cases: (1) it
    would stay within its buffer in every iteration of the loops, so that it can be made without testing the
    condition; (2) with `guards_too`, it is needed only on one side of a boundary, as in a concatenation. The
    conditions of loads that count only by (2) are in `guards` of the result."""
    inner = {axis.name for axis in kernel.reduced} | {along.name}
    divisors: list[Index] = [along.extent, *([along.part.length] if along.part else [])]
    reads: dict[Load | Gather, str] = {}
    always = {load for expression in kernel.expressions for load in _unconditional(expression)}
    sided = guarded(kernel.expressions, along.name, plan.sizes[0]) if guards_too else {}
    guards: dict[Load | Gather, Guards] = {}
    for load in dict.fromkeys(kernel.loads):
        sure = load in always or _harmless(load, kernel, plan)
        if not sure and load not in sided:
            continue
        if isinstance(load, Gather) and used_names([load.where], []) & inner:
            continue
        found = alignment(address(load, plan.buffers[load.buffer].shape), along.name, plan.sizes[0])
        if found is not None:
            reads[load] = _free_name(load.buffer, reads.values())
            divisors += found
            if not sure:
                guards[load] = sided[load]
                divisors += [guard.boundary for guard in sided[load]]
    writes: dict[Store, str] = {}
    for store in kernel.stores:
        place = row_major(store.position, plan.buffers[store.buffer].shape)
        found = alignment(place, along.name, plan.sizes[0])
        if found is not None:
            writes[store] = store.buffer
            divisors += found
    return VectorAccess(along, reads, writes, tuple(dict.fromkeys(divisors)), guards)


def _unconditional(expression: Expression) -> Iterator[Load | Gather]:
    """Yields the loads of an expression that are always made: not those in the branches of conditional
    expressions (`where`), but those in their conditions."""
    if isinstance(expression, Load | Gather):
        yield expression
    sure = children(expression)
    if isinstance(expression, Operation) and expression.name == "where":
        sure = sure[:1]
    for part in sure:
        yield from _unconditional(part)


def _harmless(load: Load | Gather, kernel: Kernel, plan: Plan) -> bool:
    """Whether `load` stays within its buffer in every iteration of the kernel's loops in every workload, so
    that it may be made even where its value is not needed. False for gathers."""
    shape = plan.buffers[load.buffer].shape
    place = row_major(load.position, shape)
    if isinstance(load, Gather):
        return False
    for sizes in plan.sizes:
        axes = (*kernel.axes, *kernel.reduced)
        last = {axis.name: indices.evaluate(axis.extent, sizes) - 1 for axis in axes}
        if not stays_below(place, {**sizes, **last}, indices.evaluate(indices.product(shape), sizes)):
            return False
    return True


def column_access(kernel: Kernel, plan: Plan) -> VectorAccess:
    """Returns which loads and stores of `kernel`, a reduction across memory (down columns), can be vectors
    along its last axis, which counts the columns."""
    flat = flattened(kernel, plan)
    return vector_access(flat, plan, flat.axes[-1])


def mentioned(expressions: Iterable[Expression], found: VectorAccess) -> set[str]:
    """Returns the names of the variables that occur in `expressions`, either as values or in the indices of
    loads. The indices of loads that are made as vectors, according to `found`, are not considered."""
    names: set[str] = set()
    for expression in expressions:
        for part in walk(expression):
            if isinstance(part, Counted):
                names |= indices.names(part.index)
            elif isinstance(part, Load | Gather) and part not in found.reads:
                names = names.union(*(indices.names(index) for index in part.position))
    return names


def fits(plan: Plan, extent: Index) -> bool:
    """True if `extent`, a symbolic number of elements, is below 2**31 in every workload of `plan`, so that 32
    bits hold it."""
    return all(indices.evaluate(extent, sizes) < NARROW for sizes in plan.sizes)


def _free_name(name: str, taken: Iterable[str]) -> str:
    free, number = name, 2
    while free in taken:
        free, number = f"{name}{number}", number + 1
    return free
