"""Turns operators that compute each element of the result on its own, such as arithmetic, comparisons and
activations, into kernels (lowers them)."""

import math
from collections.abc import Callable
from typing import Any

from kernelblaster.policies.expert.builder import Builder, Position, kind_of, lowers
from kernelblaster.policies.expert.expression import Expression, Kind, operation, real, to_kind
from kernelblaster.policies.expert.graph import Node, UncoveredOperators, as_expression

Body = Callable[..., Expression]


def _map(builder: Builder, node: Node, operands: list[Any], body: Body, kind: Kind | None = None) -> None:
    """Adds a pointwise kernel for `node`: it stores `body` of the elements of `operands`, which are broadcast
    to the result's shape and converted to `kind` (by default that of the result)."""
    found = node.results[0]
    wanted = kind or kind_of(found.dtype)
    values = [builder.value(operand) for operand in operands]

    def make(position: Position) -> Expression:
        parts = [to_kind(builder.spread(v, found.shape, position), wanted) for v in values]
        return to_kind(body(*parts), kind_of(found.dtype))

    builder.pointwise(node, make)


def op(name: str) -> Body:
    return lambda *parts: operation(name, *parts, kind=parts[-1].kind)


def sigmoid(x: Expression) -> Expression:
    return operation("div", real(1), operation("add", real(1), operation("exp", operation("neg", x))))


def softplus(x: Expression) -> Expression:
    tail = operation("log1p", operation("exp", operation("neg", operation("abs", x))))
    return operation("add", operation("max", x, real(0)), tail)


def clip(x: Expression, low: float, high: float) -> Expression:
    return operation("min", operation("max", x, real(low)), real(high))


def gelu(x: Expression) -> Expression:
    inner = operation("add", real(1), operation("erf", operation("mul", x, real(math.sqrt(0.5)))))
    return operation("mul", operation("mul", real(0.5), x), inner)


def gelu_tanh(x: Expression) -> Expression:
    cube = operation("mul", operation("mul", x, x), x)
    inner = operation("add", x, operation("mul", real(0.044715), cube))
    waved = operation("tanh", operation("mul", real(math.sqrt(2 / math.pi)), inner))
    return operation("mul", operation("mul", real(0.5), x), operation("add", real(1), waved))


def relu(x: Expression) -> Expression:
    return operation("max", x, to_kind(real(0), x.kind), kind=x.kind)


UNARY: dict[str, Body] = {
    **{name: op(name) for name in ("neg", "abs", "sqrt", "rsqrt", "exp", "expm1", "log", "log1p", "log2")},
    **{name: op(name) for name in ("erf", "erfc", "tanh", "sin", "cos", "floor", "ceil", "trunc", "round")},
    **{name: op(name) for name in ("tan", "acos", "asin", "atan", "sinh", "cosh", "acosh", "asinh", "atanh")},
    "log10": op("log10"),
    "relu": relu,
    "sigmoid": sigmoid,
    "silu": lambda x: operation("mul", x, sigmoid(x)),
    "mish": lambda x: operation("mul", x, operation("tanh", softplus(x))),
    "reciprocal": lambda x: operation("div", real(1), x),
    "hardsigmoid": lambda x: operation("div", clip(operation("add", x, real(3)), 0, 6), real(6)),
    "hardswish": lambda x: operation(
        "div", operation("mul", x, clip(operation("add", x, real(3)), 0, 6)), real(6)
    ),
    "sign": lambda x: operation(
        "where",
        operation("gt", x, real(0), kind="truth"),
        real(1),
        operation("where", operation("lt", x, real(0), kind="truth"), real(-1), real(0)),
    ),
}
ROUNDED = ("floor", "ceil", "trunc", "round")  # which leave whole numbers as they are
BINARY = {"mul": "mul", "div": "div", "maximum": "max", "minimum": "min", "fmod": "fmod", "atan2": "atan2"}
BITS = {"bitwise_and": "bit_and", "bitwise_or": "bit_or", "bitwise_xor": "bit_xor"}
BITS |= {"__lshift__": "shift_left", "__rshift__": "shift_right"}
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


@lowers(*(f"{name}.default" for name in UNARY))
def unary(builder: Builder, node: Node) -> None:
    name = node.operator.removesuffix(".default")
    is_whole = name in ROUNDED and kind_of(node.results[0].dtype) == "whole"
    _map(builder, node, [node.arguments["self"]], (lambda x: x) if is_whole else UNARY[name])


@lowers("gelu.default")
def lower_gelu(builder: Builder, node: Node) -> None:
    body = gelu_tanh if node.arguments["approximate"] == "tanh" else gelu
    _map(builder, node, [node.arguments["self"]], body)


@lowers("_to_copy.default")
def convert(builder: Builder, node: Node) -> None:
    """Adds a kernel to `builder` that converts a tensor to another dtype. The graph contains no copies that
    keep the dtype."""
    _map(builder, node, [node.arguments["self"]], lambda x: x)


@lowers("add.Tensor", "sub.Tensor", "add.Scalar", "sub.Scalar")
def add(builder: Builder, node: Node) -> None:
    alpha = as_expression(node.arguments["alpha"])
    name = node.operator.split(".")[0]

    def body(left: Expression, right: Expression) -> Expression:
        factor = to_kind(alpha, right.kind)
        plain = factor == to_kind(real(1), right.kind)
        scaled = right if plain else operation("mul", factor, right, kind=right.kind)
        return operation(name, left, scaled, kind=left.kind)

    _map(builder, node, [node.arguments["self"], node.arguments["other"]], body)


@lowers(*(f"{name}.{o}" for name in BINARY for o in ("Tensor", "Scalar", "default")))
def binary(builder: Builder, node: Node) -> None:
    body = op(BINARY[node.operator.split(".")[0]])
    _map(builder, node, [node.arguments["self"], node.arguments["other"]], body)


@lowers(*(f"{name}.{o}" for name in COMPARE for o in ("Tensor", "Scalar")))
def compare(builder: Builder, node: Node) -> None:
    name = node.operator.split(".")[0]
    operands = [node.arguments["self"], node.arguments["other"]]
    kinds = {kind_of(builder.value(operand).dtype) for operand in operands}
    wanted: Kind = "real" if "real" in kinds else "whole"
    _map(builder, node, operands, lambda a, b: operation(name, a, b, kind="truth"), wanted)


@lowers("remainder.Tensor", "remainder.Scalar")
def remainder(builder: Builder, node: Node) -> None:
    _map(builder, node, [node.arguments["self"], node.arguments["other"]], _modulo)


@lowers("div.Tensor_mode", "div.Scalar_mode")
def divide_and_round(builder: Builder, node: Node) -> None:
    """Adds a kernel to `builder` that divides and rounds the quotient toward zero or down, as the argument
    `rounding_mode` says, or not at all."""
    mode = node.arguments["rounding_mode"]
    operands = [node.arguments["self"], node.arguments["other"]]
    bodies: dict[str | None, Body] = {
        None: op("div"),
        "trunc": _truncated_quotient,
        "floor": _floored_quotient,
    }
    _map(builder, node, operands, bodies[mode])


def _differs_in_sign(a: Expression, b: Expression) -> Expression:
    zero = to_kind(real(0), a.kind)
    below = [operation("lt", one, zero, kind="truth") for one in (a, b)]
    return operation("ne", *(to_kind(one, "whole") for one in below), kind="truth")


def _wraps(rest: Expression, divisor: Expression) -> Expression:
    """Whether `rest`, the remainder of a division toward zero, has another sign than the divisor: rounding
    down then gives one less, and a remainder that is larger by the divisor."""
    left = operation("ne", rest, to_kind(real(0), rest.kind), kind="truth")
    return operation("and", left, _differs_in_sign(rest, divisor), kind="truth")


def _modulo(a: Expression, b: Expression) -> Expression:
    """The remainder of a division rounded down, which has the sign of the divisor, as in Python."""
    rest = operation("fmod", a, b, kind=a.kind)
    return operation("where", _wraps(rest, b), operation("add", rest, b, kind=a.kind), rest, kind=a.kind)


def _truncated_quotient(a: Expression, b: Expression) -> Expression:
    quotient = operation("div", a, b, kind=a.kind)
    return quotient if a.kind == "whole" else operation("trunc", quotient)


def _floored_quotient(a: Expression, b: Expression) -> Expression:
    """The quotient rounded down. Of floating-point numbers, the remainder is subtracted first, because a
    quotient that is rounded up to a whole number would not be rounded down any more."""
    rest = operation("fmod", a, b, kind=a.kind)
    exact = a if a.kind == "whole" else operation("sub", a, rest)
    quotient = operation("div", exact, b, kind=a.kind)
    less = operation("sub", quotient, to_kind(real(1), a.kind), kind=a.kind)
    found = operation("where", _wraps(rest, b), less, quotient, kind=a.kind)
    if a.kind == "whole":
        return found
    divides = operation("ne", b, real(0), kind="truth")
    return operation("where", divides, operation("round", found), operation("div", a, b))


@lowers("logical_and.default", "logical_or.default", "logical_xor.default")
def logical(builder: Builder, node: Node) -> None:
    name = node.operator.removeprefix("logical_").removesuffix(".default")
    _logical(builder, node, name)


@lowers(*(f"{name}.{o}" for name in BITS for o in ("Tensor", "Scalar")))
def bitwise(builder: Builder, node: Node) -> None:
    name = node.operator.split(".")[0]
    if node.results[0].dtype == "bool":
        _logical(builder, node, name.removeprefix("bitwise_"))
    else:
        _map(builder, node, [node.arguments["self"], node.arguments["other"]], op(BITS[name]), "whole")


def _logical(builder: Builder, node: Node, name: str) -> None:
    """Adds a kernel for the operation `name` ("and", "or" or "xor") on two tensors that are taken as true
    where they are not zero."""
    operands = [node.arguments["self"], node.arguments["other"]]

    def body(a: Expression, b: Expression) -> Expression:
        if name == "xor":
            return operation("ne", to_kind(a, "whole"), to_kind(b, "whole"), kind="truth")
        return operation(name, a, b, kind="truth")

    _map(builder, node, operands, body, "truth")


@lowers("logical_not.default", "bitwise_not.default")
def negate(builder: Builder, node: Node) -> None:
    if node.operator.startswith("bitwise") and node.results[0].dtype != "bool":
        raise UncoveredOperators((f"{node.operator} of whole numbers",))
    _map(builder, node, [node.arguments["self"]], lambda a: operation("not", a, kind="truth"), "truth")


@lowers("isnan.default", "isinf.default")
def classify(builder: Builder, node: Node) -> None:
    name = node.operator.removesuffix(".default")
    _map(builder, node, [node.arguments["self"]], lambda a: operation(name, a, kind="truth"), "real")


@lowers("where.self")
def where(builder: Builder, node: Node) -> None:
    found = node.results[0]
    condition, yes, no = (builder.value(node.arguments[name]) for name in ("condition", "self", "other"))
    kind = kind_of(found.dtype)

    def make(position: Position) -> Expression:
        chosen = [to_kind(builder.spread(v, found.shape, position), kind) for v in (yes, no)]
        test = to_kind(builder.spread(condition, found.shape, position), "truth")
        return operation("where", test, *chosen, kind=kind)

    builder.pointwise(node, make)


@lowers("clamp.default", "clamp.Tensor", "hardtanh.default")
def clamp(builder: Builder, node: Node) -> None:
    names = ("min_val", "max_val") if node.operator.startswith("hardtanh") else ("min", "max")
    limits = [node.arguments[name] for name in names]
    given = [limit for limit in limits if limit is not None]

    def body(x: Expression, *bounds: Expression) -> Expression:
        rest = iter(bounds)
        for name, limit in zip(("max", "min"), limits, strict=True):
            if limit is not None:
                x = operation(name, x, next(rest), kind=x.kind)
        return x

    _map(builder, node, [node.arguments["self"], *given], body)


@lowers("leaky_relu.default")
def leaky_relu(builder: Builder, node: Node) -> None:
    def body(x: Expression, slope: Expression) -> Expression:
        return operation("where", operation("gt", x, real(0), kind="truth"), x, operation("mul", x, slope))

    _map(builder, node, [node.arguments["self"], node.arguments["negative_slope"]], body)


@lowers("elu.default")
def elu(builder: Builder, node: Node) -> None:
    def body(x: Expression, alpha: Expression, scale: Expression, inner: Expression) -> Expression:
        low = operation("mul", alpha, operation("expm1", operation("mul", x, inner)))
        chosen = operation("where", operation("gt", x, real(0), kind="truth"), x, low)
        return operation("mul", scale, chosen)

    names = ("self", "alpha", "scale", "input_scale")
    _map(builder, node, [node.arguments[name] for name in names], body)


@lowers("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(builder: Builder, node: Node) -> None:
    exponent = node.arguments["exponent"]
    literal = to_kind(as_expression(exponent), "real") if node.operator == "pow.Tensor_Scalar" else None
    squared = literal == real(2)

    def body(x: Expression, by: Expression) -> Expression:
        return operation("mul", x, x, kind=x.kind) if squared else operation("pow", x, by)

    _map(builder, node, [node.arguments["self"], exponent], body)
