"""Turns `topk` into a kernel (lowers it): the largest one or two elements along a dimension."""

from kernelblaster.policies.expert.builder import Builder, Position, Value, kind_of, lowers
from kernelblaster.policies.expert.combines.arithmetic import MAX
from kernelblaster.policies.expert.combines.second_largest import SECOND_LARGEST
from kernelblaster.policies.expert.expression import Counted, Expression, Load, Number, Reduced, operation
from kernelblaster.policies.expert.graph import Node, Reference, UncoveredOperators, as_expression, references
from kernelblaster.policies.expert.index import ONE
from kernelblaster.policies.expert.kernel import Stage, Store
from kernelblaster.policies.expert.operators.reductions import loops_over
from kernelblaster.policies.expert.plan import Buffer

RANKS = (("largest", MAX), ("second", SECOND_LARGEST))


@lowers("topk.default")
def largest(builder: Builder, node: Node) -> None:
    """Adds one kernel to `builder` for the `topk` operator `node`: it computes the largest element, or with k
    = 2 the two largest, each into a buffer of its own; the operator's result is a view of these buffers.
    Raises UncoveredOperators if k is neither 1 nor 2, if the smallest elements are asked for, and for truth
    values. Raises it also if the elements' indices are used, because PyTorch does not define which of several
    equal elements it returns."""
    _check(builder, node)
    value, dtype = builder.value(node.arguments["self"]), node.results[0].dtype
    place = node.arguments["dim"].value % max(value.rank, 1)
    found, kind = loops_over(value.shape, {place}, keep=False), kind_of(dtype)
    ranks = RANKS[: _count(node)]
    shape = tuple(extent for number, extent in enumerate(value.shape) if number != place)
    names = [f"{node.name.strip('_')}_{name}" for name, _ in ranks]
    builder.buffers |= {name: Buffer(name, shape, dtype, scratch=True) for name in names}
    stages = [Stage(name, combine, value.at(found.position), found.reduced) for name, combine in ranks]
    stores = [
        Store(name, found.kept, Reduced(stage.name, kind)) for name, stage in zip(names, stages, strict=True)
    ]
    builder.reduction(node, found.axes, stages, stores)

    def at(position: Position) -> Expression:
        rest = (*position[:place], *position[place + 1 :])
        both: list[Expression] = [Load(name, rest, kind) for name in names]
        if len(both) == 1:
            return both[0]
        return operation(
            "where", operation("lt", Counted(position[place]), Counted(ONE), kind="truth"), *both, kind=kind
        )

    builder.define(node, Value(node.results[0].shape, dtype, at))


def _check(builder: Builder, node: Node) -> None:
    graph = builder.graph
    used = references(tuple(other.arguments for other in graph.nodes))
    if Reference(node.name, 1) in (*used, *graph.outputs):
        raise UncoveredOperators((f"the places that {node.operator} finds",))
    if not node.arguments["largest"]:
        raise UncoveredOperators((f"{node.operator} of the smallest elements",))
    if kind_of(node.results[0].dtype) == "truth":
        raise UncoveredOperators((f"{node.operator} of truth values",))


def _count(node: Node) -> int:
    """Returns k, the number of elements that the node `topk` asks for: 1 or 2. Raises UncoveredOperators for
    any other."""
    found = as_expression(node.arguments["k"])
    if not isinstance(found, Number) or found.value not in range(1, len(RANKS) + 1):
        raise UncoveredOperators((f"{node.operator} of other than one or two elements",))
    return int(found.value)
