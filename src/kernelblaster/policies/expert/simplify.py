"""Algebraic simplification of a graph: the same result for less work.

Each rule looks at one node and says what it can be replaced by: other nodes, or one of its own
operands. Rules are tried until none applies. They keep the result exactly, or, where sums are
taken in another order, as exactly as before.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kernelblaster.policies.expert.expression import Expression, Number, real
from kernelblaster.policies.expert.graph import (
    Graph,
    Node,
    Reference,
    Result,
    as_expression,
    needed,
    references,
)
from kernelblaster.policies.expert.index import ONE, number, variable

Found = tuple[Node, ...] | Reference | None  # the last node takes the old one's place
Rule = Callable[[Graph, Node], Found]
IDEMPOTENT = ("relu", "abs", "sign", "floor", "ceil", "hardtanh")
ALREADY_POSITIVE = ("relu", "sigmoid", "exp", "_softmax", "abs", "sqrt", "rsqrt")
SUMS = ("sum.dim_IntList", "mean.dim", "amax.default", "amin.default", "prod.dim_int")


def simplify(graph: Graph) -> Graph:
    """The graph after every rule was applied as often as it can be."""
    while True:
        for node in graph.nodes:
            found = next((f for rule in RULES if (f := rule(graph, node)) is not None), None)
            if found is not None:
                graph = _replaced(graph, node, found)
                break
        else:
            return graph


def repeated(graph: Graph, node: Node) -> Found:
    """An operation that was just applied changes nothing: relu(relu(x)), |relu(x)|, relu(exp(x))."""
    inner = _producer(graph, node.arguments.get("self"))
    if inner is None:
        return None
    outer_name, inner_name = (n.operator.split(".")[0] for n in (node, inner))
    same = outer_name == inner_name and outer_name in IDEMPOTENT
    same = same and _rest(node) == _rest(inner)
    positive = outer_name in ("relu", "abs") and inner_name in ALREADY_POSITIVE
    return node.arguments["self"] if same or positive else None


def neutral(graph: Graph, node: Node) -> Found:
    """x + 0, x - 0, x * 1, x / 1 and x ** 1 are x."""
    name = node.operator.split(".")[0]
    other = node.arguments.get("exponent" if name == "pow" else "other")
    if name not in ("add", "sub", "mul", "div", "pow") or isinstance(other, Reference):
        return None
    value = _literal(other)
    unchanged = value == (0 if name in ("add", "sub") else 1)
    return node.arguments["self"] if unchanged and _same_type(graph, node) else None


def scalings(graph: Graph, node: Node) -> Found:
    """Two scalings by constants are one: (x * a) * b, (x / a) * b, (x * a) / b, (x / a) / b."""
    inner = _producer(graph, node.arguments.get("self"))
    factors = [_factor(n) for n in (node, inner) if n is not None]
    if inner is None or None in factors or inner.results[0].dtype != node.results[0].dtype:
        return None
    one, two = factors
    assert one is not None and two is not None
    arguments = {"self": inner.arguments["self"], "other": real(one * two)}
    return (replace(node, operator="mul.Tensor", arguments=arguments),)


def size_one(graph: Graph, node: Node) -> Found:
    """A sum, mean or extreme over dimensions of extent one only drops them, or keeps them."""
    if node.operator not in SUMS or not _same_type(graph, node):
        return None
    shape = _shape(graph, node.arguments["self"])
    given = node.arguments.get("dim")
    dims = given if isinstance(given, tuple) else () if given is None else (given,)
    if not dims or any(set(graph.values(shape[dim.value])) != {1} for dim in dims):
        return None
    if node.arguments.get("keepdim"):
        return node.arguments["self"]  # type: ignore[no-any-return]
    arguments = {"self": node.arguments["self"], "dim": dims}
    return (replace(node, operator="squeeze.dims", arguments=arguments),)


def chain(graph: Graph, node: Node) -> Found:
    """(A B) C as A (B C) where that takes fewer multiplications, above all where C is a vector."""
    inner = _producer(graph, node.arguments.get("self"))
    if node.operator != "mm.default" or inner is None or inner.operator != "mm.default":
        return None
    if _readers(graph, inner) != 1:
        return None
    a, b, c = inner.arguments["self"], inner.arguments["mat2"], node.arguments["mat2"]
    (m, k), (_, n), (_, p) = (_shape(graph, reference) for reference in (a, b, c))
    cost_m, cost_k, cost_n, cost_p = (graph.values(extent)[0] for extent in (m, k, n, p))
    if cost_k * cost_n * cost_p + cost_m * cost_k * cost_p >= cost_m * cost_n * (cost_k + cost_p):
        return None
    first = Node(
        f"{node.name}_right", "mm.default", {"self": b, "mat2": c}, (Result((k, p), node.results[0].dtype),)
    )
    second = replace(node, arguments={"self": a, "mat2": Reference(first.name)})
    return first, second


def weighted_sum(graph: Graph, node: Node) -> Found:
    """The rows of a product, weighted by a vector and summed, are a product with that vector; then
    `chain` can do the smaller product first."""
    scaled = _producer(graph, node.arguments.get("self"))
    if node.operator != "sum.dim_IntList" or scaled is None or scaled.operator != "mul.Tensor":
        return None
    matrix, vector = scaled.arguments["self"], scaled.arguments["other"]
    product = _producer(graph, matrix)
    if product is None or product.operator != "mm.default" or not isinstance(vector, Reference):
        return None
    dims = [dim.value % 2 for dim in node.arguments["dim"] or ()]
    if dims != [1] or len(_shape(graph, vector)) != 1 or _readers(graph, scaled) != 1:
        return None
    if node.arguments["keepdim"]:
        return None
    dtype, (rows, _) = node.results[0].dtype, product.results[0].shape
    column = Result((*_shape(graph, vector), ONE), dtype)
    upright = Node(f"{node.name}_column", "unsqueeze.default", {"self": vector, "dim": ONE}, (column,))
    factors = {"self": matrix, "mat2": Reference(upright.name)}
    result = Node(f"{node.name}_product", "mm.default", factors, (Result((rows, ONE), dtype),))
    last = {"self": Reference(result.name), "dim": (ONE,)}
    return upright, result, replace(node, operator="squeeze.dims", arguments=last)


def sum_of_product(graph: Graph, node: Node) -> Found:
    """The sum of a product's rows or columns needs only the sum of one factor's."""
    inner = _producer(graph, node.arguments.get("self"))
    if node.operator != "sum.dim_IntList" or inner is None or inner.operator != "mm.default":
        return None
    dims = [dim.value % 2 for dim in node.arguments["dim"] or ()]
    if len(dims) != 1 or _readers(graph, inner) != 1:
        return None
    factors = {"self": inner.arguments["self"], "mat2": inner.arguments["mat2"]}
    summed = "mat2" if dims == [1] else "self"
    shape = list(_shape(graph, factors[summed]))
    shape[dims[0]] = ONE
    product_shape = list(inner.results[0].shape)
    product_shape[dims[0]] = ONE
    dtype = node.results[0].dtype
    kept = dict(node.arguments) | {"self": factors[summed], "keepdim": True}
    total = Node(f"{node.name}_factor", node.operator, kept, (Result(tuple(shape), dtype),))
    factors[summed] = Reference(total.name)
    product = Node(f"{node.name}_product", "mm.default", factors, (Result(tuple(product_shape), dtype),))
    if node.arguments["keepdim"]:
        return total, replace(product, name=node.name)
    last = {"self": Reference(product.name), "dim": (number(dims[0]),)}
    return total, product, replace(node, operator="squeeze.dims", arguments=last)


RULES: tuple[Rule, ...] = (repeated, neutral, scalings, size_one, weighted_sum, chain, sum_of_product)


def _readers(graph: Graph, node: Node) -> int:
    """How often a node's results are used, as operands and as outputs."""
    used = [r for other in graph.nodes for r in references(other.arguments)] + list(graph.outputs)
    return sum(reference.name == node.name for reference in used)


def _producer(graph: Graph, argument: Any) -> Node | None:
    if not isinstance(argument, Reference):
        return None
    return next((node for node in graph.nodes if node.name == argument.name), None)


def _rest(node: Node) -> dict[str, Any]:
    return {name: value for name, value in node.arguments.items() if name != "self"}


def _literal(argument: Any) -> float | None:
    """A number's value where it is the same at all sizes."""
    found: Expression | None = None if argument is None else as_expression(argument)
    return float(found.value) if isinstance(found, Number) else None


def _factor(node: Node) -> float | None:
    """The constant by which a node multiplies its first operand, where that is all it does."""
    name = node.operator.split(".")[0]
    other = node.arguments.get("other")
    if name not in ("mul", "div") or isinstance(other, Reference):
        return None
    value = _literal(other)
    if value is None or (name == "div" and value == 0):
        return None
    return value if name == "mul" else 1 / value


def _shape(graph: Graph, reference: Reference) -> Any:
    node = _producer(graph, reference)
    if node is not None:
        return node.results[reference.result].shape
    tensor = next(t for t in graph.signature.read_tensors if t.name == reference.name)
    return tuple(variable(dim) for dim in tensor.dims)


def _same_type(graph: Graph, node: Node) -> bool:
    reference = node.arguments["self"]
    inner = _producer(graph, reference)
    if inner is not None:
        return bool(inner.results[reference.result].dtype == node.results[0].dtype)
    found = [t.dtype for t in graph.signature.read_tensors if t.name == reference.name]
    return found == [node.results[0].dtype]


def _replaced(graph: Graph, node: Node, found: tuple[Node, ...] | Reference) -> Graph:
    """The graph with `found` in the node's place, and without what is then needed no more."""
    if isinstance(found, tuple):
        nodes = [new for other in graph.nodes for new in (found if other is node else (other,))]
        outputs = graph.outputs
    else:
        old = Reference(node.name)
        nodes = [
            replace(other, arguments=_redirected(other.arguments, old, found))
            for other in graph.nodes
            if other is not node
        ]
        outputs = tuple(found if reference == old else reference for reference in graph.outputs)
    return replace(graph, nodes=needed(nodes, outputs), outputs=outputs)


def _redirected(argument: Any, old: Reference, new: Reference) -> Any:
    if isinstance(argument, Mapping):
        return {name: _redirected(value, old, new) for name, value in argument.items()}
    if isinstance(argument, tuple):
        return tuple(_redirected(value, old, new) for value in argument)
    return new if argument == old else argument
