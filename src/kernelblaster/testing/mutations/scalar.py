"""Mutations: constants and scalar arguments that are slightly or grossly wrong, and signs that are
flipped."""

from collections.abc import Iterator

from tree_sitter import Node

from kernelblaster.tasks.cuda_source import operator, sides, text
from kernelblaster.testing.mutations.tree import Code, Mutation, insert, replace, short

SMALL = 1e-3  # constants below are taken for an epsilon


def edits(code: Code) -> Iterator[Mutation]:
    """Yields every way to break the kernel by one wrong constant, sign or scalar argument. `code` is the
    parsed CUDA source."""
    yield from _constants(code)
    yield from _signs(code)
    yield from _defaults(code)


def _constants(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each change one floating literal by 1 % or 0.1 %; a small one (an epsilon) is
    also dropped or made ten times larger. `code` is the parsed CUDA source."""
    for node in code.nodes:
        value = _value(node)
        if value is None or value == 0 or node.type != "number_literal":
            continue
        suffix = "f" if text(node).endswith("f") else ""
        factors = (("dropped", 0.0), ("ten times larger", 10.0)) if abs(value) < SMALL else ()
        for what, factor in (*factors, ("1 % larger", 1.01), ("0.1 % smaller", 0.999)):
            yield replace(node, f"{value * factor!r}{suffix}", f"{text(node)} {what}")


def _signs(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each turn one floating-point addition into a subtraction, or the reverse. `code`
    is the parsed CUDA source."""
    for node in code.device("binary_expression"):
        sign, pair = operator(node), sides(node)
        if sign in ("+", "-") and pair is not None and any(map(code.is_floating, pair)):
            other = "-" if sign == "+" else "+"
            yield replace(node, f"{text(pair[0])} {other} {text(pair[1])}", f"{short(node)}: sign flipped")


def _defaults(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each ignore one scalar argument: the launch function always uses the value in the
    task's file. `code` is the parsed CUDA source."""
    entry = code.entry()
    if entry is not None:
        for name, value in code.scalars.items():
            number = str(value).lower() if isinstance(value, bool) else repr(value)
            yield insert(entry, f" {name} = {number};", f"argument {name} ignored: always {number}")


def _value(node: Node) -> float | None:
    """The value of a floating-point literal, given as a node of the syntax tree; None for any other node."""
    digits = text(node).rstrip("fF")
    if digits.startswith("0x") or not any(mark in text(node) for mark in ".eEf"):
        return None
    try:
        return float(digits)
    except ValueError:
        return None
