"""What the simplification rules (rules/) share: questions about a graph of operators, such as whether a
result is used only once, and functions that make new nodes."""

from collections.abc import Callable, Sequence
from typing import Any

from kernelblaster.policies.expert.expression import Expression, Number
from kernelblaster.policies.expert.graph import Graph, Node, Reference, Result, as_expression
from kernelblaster.policies.expert.index import Index, number, variable
from kernelblaster.records.signature import Dtype

Shape = tuple[Index, ...]
Found = tuple[Node, ...] | Reference | None  # the last node takes the old one's place
Rule = Callable[[Graph, Node], Found]
RESHAPES = ("view.default", "_unsafe_view.default", "reshape.default", "unsqueeze.default", "squeeze.dims")


def operator(node: Node) -> str:
    """The name of a node's operator without its overload: "sum" for `sum.dim_IntList`."""
    return node.operator.split(".")[0]


def producer(graph: Graph, argument: Any) -> Node | None:
    return graph.producers.get(argument.name) if isinstance(argument, Reference) else None


def sole_producer(graph: Graph, argument: Any) -> Node | None:
    """Returns the node of `graph` that computes `argument`, if the node's results are used nowhere else. None
    if they are used elsewhere too, or if `argument` is a number or an input tensor."""
    found = producer(graph, argument)
    return found if found is not None and graph.uses[found.name] == 1 else None


def shape_of(graph: Graph, reference: Reference) -> Shape:
    node = producer(graph, reference)
    if node is not None:
        return node.results[reference.result].shape
    tensor = next(t for t in graph.signature.read_tensors if t.name == reference.name)
    return tuple(variable(dim) for dim in tensor.dims)


def dtype_of(graph: Graph, reference: Reference) -> Dtype:
    node = producer(graph, reference)
    if node is not None:
        return node.results[reference.result].dtype
    return next(t.dtype for t in graph.signature.read_tensors if t.name == reference.name)


def keeps_type(graph: Graph, node: Node) -> bool:
    operand = node.arguments["self"]
    return isinstance(operand, Reference) and dtype_of(graph, operand) == node.results[0].dtype


def same_shape(graph: Graph, left: Sequence[Index], right: Sequence[Index]) -> bool:
    return len(left) == len(right) and all(
        graph.values(one) == graph.values(other) for one, other in zip(left, right, strict=True)
    )


def dimensions(graph: Graph, node: Node) -> list[int]:
    """Returns the dimensions over which `node` (a sum, a mean or another reduction in `graph`) reduces,
    sorted and counted from the front. If the node names none, these are all dimensions."""
    rank = len(shape_of(graph, node.arguments["self"]))
    given = node.arguments.get("dim")
    places = given if isinstance(given, tuple) else () if given is None else (given,)
    return sorted({place.value % max(rank, 1) for place in places} or range(rank))


def literal(argument: Any) -> float | None:
    """Returns the value of a numeric argument if it is a literal number, which is equal at all sizes; None
    otherwise."""
    if argument is None or isinstance(argument, Reference):
        return None
    found: Expression = as_expression(argument)
    return float(found.value) if isinstance(found, Number) else None


def is_scaling(node: Node | None) -> bool:
    """True if a node multiplies its first operand, a tensor, by a number, or divides it by a number."""
    if node is None or operator(node) not in ("mul", "div"):
        return False
    return isinstance(node.arguments["self"], Reference) and not isinstance(
        node.arguments["other"], Reference
    )


def viewed(name: str, reference: Reference, shape: Shape, dtype: Dtype) -> Node:
    return Node(name, "view.default", {"self": reference, "size": shape}, (Result(shape, dtype),))


def summed(graph: Graph, name: str, node: Node, dims: Sequence[int]) -> Node:
    """Returns a new node, called `name`, that sums the first result of `node` over the dimensions `dims`; the
    result of the sum does not have these dimensions."""
    kept = tuple(extent for place, extent in enumerate(node.results[0].shape) if place not in dims)
    places = tuple(number(dim) for dim in dims)
    arguments = {"self": Reference(node.name), "dim": places, "keepdim": False, "dtype": None}
    return Node(name, "sum.dim_IntList", arguments, (Result(kept, node.results[0].dtype),))
