"""Addresses say what moves with a loop, and which neighbours lie side by side at which sizes."""

import pytest

from kernelblaster.policies.expert.index import Index, add, divide, multiply, remainder, variable
from kernelblaster.policies.expert.proofs import alignment, separate

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
