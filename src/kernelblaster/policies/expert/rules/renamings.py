"""Simplification rules for views: those without effect are dropped, and two that follow each other become
one. Also moves scalings by a number behind views, sums and products."""

from dataclasses import replace

from kernelblaster.policies.expert.graph import Graph, Node, Reference
from kernelblaster.policies.expert.index import is_number, number
from kernelblaster.policies.expert.patterns import (
    RESHAPES,
    Found,
    Rule,
    is_scaling,
    producer,
    same_shape,
    shape_of,
    sole_producer,
)

PRODUCTS = ("mm.default", "bmm.default")
SUMS = ("sum.dim_IntList", "mean.dim")
VIEWS = (*RESHAPES, "permute.default", "expand.default")


def unchanged(graph: Graph, node: Node) -> Found:
    """Simplification rule: a view, slice or permutation that changes nothing is replaced by its operand.
    Returns None for other nodes."""
    operand = node.arguments.get("self")
    if not isinstance(operand, Reference):
        return None
    whole = node.operator == "slice.Tensor" and is_number(node.arguments["step"], 1)
    if node.operator == "permute.default":
        order = [dim.value for dim in node.arguments["dims"]]
        return operand if order == sorted(order) and min(order) == 0 else None
    if not whole and node.operator not in (*RESHAPES, "expand.default"):
        return None
    return operand if same_shape(graph, shape_of(graph, operand), node.results[0].shape) else None


def reshaped_twice(graph: Graph, node: Node) -> Found:
    """Simplification rule: a reshape of a reshape becomes a single reshape. Returns None for other nodes."""
    inner = producer(graph, node.arguments.get("self"))
    if inner is None or node.operator not in RESHAPES or inner.operator not in RESHAPES:
        return None
    arguments = {"self": inner.arguments["self"], "size": node.results[0].shape}
    return (replace(node, operator="view.default", arguments=arguments),)


def transposed_twice(graph: Graph, node: Node) -> Found:
    inner = producer(graph, node.arguments.get("self"))
    if inner is None or {node.operator, inner.operator} != {"permute.default"}:
        return None
    rank = len(node.results[0].shape)
    first, second = ([dim.value % rank for dim in n.arguments["dims"]] for n in (inner, node))
    dims = tuple(number(first[place]) for place in second)
    return (replace(node, arguments={"self": inner.arguments["self"], "dims": dims}),)


def scaling_waits(graph: Graph, node: Node) -> Found:
    """Simplification rule for a view, sum or matrix product of an operand that was scaled by a number: the
    operator is applied to the operand without the scaling, and its result is scaled instead. A scaling of the
    result costs nothing once it is fused with the operator's kernel. Returns None for other nodes, and in
    half precisions, where the scaling may keep a sum from overflowing."""
    if node.operator not in (*VIEWS, *PRODUCTS, *SUMS) or node.results[0].dtype not in ("float32", "float64"):
        return None
    found = {name: _scaling(graph, node, name) for name in ("self", "mat2")}
    waiting = {name: scaling for name, scaling in found.items() if scaling is not None}
    if not waiting:
        return None
    operands = {name: scaling.arguments["self"] for name, scaling in waiting.items()}
    nodes = [replace(node, name=f"{node.name}_unscaled", arguments={**node.arguments, **operands})]
    for name, scaling in waiting.items():
        arguments = {**scaling.arguments, "self": Reference(nodes[-1].name)}
        after = replace(scaling, name=f"{node.name}_{name}_scaled", arguments=arguments)
        nodes.append(replace(after, results=node.results))
    return (*nodes[:-1], replace(nodes[-1], name=node.name))


RULES: tuple[Rule, ...] = (unchanged, reshaped_twice, transposed_twice, scaling_waits)


def _scaling(graph: Graph, node: Node, name: str) -> Node | None:
    """The node that makes operand `name` of `node` by scaling it with a number, if nothing else uses its
    result; None otherwise."""
    inner = sole_producer(graph, node.arguments.get(name))
    if inner is None or not is_scaling(inner) or inner.results[0].dtype != node.results[0].dtype:
        return None
    return inner
