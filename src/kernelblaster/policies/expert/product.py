"""Recognizes a kernel as a matrix product, and tells which of its loops are the rows, the columns, the batch
and the K axis (over which is summed)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.combines.arithmetic import SUM
from kernelblaster.policies.expert.expression import Expression, Load, Operation, loads, used_names
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.proofs import alignment
from kernelblaster.policies.expert.schedules.products import Product as ProductSchedule


@dataclass(frozen=True)
class Operand:
    """One of the two factors of a matrix product. `expression` is its element. `axes` are its own axes: the
    rows of the left factor or the columns of the right one. `along` is the axis along which it is contiguous
    in memory, the K axis or one of `axes`; None if it is contiguous along none. Vectors along that axis are
    aligned if their width divides all of `aligned`. `plain` is the load if the factor is a tensor's element
    as it is; None if it is computed."""

    expression: Expression
    axes: tuple[Axis, ...]
    along: Axis | None
    aligned: tuple[Index, ...]
    plain: Load | None


@dataclass(frozen=True)
class Product:
    """A matrix product: results[batch, rows, columns] = sum over `k_axis` of left[batch, rows, k] *
    right[batch, k, columns]. `batch`, `rows` and `columns` may be several axes each; `batch` may also be
    empty. The last axis of `columns` is the one along which the result is contiguous. If the K axis is cut
    into pieces (split-K), the axis `part` counts the pieces, and each piece has results of its own."""

    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    k_axis: Axis
    left: Operand
    right: Operand
    part: Axis | None = None

    def blocks(self, block_m: int, block_n: int) -> Index:
        """Returns the number of blocks of a launch, as a symbolic index, if each block computes a tile of
        `block_m` rows x `block_n` columns of the results."""
        down = indices.tiles(self.extent(self.rows), block_m)
        across = indices.tiles(self.extent(self.columns), block_n)
        outer = [self.part] if self.part is not None else []
        return indices.product([self.extent((*outer, *self.batch)), down, across])

    @staticmethod
    def extent(axes: Iterable[Axis]) -> Index:
        return indices.product(axis.extent for axis in axes)


def as_product(kernel: Kernel, plan: Plan) -> Product | None:
    """Returns which axes of `kernel`, a kernel of `plan`, are rows, columns, batch and K (summed) axes, and
    its two factors, if it is a matrix product. None if it is something else, such as a product with a vector,
    or a kernel with several reductions or several K axes."""
    inner = [axis for axis in kernel.reduced if not axis.once]
    if not isinstance(kernel.schedule, ProductSchedule) or len(kernel.stages) != 1 or len(inner) != 1:
        return None
    body = kernel.stages[0].body
    if kernel.stages[0].combine != SUM or any(store.over for store in kernel.stores):
        return None
    if not isinstance(body, Operation) or body.name != "mul" or body.kind != "real":
        return None
    left, right = body.operands
    here, there = (used_names([operand], []) for operand in body.operands)
    if inner[0].name not in here & there:
        return None
    axes = [axis for axis in kernel.axes if not axis.once]
    rows = tuple(axis for axis in axes if axis.name in here - there)
    columns = tuple(axis for axis in axes if axis.name in there - here)
    if not rows or not columns:
        return None
    if axes[-1] in rows:
        left, right, rows, columns = right, left, columns, rows
    part = inner[0].part
    shared = [axis for axis in axes if axis not in rows + columns]
    return Product(
        batch=tuple(axis for axis in shared if part is None or axis.name != part.name),
        rows=rows,
        columns=columns,
        k_axis=inner[0],
        left=_operand(left, rows, inner[0], plan),
        right=_operand(right, columns, inner[0], plan),
        part=next((axis for axis in shared if part is not None and axis.name == part.name), None),
    )


def _operand(expression: Expression, axes: tuple[Axis, ...], inner: Axis, plan: Plan) -> Operand:
    plain = expression if isinstance(expression, Load) else None
    nothing = Operand(expression, axes, None, (), plain)
    for load in sorted(loads(expression), key=lambda found: -len(found.position)):
        if not isinstance(load, Load):
            continue
        for axis in (inner, axes[-1]):
            aligned = contiguous(load.buffer, load.position, axis, plan)
            if aligned is not None:
                cut = (inner.part.length,) if axis == inner and inner.part is not None else ()
                needed = dict.fromkeys((*aligned, axis.extent, *cut))
                return replace(nothing, along=axis, aligned=tuple(needed))
    return nothing


def contiguous(buffer: str, position: tuple[Index, ...], axis: Axis, plan: Plan) -> tuple[Index, ...] | None:
    """Returns the conditions under which vectors along `axis` are aligned in memory, if `buffer` is accessed
    at `position` (an index for each dimension): the indices that must be divisible by the vectors' width.
    None if elements that are neighbours along `axis` are not neighbours in memory."""
    address = indices.row_major(position, plan.buffers[buffer].shape)
    return alignment(address, axis.name, plan.sizes[0])
