"""Turns poolings of every kind, adaptive ones included, into kernels (lowers them): the largest element or
the mean of each window."""

import math
from functools import reduce

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.builder import Builder, axes_of, kind_of, lowers
from kernelblaster.policies.expert.combines.arithmetic import MAX, SUM
from kernelblaster.policies.expert.expression import Counted, Expression, Reduced, operation, real, to_kind
from kernelblaster.policies.expert.graph import Node, Reference, UncoveredOperators, as_expression, references
from kernelblaster.policies.expert.index import ONE, ZERO, Index
from kernelblaster.policies.expert.kernel import Stage
from kernelblaster.policies.expert.operators.views import guarded
from kernelblaster.policies.expert.operators.windows import (
    Sliding,
    Window,
    adaptive_bounds,
    adaptive_window,
    for_each,
    over_windows,
    window,
)
from kernelblaster.policies.expert.schedules.columns import ThreadPerColumn


@lowers("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def max_pool(builder: Builder, node: Node) -> None:
    _largest(builder, node, _windows(builder, node, _slidings(builder, node)))


@lowers("adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def adaptive_max_pool(builder: Builder, node: Node) -> None:
    _largest(builder, node, _adaptive_windows(builder, node))


@lowers("avg_pool2d.default", "avg_pool3d.default")
def avg_pool(builder: Builder, node: Node) -> None:
    """Adds the kernel of the average pooling `node` to `builder`. The sum of a window is divided by the same
    number as in PyTorch: by `divisor_override` if given, otherwise by the number of elements of the window.
    Elements in the padding are counted only with `count_include_pad`; elements beyond the padding are never
    counted."""
    slidings = _slidings(builder, node)
    divisor = node.arguments["divisor_override"]
    if divisor is not None:
        count = as_expression(divisor)
    else:
        padded = node.arguments["count_include_pad"]
        pairs = zip(_places(node, len(slidings)), slidings, strict=True)
        count = _product([_elements(builder, place, sliding, padded) for place, sliding in pairs])
    _mean(builder, node, _windows(builder, node, slidings), count)


@lowers("_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default")
def adaptive_avg_pool(builder: Builder, node: Node) -> None:
    counts: list[Expression] = []
    for place, extent, results in _adaptive(builder, node):
        first, end = adaptive_bounds(place, extent, results)
        counts.append(Counted(extent if builder.is_one(results) else indices.subtract(end, first)))
    _mean(builder, node, _adaptive_windows(builder, node), _product(counts))


def _largest(builder: Builder, node: Node, windows: list[Window]) -> None:
    """Adds the kernel of a max pooling; NaN is larger than all else, as in PyTorch, and elements outside the
    operand are smaller. Raises UncoveredOperators if the indices of the largest elements are used, or for
    integers."""
    graph = builder.graph
    used = references(tuple(other.arguments for other in graph.nodes))
    if Reference(node.name, 1) in (*used, *graph.outputs):
        raise UncoveredOperators((f"the places that {node.operator} finds",))
    if kind_of(node.results[0].dtype) != "real":
        raise UncoveredOperators((f"{node.operator} of whole numbers",))
    stage = Stage("best", MAX, _element(builder, node, windows, -math.inf), _loops(windows))
    over_windows(builder, node, ThreadPerColumn, stage, Reduced("best", "real"))


def _mean(builder: Builder, node: Node, windows: list[Window], count: Expression) -> None:
    stage = Stage("total", SUM, _element(builder, node, windows, 0), _loops(windows))
    mean = operation("div", Reduced("total", "real"), to_kind(count, "real"))
    over_windows(builder, node, ThreadPerColumn, stage, mean)


def _loops(windows: list[Window]) -> tuple[Axis, ...]:
    return tuple(found.axis for found in windows)


def _element(builder: Builder, node: Node, windows: list[Window], outside: float) -> Expression:
    leading = _leading(node, len(windows))
    position = (*leading, *(found.place for found in windows))
    element = builder.value(node.arguments["self"]).at(position)
    tests = [test for found in windows for test in found.in_operand]
    return guarded(tests, to_kind(element, "real"), real(outside))


def _slidings(builder: Builder, node: Node) -> list[Sliding]:
    count = 3 if "3d" in node.operator else 2
    given = node.arguments
    taps = for_each(given["kernel_size"], count)
    stride = for_each(given["stride"], count) if given["stride"] else taps
    steps = for_each(given.get("dilation", ONE), count)
    extents = builder.value(given["self"]).shape[-count:]
    rows = zip(extents, taps, stride, for_each(given["padding"], count), steps, strict=True)
    return [Sliding(*row, beyond=given["ceil_mode"]) for row in rows]


def _windows(builder: Builder, node: Node, slidings: list[Sliding]) -> list[Window]:
    pairs = zip(_places(node, len(slidings)), slidings, strict=True)
    return [window(builder, f"w{dim}", *pair) for dim, pair in enumerate(pairs)]


def _adaptive_windows(builder: Builder, node: Node) -> list[Window]:
    found = _adaptive(builder, node)
    return [adaptive_window(builder, f"w{dim}", *each) for dim, each in enumerate(found)]


def _adaptive(builder: Builder, node: Node) -> list[tuple[Index, Index, Index]]:
    """For each pooled dimension: the index of the result, the operand's extent, and the number of results."""
    count = len(node.arguments["output_size"])
    extents = builder.value(node.arguments["self"]).shape[-count:]
    return list(zip(_places(node, count), extents, node.results[0].shape[-count:], strict=True))


def _places(node: Node, count: int) -> tuple[Index, ...]:
    return tuple(axis.index for axis in axes_of(node.results[0].shape)[-count:])


def _leading(node: Node, count: int) -> tuple[Index, ...]:
    return tuple(axis.index for axis in axes_of(node.results[0].shape)[:-count])


def _elements(builder: Builder, place: Index, sliding: Sliding, padded: bool) -> Expression:
    """How many elements of the window of result `place` are counted along one dimension; with `padded`, those
    of the padding too."""
    if builder.same(sliding.padding, ZERO):
        padded = True
    if padded and not sliding.beyond:
        return Counted(sliding.taps)
    start = indices.subtract(indices.multiply(place, sliding.stride), sliding.padding)
    last = indices.add(sliding.extent, sliding.padding) if padded else sliding.extent
    end = operation("min", Counted(indices.add(start, sliding.taps)), Counted(last), kind="whole")
    first = Counted(start) if padded else operation("max", Counted(start), Counted(ZERO), kind="whole")
    return operation("sub", end, first, kind="whole")


def _product(counts: list[Expression]) -> Expression:
    """The product of the numbers of elements along each dimension, which is the number of elements of a
    window."""
    fixed = indices.product(count.index for count in counts if isinstance(count, Counted))
    others: list[Expression] = [count for count in counts if not isinstance(count, Counted)]
    if not indices.is_number(fixed, 1) or not others:
        others.insert(0, as_expression(fixed))
    return reduce(lambda left, right: operation("mul", left, right, kind="whole"), others)
