"""Lowers two groups of operators: those that make a tensor of numbers or positions (full, arange) become
expressions without a kernel; look-ups by index (embedding, gather, indexing by a tensor) become kernels."""

from collections.abc import Sequence

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.builder import Builder, Position, Value, kind_of, lowers
from kernelblaster.policies.expert.expression import (
    Counted,
    Expression,
    Gather,
    Load,
    operation,
    real,
    to_kind,
)
from kernelblaster.policies.expert.graph import Node, UncoveredOperators, as_expression
from kernelblaster.policies.expert.index import ZERO, names, variable


@lowers("full.default", "full_like.default", "scalar_tensor.default", "fill.Scalar")
def full(builder: Builder, node: Node) -> None:
    called = {"scalar_tensor.default": "s", "fill.Scalar": "value"}
    name = called.get(node.operator, "fill_value")
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
        return _looked_up(builder, node, table, 0, [tokens.at(position[:-1])], (position[-1],))

    builder.pointwise(node, make)


@lowers("gather.default")
def gather(builder: Builder, node: Node) -> None:
    source, index = builder.value(node.arguments["self"]), builder.value(node.arguments["index"])
    axis = node.arguments["dim"].value % source.rank

    def make(position: Position) -> Expression:
        others = (*position[:axis], *position[axis + 1 :])
        return _looked_up(builder, node, source, axis, [index.at(position)], others)

    builder.pointwise(node, make)


@lowers("index_select.default")
def index_select(builder: Builder, node: Node) -> None:
    source, index = builder.value(node.arguments["self"]), builder.value(node.arguments["index"])
    axis = node.arguments["dim"].value % source.rank

    def make(position: Position) -> Expression:
        others = (*position[:axis], *position[axis + 1 :])
        where = index.at((position[axis],)[: index.rank])
        return _looked_up(builder, node, source, axis, [where], others)

    builder.pointwise(node, make)


@lowers("index.Tensor")
def index(builder: Builder, node: Node) -> None:
    """Adds a kernel to `builder` that looks up elements by tensors of indices (`x[:, rows, columns]`);
    negative indices count from the end. Raises UncoveredOperators if an index is a mask, or if the indexed
    dimensions are not neighbours."""
    source = builder.value(node.arguments["self"])
    given = node.arguments["indices"]
    axes = [axis for axis, one in enumerate(given) if one is not None]
    indexed = [builder.value(given[axis]) for axis in axes]
    first, rank = axes[0], max(places.rank for places in indexed)
    if axes != list(range(first, axes[-1] + 1)) or any(kind_of(one.dtype) != "whole" for one in indexed):
        raise UncoveredOperators((f"{node.operator} of dimensions that are apart, or by a mask",))
    shape = node.results[0].shape[first : first + rank]

    def make(position: Position) -> Expression:
        between, behind = position[first : first + rank], position[first + rank :]
        wheres = []
        for axis, places in zip(axes, indexed, strict=True):
            place = to_kind(builder.spread(places, shape, between), "whole")
            from_end = operation("add", place, Counted(source.shape[axis]), kind="whole")
            negative = operation("lt", place, Counted(ZERO), kind="truth")
            wheres.append(operation("where", negative, from_end, place, kind="whole"))
        return _looked_up(builder, node, source, first, wheres, (*position[:first], *behind))

    builder.pointwise(node, make)


def resample(builder: Builder, node: Node) -> None:
    """Adds the kernel of `node`, a nearest-neighbour resampling of a batch of images (or lines, or volumes),
    to `builder`. Along each dimension of the images, element i of the result is element i / factor of the
    operand, rounded down, and at most the last one. As in PyTorch, i is multiplied by the inverse of the
    factor: in float32, unless the task is float64. If the node gives no factor, the factor is the ratio of
    the extents."""
    source, shape = builder.value(node.arguments["self"]), node.results[0].shape
    given = [value for name, value in node.arguments.items() if name.startswith("scales")]
    factors = [*given, *(None for _ in shape[2 + len(given) :])]

    def make(position: Position) -> Expression:
        wheres = []
        for axis, factor in enumerate(factors, 2):
            before, after = (to_kind(Counted(extents[axis]), "real") for extents in (source.shape, shape))
            above, below = (
                (before, after) if factor is None else (real(1), to_kind(as_expression(factor), "real"))
            )
            scaled = operation(
                "mul", to_kind(Counted(position[axis]), "real"), operation("div", above, below)
            )
            last = Counted(indices.subtract(source.shape[axis], indices.number(1)))
            wheres.append(operation("min", to_kind(scaled, "whole"), last, kind="whole"))
        return _looked_up(builder, node, source, 2, wheres, position[:2])

    builder.pointwise(node, make)


def _looked_up(
    builder: Builder, node: Node, source: Value, first: int, wheres: Sequence[Expression], others: Position
) -> Expression:
    """The expression that reads an element of `source` at the computed indices `wheres` along neighbouring
    dimensions, from dimension `first` on, and at the position `others` along all other dimensions. Raises
    UncoveredOperators, which names the operator `node`, if `source` is computed where it is used, or a view
    in which these dimensions are not dimensions of its buffer next to each other."""
    marks = tuple(variable(f"looked_up_{number}") for number in range(len(wheres)))
    element = source.at((*others[:first], *marks, *others[first:]))
    position = element.position if isinstance(element, Load) else ()
    places = [position.index(mark) for mark in marks if mark in position]
    marked = sum(bool(names(one) & {mark.name for mark in marks}) for one in position)
    neighbours = places == list(range(places[0], places[0] + len(marks))) if places else False
    if not isinstance(element, Load) or not neighbours or marked != len(marks):
        raise UncoveredOperators((f"{node.operator} of a view, or of what roll or flip moved",))
    offset = to_kind(wheres[0], "whole")  # row-major within these dimensions
    for place, where in zip(places[1:], wheres[1:], strict=True):
        extent = Counted(builder.buffers[element.buffer].shape[place])
        before = operation("mul", offset, extent, kind="whole")
        offset = operation("add", before, to_kind(where, "whole"), kind="whole")
    start = tuple(ZERO if one in marks else one for one in position)
    return Gather(element.buffer, start, places[-1], offset, element.kind)
