"""Windows that slide over a tensor, for convolutions and poolings. A window is the set of elements of the
operand (the tensor that is read) from which one result is computed. This module says where the elements of a
window are, and adds the kernels that reduce windows.

Padding is never in memory. Where a window reaches out of the tensor, conditions keep elements from being
read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.builder import Builder, axes_of, kernel_name
from kernelblaster.policies.expert.combines.arithmetic import SUM
from kernelblaster.policies.expert.expression import Counted, Expression, Reduced, operation, rebuild
from kernelblaster.policies.expert.graph import Node
from kernelblaster.policies.expert.index import ONE, ZERO, Index
from kernelblaster.policies.expert.kernel import Kernel, Stage, Store
from kernelblaster.policies.expert.operators.products import LONG
from kernelblaster.policies.expert.operators.views import inside
from kernelblaster.policies.expert.schedules.columns import ThreadPerColumn
from kernelblaster.policies.expert.schedules.products import ThreadPerResult

Single = type[ThreadPerColumn] | type[ThreadPerResult]
FEW = 1 << 14  # results, which leave most of a GPU idle with a thread for each
MANY = 256  # elements of a window from which the threads of a block share it


@dataclass(frozen=True)
class Sliding:
    """How windows lie along one dimension of an operand of `extent` elements. Each window has `taps`
    elements, `step` apart (the dilation). The windows of neighbouring results start `stride` apart, and the
    first one starts `padding` elements before the operand. With `beyond` (PyTorch's ceil_mode), the last
    window may reach past the padding that follows the operand."""

    extent: Index
    taps: Index
    stride: Index
    padding: Index
    step: Index
    beyond: bool = False


@dataclass(frozen=True)
class Window:
    """The window of one result along one dimension: which elements of the operand (the tensor that is read)
    the result is computed from. The loop `axis` runs over the window. In an iteration, `place` is the index
    of the element in the operand, and `tap` the index of the filter's element that belongs to it; both are
    symbolic, in the loop's variable. An iteration counts only where all tests in `in_operand` and `in_filter`
    hold; elsewhere there is no such element, as in the padding."""

    axis: Axis
    place: Index
    tap: Index
    in_operand: tuple[Expression, ...] = ()
    in_filter: tuple[Expression, ...] = ()


def window(builder: Builder, axis: str, result: Index, sliding: Sliding) -> Window:
    """Returns the window of one result along one dimension, as of a convolution or pooling: the elements of
    the operand (the tensor that is read) from which the result is computed. `result` is the symbolic index of
    the result along this dimension. `sliding` says how windows lie along it. The loop over the window's
    elements gets the name `axis`; its iteration w reads the operand at index result * stride - padding + w *
    step. Where that can lie outside of the operand, the returned window has tests for it. `builder`, which
    knows all workloads, tells whether there is padding at all."""
    loop = Axis(axis, sliding.taps)
    tap = indices.multiply(loop.index, sliding.step)
    start = indices.multiply(result, sliding.stride)
    place = indices.subtract(indices.add(start, tap), sliding.padding)
    low, high = inside(place, sliding.extent)
    if not builder.same(sliding.padding, ZERO):
        return Window(loop, place, loop.index, (low, high))
    return Window(loop, place, loop.index, (high,) if sliding.beyond else ())


def transposed_window(builder: Builder, axis: str, result: Index, sliding: Sliding) -> Window:
    """Returns the window of one result of a transposed convolution along one dimension: the elements of the
    operand (the tensor that is read) that contribute to it. `result` is the symbolic index of the result
    along this dimension. With the numbers in `sliding`, the operand's element p contributes, multiplied by
    the filter's element t, if p * stride - padding + t * step = `result`. The loop over the contributions
    gets the name `axis`. If the convolution has a stride, and a dilation that is no larger, the loop visits
    the operand's elements under the filter: each belongs to one element of the filter, which follows from the
    remainder of `result` by the stride, or to none. `builder`, which knows all workloads, tells which extents
    are equal in all of them."""
    moved = indices.add(result, sliding.padding)
    strided = not builder.same(sliding.stride, ONE)
    if strided and _spread_no_wider(sliding):
        reach = indices.multiply(indices.subtract(sliding.taps, ONE), sliding.step)
        loop = Axis(axis, indices.add(indices.divide(reach, sliding.stride), ONE))
        first = indices.remainder(moved, sliding.stride)
        apart = indices.add(first, indices.multiply(loop.index, sliding.stride))
        place = indices.subtract(indices.divide(moved, sliding.stride), loop.index)
        in_filter: list[Expression] = []
        if not builder.same(sliding.step, ONE):
            in_filter.append(compared("eq", indices.remainder(apart, sliding.step), ZERO))
        if not builder.same(indices.multiply(loop.extent, sliding.stride), indices.add(reach, ONE)):
            in_filter.append(compared("le", apart, reach))
        tap = indices.divide(apart, sliding.step)
        return Window(loop, place, tap, tuple(inside(place, sliding.extent)), tuple(in_filter))
    loop = Axis(axis, sliding.taps)
    behind = indices.subtract(moved, indices.multiply(loop.index, sliding.step))
    place = indices.divide(behind, sliding.stride)
    tests = [compared("ge", behind, ZERO), compared("lt", place, sliding.extent)]
    if strided:
        tests.append(compared("eq", indices.remainder(behind, sliding.stride), ZERO))
    return Window(loop, place, loop.index, tuple(tests))


def _spread_no_wider(sliding: Sliding) -> bool:
    """Whether the filter's elements are no further apart than the results of neighbouring operands."""
    known_numbers = sliding.step.operator == sliding.stride.operator == "int"
    return known_numbers and sliding.step.value <= sliding.stride.value


def adaptive_window(builder: Builder, axis: str, result: Index, extent: Index, results: Index) -> Window:
    """Returns the window of one result of an adaptive pooling along one dimension: the elements of the
    operand (the tensor that is read) from which the result is computed. `result` is the symbolic index of the
    result. There are `results` results along the dimension, whose windows together cover the operand's
    `extent` elements and may overlap. The loop over the window's elements gets the name `axis`. `builder`
    tells whether `results` is always 1; the window then is the whole dimension."""
    if builder.is_one(results):
        loop = Axis(axis, extent)
        return Window(loop, loop.index, loop.index)
    first, end = adaptive_bounds(result, extent, results)
    loop = Axis(axis, indices.add(indices.divide(extent, results), indices.number(2)))
    place = indices.add(first, loop.index)
    return Window(loop, place, loop.index, (compared("lt", place, end),))


def adaptive_bounds(result: Index, extent: Index, results: Index) -> tuple[Index, Index]:
    """Returns (index of the first element, index behind the last one) of the window of one result of an
    adaptive pooling along one dimension: of result number `result`, if there are `results` of them, in an
    operand of `extent` elements. All are symbolic indices."""
    first = indices.divide(indices.multiply(result, extent), results)
    return first, _rounded_up(indices.multiply(indices.add(result, ONE), extent), results)


def compared(name: str, left: Index, right: Index) -> Expression:
    return operation(name, Counted(left), Counted(right), kind="truth")


def for_each(given: Any, count: int) -> list[Index]:
    """Returns `given`, an argument of an operator such as `stride`, as a list of `count` numbers, one for
    each dimension. As in PyTorch, a single number stands for all dimensions."""
    listed = list(given) if isinstance(given, tuple) else [given]
    return listed * count if len(listed) == 1 else listed


def known(builder: Builder, extent: Index) -> Index:
    """Returns the symbolic extent `extent` as a constant if it has the same value in all workloads of the
    task; otherwise unchanged. `builder` knows the workloads."""
    values = set(builder.graph.values(extent))
    return indices.number(values.pop()) if len(values) == 1 else extent


def over_windows(builder: Builder, node: Node, single: Single, stage: Stage, value: Expression) -> None:
    """Adds the kernel of `node`, an operator on windows such as a pooling, to `builder`. The reduction
    `stage` goes over the window of an element of the result (the elements of the operand from which it is
    computed), and `value` is the expression of the stored element, in which the reduction's result occurs.

    The kernel usually gets a layout of the class `single`, in which one thread computes an element. If, in
    the primary workload (the one that is timed), the result has fewer than 16384 elements (FEW) and a window
    has 256 or more (MANY), a block computes each element instead. If windows have a single element, the
    kernel is pointwise."""
    axes = axes_of(node.results[0].shape)
    position = tuple(axis.index for axis in axes)
    reduced = tuple(axis for axis in stage.axes if not axis.once)
    stage = replace(stage, axes=reduced)
    if not reduced:
        builder.pointwise(
            node, lambda _: rebuild(value, lambda p: stage.body if isinstance(p, Reduced) else p)
        )
        return
    store = Store(builder.buffer(node), position, value)
    results, elements = (_count(builder, some) for some in (axes, reduced))
    if results < FEW and elements >= MANY:
        builder.reduction(node, axes, [stage], [store])
        return
    schedule = single(accumulate="double" if stage.combine == SUM and elements > LONG else "float")
    builder.kernels.append(Kernel(kernel_name(node), axes, (store,), (stage,), schedule))


def _count(builder: Builder, axes: Sequence[Axis]) -> int:
    """The number of points of the loops `axes` in the primary workload (the one that is timed)."""
    return builder.graph.values(indices.product(axis.extent for axis in axes))[0]


def _rounded_up(extent: Index, by: Index) -> Index:
    return indices.divide(indices.add(extent, indices.subtract(by, ONE)), by)
