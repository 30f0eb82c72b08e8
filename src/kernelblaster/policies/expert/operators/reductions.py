"""Turns sums, products, maxima, minima, means, variances and norms over some dimensions of a tensor into
kernels (lowers them)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.builder import Builder, Position, kind_of, lowers
from kernelblaster.policies.expert.combines.arithmetic import ALL, ANY, MAX, MIN, PRODUCT, SUM
from kernelblaster.policies.expert.combines.combine import Combine
from kernelblaster.policies.expert.combines.placed import ARGMAX, ARGMIN
from kernelblaster.policies.expert.expression import (
    Counted,
    Expression,
    Reduced,
    operation,
    real,
    to_kind,
)
from kernelblaster.policies.expert.graph import Node, UncoveredOperators, as_expression
from kernelblaster.policies.expert.index import ZERO, Index
from kernelblaster.policies.expert.kernel import Stage, Store

Body = Callable[[Expression], Expression]


@dataclass(frozen=True)
class Loops:
    """The loops of a reduction of one tensor: `axes` over the results and, inside of these, `reduced` over
    the elements that become one result. `position` is the position at which an element of the operand is
    read, `kept` the position at which the result is stored; each has an index for each dimension."""

    axes: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    position: Position
    kept: Position

    @property
    def count(self) -> Index:
        return indices.product(axis.extent for axis in self.reduced)


def loops(builder: Builder, node: Node, operand: str = "self", dims: str = "dim") -> Loops:
    """Returns the loops of the reduction `node`, whose operands `builder` provides. `operand` and `dims` are
    the names of two of its arguments, the tensor and the dimensions to reduce; all dimensions are reduced if
    none are given. If the node has `keepdim`, results keep the reduced dimensions with extent 1."""
    shape = builder.value(node.arguments[operand]).shape
    given = node.arguments.get(dims)
    places = given if isinstance(given, tuple) else () if given is None else (given,)
    chosen = {place.value % max(len(shape), 1) for place in places} or set(range(len(shape)))
    return loops_over(shape, chosen, bool(node.arguments.get("keepdim")))


def loops_over(shape: tuple[Index, ...], chosen: set[int], keep: bool) -> Loops:
    axes: list[Axis] = []
    reduced: list[Axis] = []
    position: list[Index] = []
    kept: list[Index] = []
    for place, extent in enumerate(shape):
        axis = Axis(f"r{place}" if place in chosen else f"i{place}", extent)
        (reduced if place in chosen else axes).append(axis)
        position.append(axis.index)
        if place not in chosen:
            kept.append(axis.index)
        elif keep:
            kept.append(ZERO)
    return Loops(tuple(axes), tuple(reduced), tuple(position), tuple(kept))


def _same(value: Expression) -> Expression:
    return value


def _reduce(builder: Builder, node: Node, combine: Combine, body: Body = _same, end: Body = _same) -> None:
    found = loops(builder, node)
    kind = kind_of(node.results[0].dtype)
    element = builder.value(node.arguments["self"]).at(found.position)
    wanted = element.kind if combine.placed else kind
    stage = Stage(
        "total" if combine == SUM else "best", combine, body(to_kind(element, wanted)), found.reduced
    )
    store = Store(builder.buffer(node), found.kept, end(Reduced(stage.name, kind)))
    builder.reduction(node, found.axes, [stage], [store])


COMBINES: dict[str, Combine] = {"sum": SUM, "amax": MAX, "amin": MIN, "prod": PRODUCT}
COMBINES |= {"argmax": ARGMAX, "argmin": ARGMIN, "any": ANY, "all": ALL}


@lowers("sum.dim_IntList", "sum.default", "amax.default", "amin.default", "prod.default", "prod.dim_int")
@lowers("argmax.default", "argmin.default", "any.dim", "any.default", "all.dim", "all.default")
@lowers("any.dims", "all.dims")
def plain(builder: Builder, node: Node) -> None:
    _reduce(builder, node, COMBINES[node.operator.split(".")[0]])


@lowers("mean.dim", "mean.default")
def mean(builder: Builder, node: Node) -> None:
    count = loops(builder, node).count
    _reduce(builder, node, SUM, end=lambda total: divided(total, count))


def divided(total: Expression, count: Index) -> Expression:
    return operation("div", total, to_kind(Counted(count), "real"))


@lowers("linalg_vector_norm.default")
def norm(builder: Builder, node: Node) -> None:
    order = to_kind(as_expression(node.arguments["ord"]), "real")
    if order == real(2):
        squared = lambda x: operation("mul", x, x)  # noqa: E731
        _reduce(builder, node, SUM, squared, lambda total: operation("sqrt", total))
    elif order == real(1):
        _reduce(builder, node, SUM, lambda x: operation("abs", x))
    elif order == real(math.inf):
        _reduce(builder, node, MAX, lambda x: operation("abs", x))
    else:
        raise UncoveredOperators((f"{node.operator} of an order other than 1, 2 and infinity",))


@lowers("max.dim", "min.dim")
def extreme_with_place(builder: Builder, node: Node) -> None:
    largest = node.operator.startswith("max")
    found = loops(builder, node)
    element = builder.value(node.arguments["self"]).at(found.position)
    stages = [
        Stage("best", MAX if largest else MIN, element, found.reduced),
        Stage("place", ARGMAX if largest else ARGMIN, element, found.reduced),
    ]
    stores = [
        Store(builder.buffer(node), found.kept, Reduced("best", element.kind)),
        Store(builder.buffer(node, 1), found.kept, Reduced("place", "whole")),
    ]
    builder.reduction(node, found.axes, stages, stores)


def moments(element: Expression, found: Loops, correction: Expression) -> tuple[list[Stage], Expression]:
    """Returns the variance of `element` over the loops `found`, as a pair: (list of stages, the expression of
    the variance). There are two stages, which the kernel must have: the sum, and the sum of squared
    differences from the mean. The variance is the second sum divided by the number of elements minus
    `correction`."""
    count, reduced = found.count, found.reduced
    middle = divided(Reduced("total", "real"), count)
    away = operation("sub", element, middle)
    squared = operation("mul", away, away)
    stages = [Stage("total", SUM, element, reduced), Stage("spread", SUM, squared, reduced)]
    number: Expression = to_kind(Counted(count), "real")
    if to_kind(correction, "real") != real(0):
        number = operation("sub", number, to_kind(correction, "real"))
    return stages, operation("div", Reduced("spread", "real"), number)


@lowers("var.correction", "var_mean.correction")
def variance(builder: Builder, node: Node) -> None:
    found = loops(builder, node)
    element = builder.value(node.arguments["self"]).at(found.position)
    given = node.arguments["correction"]
    correction = real(1) if given is None else as_expression(given)
    stages, result = moments(element, found, correction)
    stores = [Store(builder.buffer(node), found.kept, result)]
    if node.operator.startswith("var_mean"):
        middle = divided(Reduced("total", "real"), found.count)
        stores.append(Store(builder.buffer(node, 1), found.kept, middle))
    builder.reduction(node, found.axes, stages, stores)
