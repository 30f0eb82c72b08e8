"""Quantities of several traces are explained by the sizes of the signature."""

import math

import pytest

from kernelblaster.policies.expert.expression import Argument, real
from kernelblaster.policies.expert.index import variable
from kernelblaster.policies.expert.unify import NotUniform, Unifier
from kernelblaster.policies.expert.window_extents import WindowCount

SIZES = {"rows": (4096, 1515, 3), "columns": (8192, 2785, 5), "classes": (10, 10, 10)}


@pytest.fixture
def unifier() -> Unifier:
    return Unifier(SIZES, {"alpha": (2.0, 2.5, 3.0)})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((3, 3, 3), "3"),
        ((4096, 1515, 3), "rows"),
        ((10, 10, 10), "classes"),
        ((8192, 3030, 6), "2 * rows"),
        ((2048, 757, 1), "rows / 2"),
        ((4094, 1513, 1), "rows - 2"),
        ((4096 * 8192, 1515 * 2785, 15), "rows * columns"),
        ((4096 + 8192, 1515 + 2785, 8), "rows + columns"),
    ],
)
def test_extents(unifier: Unifier, values: tuple[int, ...], expected: str) -> None:
    assert str(unifier.whole(values)) == expected


def test_an_extent_of_known_origin_is_explained_by_it() -> None:
    """Even rows alone would leave it at rows / 2."""
    unifier = Unifier({"rows": (4096, 64, 8)}, {})
    count = WindowCount(1, 1, 2).of(variable("rows"))
    assert str(unifier.whole((2048, 32, 4), count)) == "(rows + 1) / 2"
    assert str(unifier.whole((2048, 32, 4))) == "(rows + 1) / 2"  # elsewhere too
    assert str(unifier.whole((4096, 64, 8), count)) == "rows"


def test_an_extent_without_a_reason_is_refused(unifier: Unifier) -> None:
    with pytest.raises(NotUniform, match="17, 940, 333"):
        unifier.whole((17, 940, 333))


def test_numbers(unifier: Unifier) -> None:
    assert unifier.number((0.5, 0.5, 0.5)) == real(0.5)
    assert unifier.number((2.0, 2.5, 3.0)) == Argument("alpha", "real")
    scale = unifier.number(tuple(1 / math.sqrt(rows) for rows in SIZES["rows"]))
    assert scale.name == "rsqrt"  # type: ignore[union-attr]
    with pytest.raises(NotUniform):
        unifier.number((0.3, 0.7, 0.11))
