"""Addresses say what moves with a loop, and which neighbours lie side by side at which sizes."""

import pytest

from kernelblaster.policies.expert.index import (
    Index,
    add,
    divide,
    multiply,
    number,
    remainder,
    subtract,
    variable,
)
from kernelblaster.policies.expert.polynomial import polynomial
from kernelblaster.policies.expert.proofs import alignment, bound, equal, is_increasing, separate, within

LINE, K, ROWS, DEPTH, HEAD = (variable(name) for name in ("i", "k", "rows", "depth", "head"))
SIZES = ("rows", "depth", "head")
HEADS = add(multiply(add(multiply(divide(K, HEAD), ROWS), LINE), HEAD), remainder(K, HEAD))


def test_what_moves_is_told_from_what_stays() -> None:
    fixed, moving = separate(add(multiply(add(multiply(LINE, DEPTH), K), ROWS), LINE), "k")
    assert (str(fixed), str(moving)) == ("i * depth * rows + i", "k * rows")


@pytest.mark.parametrize(
    ("address", "along", "needed"),
    [
        (add(multiply(LINE, DEPTH), K), "k", ["depth"]),
        (add(multiply(LINE, DEPTH), K), "i", None),
        (add(multiply(K, ROWS), LINE), "i", ["rows"]),
        (add(add(multiply(LINE, DEPTH), K), HEAD), "k", ["depth", "head"]),
        (add(add(multiply(LINE, DEPTH), K), LINE), "k", None),
        (multiply(K, variable("depth")), "k", None),
        (HEADS, "k", ["head", "rows * head"]),
    ],
)
def test_neighbours_are_side_by_side(address: Index, along: str, needed: list[str] | None) -> None:
    found = alignment(address, along, SIZES)
    assert (None if found is None else [str(index) for index in found]) == needed


def test_order_and_nesting_make_no_difference() -> None:
    nested = multiply(add(multiply(LINE, DEPTH), K), ROWS)
    written_out = add(multiply(ROWS, K), multiply(multiply(DEPTH, ROWS), LINE))
    assert equal(nested, written_out) and not equal(nested, add(written_out, number(1)))
    assert equal(divide(add(LINE, K), ROWS), divide(add(K, LINE), ROWS))
    assert not equal(divide(LINE, ROWS), divide(ROWS, LINE))
    assert equal(subtract(nested, written_out), number(0))


def test_common_factors_are_taken_out() -> None:
    address = add(multiply(add(multiply(add(multiply(LINE, ROWS), K), DEPTH), LINE), HEAD), K)
    assert str(polynomial(address).index()) == "((i * rows + k) * depth + i) * head + k"
    assert str(polynomial(subtract(multiply(LINE, ROWS), K)).index()) == "i * rows - k"


def test_bounds_are_where_all_loops_end() -> None:
    extents = {"i": ROWS, "k": DEPTH}
    assert str(bound(add(multiply(LINE, DEPTH), K), extents)) == "rows * depth"
    assert str(bound(add(multiply(LINE, number(2)), K), extents)) == "rows * 2 - 2 + depth"
    assert str(bound(divide(add(multiply(LINE, DEPTH), K), DEPTH), extents)) == "rows"
    assert str(bound(remainder(K, HEAD), extents)) == "head"
    assert str(bound(subtract(LINE, K), extents)) == "rows"
    assert bound(subtract(LINE, remainder(K, HEAD)), extents) is None


def test_a_quotient_of_what_may_be_negative_stays() -> None:
    """C rounds towards zero."""
    moved = subtract(LINE, number(4))
    assert (
        within(divide(multiply(moved, DEPTH), DEPTH), {"i": ROWS}, equal)
        == multiply(moved, DEPTH).operands[0]
    )
    below = add(multiply(moved, DEPTH), K)
    assert (
        str(within(divide(below, DEPTH), {"i": ROWS, "k": DEPTH}, equal)) == "((i - 4) * depth + k) / depth"
    )
    assert is_increasing(add(multiply(LINE, DEPTH), K)) and not is_increasing(moved)
