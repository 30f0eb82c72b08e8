"""Symbolic whole numbers: extents in terms of a task's sizes, and positions in terms of loop variables.

Sizes are known only when the launch function runs. Therefore these expressions stay symbolic; they are
simplified while they are built. They are assumed to be non-negative, unless they contain a subtraction.
"""

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True)
class Index:
    """A symbolic whole number, a node of an expression tree. What the node is depends on `operator`:

    - "min", "+", "-", "*", "/" and "%" have two `operands`, and mean what they mean in C;
    - "int" is the number `value`;
    - "name" is the variable `name`;
    - "element" is an element of the local array `name` of the generated code, whose place in the array is
      the only operand;
    - "lookup" is a number known only at run time, which `key` identifies."""

    operator: str
    operands: tuple["Index", ...] = ()
    value: int = 0
    name: str = ""
    key: Hashable = None

    def __str__(self) -> str:
        return text(self)


LEAVES = ("int", "name", "element", "lookup")
ATOMS = (*LEAVES, "min")  # which are written without parentheses
ZERO = Index("int", value=0)
ONE = Index("int", value=1)


@cache
def number(value: int) -> Index:
    return Index("int", value=int(value))


@cache
def variable(name: str) -> Index:
    return Index("name", name=name)


def element(array: str, place: int | str) -> Index:
    """Returns the index that stands for an element of a local array of the generated code: `array` is the
    array's name, `place` the element's number or the name of a variable that holds it."""
    return Index("element", (number(place) if isinstance(place, int) else variable(place),), name=array)


def lookup(key: Hashable) -> Index:
    """Returns a symbol, for use in index expressions, that stands for a whole number known only at run time,
    such as an index that a gather reads from memory. `key` is any value that identifies the number: symbols
    with equal keys are taken to stand for the same number."""
    return Index("lookup", key=key)


def is_number(index: Index, value: int) -> bool:
    return index.operator == "int" and index.value == value


def add(left: Index, right: Index) -> Index:
    if left.operator == right.operator == "int":
        return number(left.value + right.value)
    if right.operator == "int" and right.value < 0:
        return subtract(left, number(-right.value))
    if right.operator == "%" and left == multiply(divide(*right.operands), right.operands[1]):
        return right.operands[0]
    if is_number(left, 0):
        return right
    if left.operator == "-" and left.operands[1] == right:
        return left.operands[0]
    return left if is_number(right, 0) else Index("+", (left, right))


def subtract(left: Index, right: Index) -> Index:
    if left.operator == right.operator == "int":
        return number(left.value - right.value)
    if left == right:
        return ZERO
    return left if is_number(right, 0) else Index("-", (left, right))


def multiply(left: Index, right: Index) -> Index:
    if left.operator == right.operator == "int":
        return number(left.value * right.value)
    if is_number(left, 0) or is_number(right, 0):
        return ZERO
    if is_number(left, 1):
        return right
    return left if is_number(right, 1) else Index("*", (left, right))


def divide(left: Index, right: Index) -> Index:
    """Returns the symbolic quotient left / right, rounded down and simplified where possible; both must be
    non-negative."""
    if left.operator == right.operator == "int" and left.value >= 0:
        return number(left.value // right.value)
    if is_number(right, 1) or is_number(left, 0):
        return left
    if left == right:
        return ONE
    if left.operator == "*" and right in left.operands:
        return left.operands[1 - left.operands.index(right)]
    if left.operator == "/" and left.operands[1].operator == right.operator == "int":
        return divide(left.operands[0], multiply(left.operands[1], right))
    return Index("/", (left, right))


def remainder(left: Index, right: Index) -> Index:
    if left.operator == right.operator == "int" and left.value >= 0:
        return number(left.value % right.value)
    if is_number(right, 1) or left == right or (left.operator == "*" and right in left.operands):
        return ZERO
    return Index("%", (left, right))


def least(left: Index, right: Index) -> Index:
    if left.operator == right.operator == "int":
        return number(min(left.value, right.value))
    return left if left == right else Index("min", (left, right))


def tiles(extent: Index, size: int) -> Index:
    """Returns how many tiles of `size` elements cover `extent` elements (the quotient rounded up), as a
    symbolic index."""
    return divide(add(extent, number(size - 1)), number(size))


def round_up(extent: Index, size: int) -> Index:
    """Returns the least multiple of `size` that is not below `extent`, as a symbolic index."""
    return multiply(tiles(extent, size), number(size))


BUILD = {"min": least, "+": add, "-": subtract, "*": multiply, "/": divide, "%": remainder}


def product(factors: Iterable[Index]) -> Index:
    result = ONE
    for factor in factors:
        result = multiply(result, factor)
    return result


def row_major(position: Iterable[Index], shape: Iterable[Index]) -> Index:
    """Returns the offset, in elements, of the element at `position` in a contiguous tensor of this `shape`,
    as a symbolic index."""
    result = ZERO
    for index, extent in zip(position, shape, strict=True):
        result = add(multiply(result, extent), index)
    return result


def replace(index: Index, values: Mapping[str, Index]) -> Index:
    """Returns the symbolic `index` with some variables replaced: `values` maps the name of a variable to the
    index that takes its place. Other variables stay."""
    if index.operator == "name":
        return values.get(index.name, index)
    if index.operator in LEAVES:
        return index
    left, right = (replace(operand, values) for operand in index.operands)
    return BUILD[index.operator](left, right)


def evaluate(index: Index, values: Mapping[str, int]) -> int:
    """Returns the value of the symbolic `index` if its variables have these `values`, computed as in C:
    quotients are rounded towards zero. Raises KeyError if a variable has no value."""
    if index.operator == "int":
        return index.value
    if index.operator in LEAVES:
        if index.name not in values:
            raise KeyError(f"{index}: not every variable has a value")
        return values[index.name]
    left, right = (evaluate(operand, values) for operand in index.operands)
    return ARITHMETIC[index.operator](left, right)


def _quotient_in_c(left: int, right: int) -> int:
    return left // right if left >= 0 else -(-left // right)


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "min": min,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient_in_c,
    "%": lambda left, right: left - right * _quotient_in_c(left, right),
}


LOOKED_UP = "?"  # among names: no variable has this one


def names(index: Index) -> set[str]:
    """Returns the names of the variables (and local arrays) in the symbolic `index`. "?" (LOOKED_UP), a name
    that no variable has, stands for numbers that are known only at run time."""
    if index.operator in ("name", "element"):
        return {index.name}
    if index.operator == "lookup":
        return {LOOKED_UP}
    return set().union(*(names(operand) for operand in index.operands))


def text(index: Index, lookup: Callable[[Any], str] | None = None) -> str:
    """Returns the symbolic `index` as C code, with parentheses only where they are needed. `lookup` returns
    the code for a number that is known only at run time, from its key; if it is None, such a number is
    written as "?" (LOOKED_UP)."""
    if index.operator in LEAVES:
        return _leaf_text(index, lookup)
    left, right = index.operands
    weak = ("+", "-")
    first, second = text(left, lookup), text(right, lookup)
    if index.operator == "min":
        first, second = (f"(int64_t){part}" if part.isdigit() else part for part in (first, second))
        return f"min({first}, {second})"
    if index.operator in weak:
        return f"{first} {index.operator} " + (f"({second})" if right.operator in weak else second)
    plain = index.operator == "*" and left.operator == "*"
    if left.operator not in ATOMS and not plain:
        first = f"({first})"
    if right.operator not in ATOMS:
        second = f"({second})"
    return f"{first} {index.operator} {second}"


def _leaf_text(index: Index, lookup: Callable[[Any], str] | None) -> str:
    if index.operator == "int":
        return str(index.value)
    if index.operator == "lookup":
        return f"({lookup(index.key)})" if lookup else LOOKED_UP
    return index.name if index.operator == "name" else f"{index.name}[{text(index.operands[0])}]"
