"""Windows that slide over a tensor, for convolutions and poolings: where the elements of a window are, and
the kernels that reduce windows.

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
    """The elements of one result's window along one dimension. `axis` is the loop over them; `place` is the
    index of an element in the operand, `tap` the index of the filter's element that belongs to it. An element
    exists only where all tests in `in_operand` and `in_filter` hold."""

    axis: Axis
    place: Index
    tap: Index
    in_operand: tuple[Expression, ...] = ()
    in_filter: tuple[Expression, ...] = ()


def window(builder: Builder, axis: str, result: Index, sliding: Sliding) -> Window:
    """Returns the window of the result with the index `result` along one dimension; `sliding` says how
    windows lie along that dimension. `axis` is the name of the loop over the window's elements."""
    loop = Axis(axis, sliding.taps)
    tap = indices.multiply(loop.index, sliding.step)
    start = indices.multiply(result, sliding.stride)
    place = indices.subtract(indices.add(start, tap), sliding.padding)
    low, high = inside(place, sliding.extent)
    if not builder.same(sliding.padding, ZERO):
        return Window(loop, place, loop.index, (low, high))
    return Window(loop, place, loop.index, (high,) if sliding.beyond else ())


def transposed_window(builder: Builder, axis: str, result: Index, sliding: Sliding) -> Window:
    """Returns the elements of the operand that contribute, along one dimension, to the result at index
    `result` of a transposed convolution. With the numbers in `sliding`, the operand's element p contributes
    to it by the filter's element t if p * stride - padding + t * step = `result`. `axis` is the name of the
    loop over the contributions. If the convolution has a stride, and a dilation that is no larger, the loop
    visits the elements of the operand under the filter: each belongs to one element of the filter, which
    follows from the remainder of `result` by the stride, or to none."""
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
    """Returns the window of an adaptive pooling along one dimension. There are `results` results, whose
    windows together cover the operand's `extent` elements and may overlap; `result` is the index of one of
    them. `axis` is the name of the loop over the elements of the window."""
    if builder.is_one(results):
        loop = Axis(axis, extent)
        return Window(loop, loop.index, loop.index)
    first, end = adaptive_bounds(result, extent, results)
    loop = Axis(axis, indices.add(indices.divide(extent, results), indices.number(2)))
    place = indices.add(first, loop.index)
    return Window(loop, place, loop.index, (compared("lt", place, end),))


def adaptive_bounds(result: Index, extent: Index, results: Index) -> tuple[Index, Index]:
    """Returns (index of the first element, index behind the last one) of a window of an adaptive pooling
    along one dimension: that of the result number `result` of `results`, in an operand of `extent`
    elements."""
    first = indices.divide(indices.multiply(result, extent), results)
    return first, _rounded_up(indices.multiply(indices.add(result, ONE), extent), results)


def compared(name: str, left: Index, right: Index) -> Expression:
    return operation(name, Counted(left), Counted(right), kind="truth")


def for_each(given: Any, count: int) -> list[Index]:
    """Returns an operator's argument, such as `stride`, as a list of `count` numbers, one for each dimension.
    As in PyTorch, a single number stands for all dimensions."""
    listed = list(given) if isinstance(given, tuple) else [given]
    return listed * count if len(listed) == 1 else listed


def known(builder: Builder, extent: Index) -> Index:
    """Returns the symbolic extent `extent` as a constant if it has the same value in all workloads, which
    `builder` knows; otherwise unchanged."""
    values = set(builder.graph.values(extent))
    return indices.number(values.pop()) if len(values) == 1 else extent


def over_windows(builder: Builder, node: Node, single: Single, stage: Stage, value: Expression) -> None:
    """Adds the kernel of `node`, an operator on windows such as a pooling, to `builder`. Each element of the
    result is `value`, an expression of the result of the reduction `stage` over the element's window. The
    kernel's layout is `single`, in which one thread computes an element; but if, in the primary workload, the
    result has fewer than 16384 elements and a window has 256 or more, a block computes each element. If
    windows have a single element, the kernel is pointwise."""
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
