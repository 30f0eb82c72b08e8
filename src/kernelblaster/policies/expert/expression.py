"""Expressions: what a kernel computes for one element, as a tree of loads, numbers and operations.

Each node has a `kind`, the arithmetic in which it is computed: "real" (float, or double for float64 tasks),
"whole" (int64_t) or "truth" (bool).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.index import Index

Kind = Literal["real", "whole", "truth"]


@dataclass(frozen=True)
class Load:
    """An expression: reads one element of `buffer`, the name of a tensor or of scratch memory. `position` has
    an index for each dimension, `kind` is the arithmetic ("real", "whole", "truth") that uses it."""

    buffer: str
    position: tuple[Index, ...]
    kind: Kind


@dataclass(frozen=True)
class Number:
    """An expression: a number or truth value (`value`) that is known when the kernel is generated. `kind` is
    its arithmetic: "real", "whole" or "truth"."""

    value: float | int | bool
    kind: Kind


@dataclass(frozen=True)
class Counted:
    """An expression: the value of the symbolic `index`, a whole number made of sizes and loop variables, used
    as a number to compute with. `kind` is its arithmetic, always "whole" (int64_t)."""

    index: Index
    kind: Kind = "whole"


@dataclass(frozen=True)
class Argument:
    """An expression: a number that the launch function receives by value. `name` is its name in the task's
    signature, `kind` its arithmetic ("real", "whole" or "truth")."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Reduced:
    """An expression: the result of an earlier reduction or scan of the same kernel; `stage` is its name,
    `kind` the arithmetic of the result ("real", "whole" or "truth")."""

    stage: str
    kind: Kind


@dataclass(frozen=True)
class Gather:
    """An expression that reads one element of `buffer` at an index that is itself computed, as in the look-up
    of an embedding. Along dimension `axis`, the index is the value of the expression `where`. Along the other
    dimensions, it is given by the entries of `position`, whose entry for `axis` is not used. `kind` is the
    arithmetic ("real", "whole", "truth") that uses the element."""

    buffer: str
    position: tuple[Index, ...]
    axis: int
    where: "Expression"
    kind: Kind


@dataclass(frozen=True)
class Operation:
    """An expression: the arithmetic or logical operation `name` (such as "add", "exp", "where") on
    `operands`, computed in the arithmetic `kind` ("real", "whole" or "truth"); emission/values.py says how
    each is written in C++."""

    name: str
    operands: tuple["Expression", ...]
    kind: Kind


Expression = Load | Number | Counted | Argument | Reduced | Gather | Operation


def real(value: float) -> Number:
    return Number(float(value), "real")


def operation(name: str, *operands: Expression, kind: Kind = "real") -> Expression:
    """Returns the expression of the operation `name` on `operands`, computed in arithmetic of `kind`. If it
    would change nothing (x * 1, x / 1, a and true, a or false), the operand is returned instead."""
    if len(operands) == 2:
        left, right = operands
        if name in ("mul", "div") and right == Number(1.0, "real") and left.kind == kind:
            return left
        if name == "mul" and left == Number(1.0, "real") and right.kind == kind:
            return right
        if name in ("and", "or") and right == Number(name == "and", "truth"):
            return left
        if name in ("and", "or") and left == Number(name == "and", "truth"):
            return right
    return Operation(name, operands, kind)


def to_kind(expression: Expression, kind: Kind) -> Expression:
    """Returns `expression` converted to the arithmetic `kind`: "real" (floating point), "whole" (int64_t) or
    "truth" (bool). Unchanged if it has that kind already."""
    if expression.kind == kind:
        return expression
    if isinstance(expression, Number):
        value = {"real": float, "whole": int, "truth": bool}[kind](expression.value)
        return Number(value, kind)
    return Operation(f"to_{kind}", (expression,), kind)


def children(expression: Expression) -> tuple[Expression, ...]:
    if isinstance(expression, Operation):
        return expression.operands
    return (expression.where,) if isinstance(expression, Gather) else ()


def walk(expression: Expression) -> list[Expression]:
    """Returns a list of the expression and all its subexpressions, in preorder: each comes before its
    operands, which come from left to right."""
    found: list[Expression] = []
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        found.append(part)
        if type(part) is Operation:
            waiting.extend(reversed(part.operands))
        elif type(part) is Gather:
            waiting.append(part.where)
    return found


def loads(expression: Expression) -> list[Load | Gather]:
    return [part for part in walk(expression) if type(part) in (Load, Gather)]  # type: ignore[misc]


def rebuild(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Returns the expression with each node of its tree replaced by what the function `change` returns for
    that node. Operands are replaced before the nodes that contain them."""
    if isinstance(expression, Operation):
        parts = tuple(rebuild(operand, change) for operand in expression.operands)
        return change(replace(expression, operands=parts))
    if isinstance(expression, Gather):
        return change(replace(expression, where=rebuild(expression.where, change)))
    return change(expression)


def substituted(expression: Expression, values: Mapping[Expression, Expression]) -> Expression:
    """Returns the expression with parts replaced: `values` maps a part to the expression that takes its
    place. Parts within a part that is replaced are left alone."""
    if expression in values:
        return values[expression]
    if isinstance(expression, Operation):
        return replace(expression, operands=tuple(substituted(part, values) for part in expression.operands))
    return expression


def move(expression: Expression, values: Mapping[str, Index]) -> Expression:
    """Returns the expression with loop variables replaced in all its indices: `values` maps the name of a
    variable to the index that takes its place."""

    def change(part: Expression) -> Expression:
        if isinstance(part, Load | Gather):
            return replace(part, position=tuple(indices.replace(i, values) for i in part.position))
        if isinstance(part, Counted):
            return replace(part, index=indices.replace(part.index, values))
        return part

    return rebuild(expression, change)


def address(load: Load | Gather, shape: tuple[Index, ...]) -> Index:
    """Returns the row-major offset, in elements, of the element that `load` reads from a buffer of this
    `shape`, as a symbolic index. For a gather, the computed index appears in the offset as an opaque symbol,
    which stands for a number that is known only at run time."""
    position = list(load.position)
    if isinstance(load, Gather):
        position[load.axis] = indices.lookup(load.where)
    return indices.row_major(position, shape)


def used_names(expressions: Iterable[Expression], positions: Iterable[Index]) -> set[str]:
    """Returns the names of the sizes, loop variables and launch arguments that occur in `expressions` or in
    the symbolic indices `positions`."""
    found: set[str] = set()
    for expression in expressions:
        for part in walk(expression):
            if isinstance(part, Argument):
                found.add(part.name)
            elif isinstance(part, Counted):
                found |= indices.names(part.index)
            elif isinstance(part, Load | Gather):
                found |= set().union(*(indices.names(i) for i in part.position))
    return found.union(*(indices.names(i) for i in positions))
