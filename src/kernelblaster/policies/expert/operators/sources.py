"""Lowers two groups of operators: those that make a tensor of numbers or positions (full, arange) become
expressions without a kernel; look-ups by index (embedding, gather, indexing by a tensor) become kernels."""

from kernelblaster.policies.expert.builder import Builder, Position, Value, kind_of, lowers
from kernelblaster.policies.expert.expression import Counted, Expression, Gather, Load, operation, to_kind
from kernelblaster.policies.expert.graph import Node, UncoveredOperators, as_expression
from kernelblaster.policies.expert.index import ZERO


@lowers("full.default", "full_like.default", "scalar_tensor.default")
def full(builder: Builder, node: Node) -> None:
    name = "s" if node.operator.startswith("scalar") else "fill_value"
    found = node.results[0]
    value = to_kind(as_expression(node.arguments[name]), kind_of(found.dtype))
    builder.define(node, Value(found.shape, found.dtype, lambda p: value))


@lowers("arange.start_step")
def arange(builder: Builder, node: Node) -> None:
    found = node.results[0]
    kind = kind_of(found.dtype)
    start, step = (to_kind(as_expression(node.arguments[name]), kind) for name in ("start", "step"))

    def at(position: Position) -> Expression:
        place = to_kind(Counted(position[0]), kind)
        steps = (
            place if step == to_kind(as_expression(True), kind) else operation("mul", place, step, kind=kind)
        )
        zero = to_kind(as_expression(False), kind)
        return steps if start == zero else operation("add", start, steps, kind=kind)

    builder.define(node, Value(found.shape, found.dtype, at))


@lowers("embedding.default")
def embedding(builder: Builder, node: Node) -> None:
    table, tokens = builder.value(node.arguments["weight"]), builder.value(node.arguments["indices"])

    def make(position: Position) -> Expression:
        return _looked_up(node, table.at((ZERO, position[-1])), 0, tokens.at(position[:-1]))

    builder.pointwise(node, make)


@lowers("gather.default")
def gather(builder: Builder, node: Node) -> None:
    source, index = builder.value(node.arguments["self"]), builder.value(node.arguments["index"])
    axis = node.arguments["dim"].value % source.rank

    def make(position: Position) -> Expression:
        start = (*position[:axis], ZERO, *position[axis + 1 :])
        return _looked_up(node, source.at(start), axis, index.at(position))

    builder.pointwise(node, make)


@lowers("index.Tensor")
def index(builder: Builder, node: Node) -> None:
    """Adds a kernel to `builder` that looks up elements along one dimension by a tensor of indices (`x[:,
    indices]`); negative indices count from the end. Raises UncoveredOperators if there are several index
    tensors, or if the index is a mask."""
    source = builder.value(node.arguments["self"])
    named = [(axis, given) for axis, given in enumerate(node.arguments["indices"]) if given is not None]
    places = builder.value(named[0][1])
    if len(named) != 1 or kind_of(places.dtype) != "whole":
        raise UncoveredOperators((f"{node.operator} by several tensors, or by a mask",))
    axis = named[0][0]

    def make(position: Position) -> Expression:
        behind = axis + places.rank
        start = (*position[:axis], ZERO, *position[behind:])
        place = to_kind(places.at(position[axis:behind]), "whole")
        from_end = operation("add", place, Counted(source.shape[axis]), kind="whole")
        negative = operation("lt", place, Counted(ZERO), kind="truth")
        where = operation("where", negative, from_end, place, kind="whole")
        return _looked_up(node, source.at(start), axis, where)

    builder.pointwise(node, make)


def _looked_up(node: Node, element: Expression, axis: int, where: Expression) -> Expression:
    """The expression that reads what `element` reads, but at the computed index `where` along dimension
    `axis` (a gather). Raises UncoveredOperators if `element` is no plain load with index 0 there, as for a
    view; its message names the operator `node`."""
    if not isinstance(element, Load) or element.position[axis] != ZERO:
        raise UncoveredOperators((f"{node.operator} of a view",))
    return Gather(element.buffer, element.position, axis, to_kind(where, "whole"), element.kind)
