"""Rewrites a matrix product so that it reads packed operands. These are copies of the operands in the tiles
and the number format that tensor cores read, made by additional kernels before the product.

Each element of a float32 operand is stored as the sum of two half-precision numbers, 22 bits in all. Because
half precision has a small range, pieces of the operand's rows are first scaled by powers of two, and the
product scales its partial sums back. An operand in a half precision is only rearranged. Attention packs its
values as three bfloat16 numbers for each element, which need no scaling.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.expression import Expression, Load, operation
from kernelblaster.policies.expert.kernel import Kernel, Store
from kernelblaster.policies.expert.plan import Buffer, Plan
from kernelblaster.policies.expert.product import Product
from kernelblaster.policies.expert.schedules.packing import TOGETHER, Packing
from kernelblaster.policies.expert.schedules.products import PACKED_DEPTH, PACKED_ROWS, MmaProduct
from kernelblaster.records.signature import Dtype


def packed(plan: Plan, kernel: Kernel, product: Product, dtype: Dtype, terms: int, tile: MmaProduct) -> Plan:
    """Returns the plan in which `kernel`, recognized as `product`, multiplies packed operands in the layout
    `tile`. New kernels before it pack the operands, each element as `terms` numbers of type `dtype`. An
    operand that the plan already packs in the same way, for another product, is not packed again."""
    stem = kernel.name.removesuffix("_kernel")
    buffers = dict(plan.buffers)
    before: list[Kernel] = []
    operands: list[Expression] = []
    for side, name in ((product.left, f"{stem}_left"), (product.right, f"{stem}_right")):
        operand = Packable(product.batch, side.axes, product.k_axis, side.expression)
        pack, made, read = pack_operand(plan, operand, name, dtype, terms)
        if pack is not None:
            before.append(pack)
            buffers |= {buffer.name: buffer for buffer in made}
        operands.append(read)
    stage = replace(kernel.stages[0], body=operation("mul", *operands))
    changed = replace(kernel, stages=(stage,), schedule=tile)
    kernels = [k for old in plan.kernels for k in ((*before, changed) if old is kernel else (old,))]
    return replace(plan, buffers=buffers).with_kernels(tuple(kernels))


@dataclass(frozen=True)
class Packable:
    """An operand of a matrix product that can be packed: copied by a kernel of its own, before the
    product, to a buffer with the number format and the order that tensor cores read. `value` is the
    expression of one of its elements, in the loop variables of `batch`, of the operand's own `rows` (of a
    right operand: columns) and of the K axis `k_axis`."""

    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    k_axis: Axis
    value: Expression


def pack_operand(
    plan: Plan, operand: Packable, name: str, dtype: Dtype, terms: int
) -> tuple[Kernel | None, tuple[Buffer, ...], Expression]:
    """Makes the kernel that packs an operand, each element as `terms` numbers of type `dtype`. Names of the
    kernel and its buffers begin with `name`. Returns (the kernel, the buffers that it writes, the expression
    that reads an element of the packed operand). If a kernel of `plan` already packs the same operand in the
    same way, no kernel and no buffers are made (None and an empty tuple), and the expression reads what that
    kernel stores."""
    pack, made = _pack(operand, name, dtype, terms)
    known = _packed_before(plan, pack, made[0])
    found = [Load(store.buffer, store.position, "real") for store in (known or pack).stores]
    read = operation("mul", *found) if len(found) > 1 else found[0]
    return (pack, made, read) if known is None else (None, (), read)


def _pack(operand: Packable, name: str, dtype: Dtype, terms: int) -> tuple[Kernel, tuple[Buffer, ...]]:
    """The kernel that packs an operand, and the buffers that it writes: the packed operand and, with two
    terms of float16, whose range is small, the scales of its rows, one for every `TOGETHER` tiles."""
    inner = replace(operand.k_axis, part=None)
    batch, batch_shape = _place(operand.batch), tuple(axis.extent for axis in operand.batch)
    row = indices.row_major(_place(operand.rows), (axis.extent for axis in operand.rows))
    rows = indices.product(axis.extent for axis in operand.rows)
    buffers = [Buffer(f"{name}_packed", (*batch_shape, rows, inner.extent), dtype, scratch=True, terms=terms)]
    positions: list[tuple[indices.Index, ...]] = [(*batch, row, inner.index)]
    if terms == 2:
        length = TOGETHER * PACKED_DEPTH
        shape = (*batch_shape, indices.tiles(inner.extent, length), indices.round_up(rows, PACKED_ROWS))
        buffers.append(Buffer(f"{name}_scale", shape, "float32", scratch=True))
        positions.append((*batch, indices.divide(inner.index, indices.number(length)), row))
    stores = [
        Store(buffer.name, position, operand.value)
        for buffer, position in zip(buffers, positions, strict=True)
    ]
    axes = (*operand.batch, *operand.rows, inner)
    return Kernel(f"{name}_pack_kernel", axes, tuple(stores), schedule=Packing()), tuple(buffers)


def _packed_before(plan: Plan, pack: Kernel, buffer: Buffer) -> Kernel | None:
    """A kernel of the plan that already packs the same operand in the same way, for another product; None if
    there is none."""
    for kernel in plan.kernels:
        if isinstance(kernel.schedule, Packing) and (kernel.axes, kernel.expressions) == (
            pack.axes,
            pack.expressions,
        ):
            found = plan.buffers[kernel.stores[0].buffer]
            if (found.dtype, found.terms) == (buffer.dtype, buffer.terms):
                return kernel
    return None


def _place(axes: Sequence[Axis]) -> tuple[indices.Index, ...]:
    return tuple(axis.index for axis in axes)
