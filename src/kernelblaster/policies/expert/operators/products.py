"""Turns matrix products in all their spellings (mm, bmm, mv, addmm, ...) into kernels (lowers them): each
result is a sum, over the inner axis, of products of two elements."""

from typing import Any

from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.builder import Builder, Position, Value, axes_of, kernel_name, lowers
from kernelblaster.policies.expert.combines.arithmetic import SUM
from kernelblaster.policies.expert.expression import Expression, Reduced, operation, to_kind
from kernelblaster.policies.expert.graph import Node, as_expression
from kernelblaster.policies.expert.kernel import Kernel, Stage, Store
from kernelblaster.policies.expert.schedules.products import ThreadPerResult

LONG = 1024  # beyond this many terms a running float sum may lose more than PyTorch's blocked one


def _product(
    builder: Builder, node: Node, left: Value, right: Value, finish: Any = lambda total, position: total
) -> None:
    """Adds the kernel of left[..., m, k] @ right[..., k, n], with equal leading dimensions; m or n may be
    missing or 1, and the kernel then gets the layout of a reduction. `finish` makes the stored value from the
    sum and its position."""
    inner = Axis("k", left.shape[-1])
    axes = axes_of(node.results[0].shape)
    position = tuple(axis.index for axis in axes)
    batch = position[: left.rank - 2]
    row = position[left.rank - 2 : left.rank - 1]
    column = position[left.rank - 1 :]
    body = operation("mul", left.at((*batch, *row, inner.index)), right.at((*batch, inner.index, *column)))
    stage = Stage("total", SUM, body, (inner,))
    store = Store(builder.buffer(node), position, finish(Reduced("total", "real"), position))
    if any(builder.is_one(extent) for extent in node.results[0].shape[-2:]) or len(axes) < 2:
        builder.reduction(node, axes, [stage], [store])
        return
    long = builder.graph.values(inner.extent)[0] > LONG
    schedule = ThreadPerResult(accumulate="double" if long else "float")
    kernel = Kernel(kernel_name(node), axes, (store,), (stage,), schedule)
    builder.kernels.append(kernel)


@lowers("mm.default", "bmm.default", "mv.default", "dot.default")
def product(builder: Builder, node: Node) -> None:
    names = {"mv": "vec", "dot": "tensor"}
    second = names.get(node.operator.split(".")[0], "mat2")
    _product(builder, node, builder.value(node.arguments["self"]), builder.value(node.arguments[second]))


@lowers("addmm.default", "baddbmm.default", "addmv.default")
def product_and_sum(builder: Builder, node: Node) -> None:
    start, left, right = (builder.value(value) for value in list(node.arguments.values())[:3])
    shape = node.results[0].shape
    beta, alpha = (to_kind(as_expression(node.arguments[name]), "real") for name in ("beta", "alpha"))

    def finish(total: Expression, position: Position) -> Expression:
        first = builder.spread(start, shape, position)
        return operation("add", _scaled(total, alpha), _scaled(first, beta))

    _product(builder, node, left, right, finish)


def _scaled(value: Expression, factor: Expression) -> Expression:
    one = to_kind(as_expression(True), "real")
    return value if factor == one else operation("mul", factor, value)
