"""Simplification rules for elementwise operators: an operator without effect is dropped, and two that follow
each other become one."""

from dataclasses import replace

from kernelblaster.policies.expert.expression import Expression, Operation, operation, real, to_kind
from kernelblaster.policies.expert.graph import Graph, Node, Reference, as_expression
from kernelblaster.policies.expert.patterns import (
    Found,
    Rule,
    is_scaling,
    keeps_type,
    literal,
    operator,
    producer,
    sole_producer,
)

IDEMPOTENT = ("relu", "abs", "sign", "floor", "ceil", "hardtanh")
UNDOING = ("neg.default", "logical_not.default")
ALREADY_POSITIVE = ("relu", "sigmoid", "exp", "_softmax", "abs", "sqrt", "rsqrt")


def repeated(graph: Graph, node: Node) -> Found:
    """Simplification rule: a node that has no effect after the operator before it, as in relu(relu(x)),
    |relu(x)| and relu(exp(x)), is replaced by its operand. Returns None for other nodes."""
    inner = producer(graph, node.arguments.get("self"))
    if inner is None:
        return None
    same = operator(node) == operator(inner) and operator(node) in IDEMPOTENT
    same = same and _rest(node) == _rest(inner)
    positive = operator(node) in ("relu", "abs") and operator(inner) in ALREADY_POSITIVE
    return node.arguments["self"] if same or positive else None


def undone(graph: Graph, node: Node) -> Found:
    """Simplification rule: -(-x) and not(not x) are replaced by x. Returns None for other nodes."""
    inner = producer(graph, node.arguments.get("self"))
    if inner is None or inner.operator != node.operator or node.operator not in UNDOING:
        return None
    if not keeps_type(graph, node) or not keeps_type(graph, inner):
        return None
    found: Reference = inner.arguments["self"]
    return found


def neutral(graph: Graph, node: Node) -> Found:
    """Simplification rule: x + 0, x - 0, x * 1, x / 1 and x ** 1 are replaced by x. Returns None for other
    nodes, and if the node changes the dtype."""
    name = operator(node)
    if name not in ("add", "sub", "mul", "div", "pow"):
        return None
    value = literal(node.arguments["exponent" if name == "pow" else "other"])
    unchanged = value == (0 if name in ("add", "sub") else 1)
    return node.arguments["self"] if unchanged and keeps_type(graph, node) else None


def scalings(graph: Graph, node: Node) -> Found:
    """Simplification rule: two scalings by a number, one after the other, such as (x * a) * b or (x / a) * b,
    become a single multiplication. Returns None for other nodes, and if a divisor is 0."""
    inner = producer(graph, node.arguments.get("self"))
    if inner is None or not is_scaling(node) or not is_scaling(inner):
        return None
    if inner.results[0].dtype != node.results[0].dtype or 0 in (_divisor(node), _divisor(inner)):
        return None
    arguments = {"self": inner.arguments["self"], "other": _product(_factor(inner), _factor(node))}
    return (replace(node, operator="mul.Tensor", arguments=arguments),)


def log_softmax(graph: Graph, node: Node) -> Found:
    """Simplification rule: log(softmax(x)) becomes log_softmax(x), in which small probabilities do not become
    0, and exp(log_softmax(x)) becomes softmax(x). Returns None for other nodes, and if the inner result is
    also used elsewhere."""
    pairs = {"log.default": "_softmax.default", "exp.default": "_log_softmax.default"}
    inner = sole_producer(graph, node.arguments.get("self"))
    if inner is None or pairs.get(node.operator) != inner.operator:
        return None
    other = "_log_softmax.default" if node.operator == "log.default" else "_softmax.default"
    return (replace(node, operator=other, arguments=inner.arguments),)


RULES: tuple[Rule, ...] = (repeated, undone, neutral, scalings, log_softmax)


def _rest(node: Node) -> dict[str, object]:
    return {name: value for name, value in node.arguments.items() if name != "self"}


def _divisor(node: Node) -> float | None:
    return literal(node.arguments["other"]) if operator(node) == "div" else None


def _factor(node: Node) -> Expression:
    """The number by which a node multiplies its operand; 1 / number if it divides by one."""
    other = to_kind(as_expression(node.arguments["other"]), "real")
    if operator(node) == "mul":
        return other
    value = literal(other)
    return operation("div", real(1), other) if value is None else real(1 / value)


def _product(left: Expression, right: Expression) -> Expression:
    if left == right and isinstance(left, Operation) and left.name == "sqrt":
        return left.operands[0]
    values = literal(left), literal(right)
    if values[0] is None or values[1] is None:
        return operation("mul", left, right)
    return real(values[0] * values[1])
