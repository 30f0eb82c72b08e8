"""Simplification rules for reductions: those without effect are dropped, and two that follow each other
become one."""

import math
from dataclasses import replace

from kernelblaster.policies.expert.expression import real
from kernelblaster.policies.expert.graph import Graph, Node, Reference, Result
from kernelblaster.policies.expert.index import number
from kernelblaster.policies.expert.patterns import (
    Found,
    Rule,
    dimensions,
    dtype_of,
    keeps_type,
    literal,
    producer,
    shape_of,
    sole_producer,
)

OVER_DIMENSIONS = ("sum.dim_IntList", "mean.dim", "amax.default", "amin.default", "prod.dim_int")
NESTING = ("sum.dim_IntList", "mean.dim", "amax.default", "amin.default")


def size_one(graph: Graph, node: Node) -> Found:
    """Simplification rule: a sum, product, mean, maximum or minimum over dimensions of extent 1 only is
    replaced by its operand, or by a squeeze of the operand if the node drops these dimensions. Returns None
    for other nodes."""
    if node.operator not in OVER_DIMENSIONS or not keeps_type(graph, node):
        return None
    shape, dims = shape_of(graph, node.arguments["self"]), dimensions(graph, node)
    if not dims or any(set(graph.values(shape[dim])) != {1} for dim in dims):
        return None
    if node.arguments.get("keepdim"):
        return node.arguments["self"]  # type: ignore[no-any-return]
    arguments = {"self": node.arguments["self"], "dim": tuple(number(dim) for dim in dims)}
    return (replace(node, operator="squeeze.dims", arguments=arguments),)


def nested(graph: Graph, node: Node) -> Found:
    """Simplification rule: a sum of sums, a mean of means, a maximum of maxima or a minimum of minima becomes
    one reduction over all dimensions of both. Returns None for other nodes, and if the inner result is also
    used elsewhere."""
    inner = sole_producer(graph, node.arguments.get("self"))
    if inner is None or node.operator not in NESTING or inner.operator != node.operator:
        return None
    if not keeps_type(graph, node) or not keeps_type(graph, inner):
        return None
    keeps = [bool(n.arguments.get("keepdim")) for n in (node, inner)]
    before = dimensions(graph, inner)
    rank = len(shape_of(graph, inner.arguments["self"]))
    left = list(range(rank)) if keeps[1] else [place for place in range(rank) if place not in before]
    dims = sorted({*before, *(left[place] for place in dimensions(graph, node))})
    if keeps[0] != keeps[1]:
        return None
    arguments = {"self": inner.arguments["self"], "dim": tuple(number(dim) for dim in dims)}
    return (replace(node, arguments={**node.arguments, **arguments}),)


def any_above_lowest(graph: Graph, node: Node) -> Found:
    """Simplification rule: the test whether any element of a row is not -inf becomes the test whether the
    row's largest element is not -inf, because a softmax computes that element anyway. Returns None for other
    nodes."""
    negated = producer(graph, node.arguments.get("self"))
    if node.operator != "any.dim" or negated is None or negated.operator != "logical_not.default":
        return None
    equal = producer(graph, negated.arguments["self"])
    if equal is None or equal.operator != "eq.Scalar" or literal(equal.arguments["other"]) != -math.inf:
        return None
    operand, shape = equal.arguments["self"], node.results[0].shape
    over = {"self": operand, "dim": (node.arguments["dim"],), "keepdim": node.arguments["keepdim"]}
    largest = Node(f"{node.name}_largest", "amax.default", over, (Result(shape, dtype_of(graph, operand)),))
    tested = {"self": Reference(largest.name), "other": real(-math.inf)}
    lowest = Node(f"{node.name}_lowest", "eq.Scalar", tested, node.results)
    return (
        largest,
        lowest,
        replace(node, operator="logical_not.default", arguments={"self": Reference(lowest.name)}),
    )


RULES: tuple[Rule, ...] = (size_one, nested, any_above_lowest)
