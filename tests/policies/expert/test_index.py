"""Whole-number expressions simplify as they are built, and mean what they say."""

from hypothesis import given
from hypothesis import strategies as some

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert import proofs
from kernelblaster.policies.expert.index import Index, number, variable

NAMES = ("a", "b", "c")
LEAVES = some.one_of(some.integers(0, 9).map(number), some.sampled_from(NAMES).map(variable))
MEANING = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
}


@some.composite
def trees(draw: some.DrawFn, depth: int = 3) -> tuple[Index, object]:
    """An expression built by the simplifying functions, and a function that knows its value."""
    if depth == 0 or draw(some.booleans()):
        leaf = draw(LEAVES)
        return leaf, lambda values: values[leaf.name] if leaf.operator == "name" else leaf.value
    operator = draw(some.sampled_from(sorted(MEANING)))
    left, first = draw(trees(depth - 1))
    right, second = draw(trees(depth - 1))
    if operator in "/%":
        right, second = indices.add(right, number(1)), (lambda values, f=second: f(values) + 1)  # type: ignore[misc]
    meaning = MEANING[operator]
    built = indices.BUILD[operator](left, right)
    return built, lambda values: meaning(first(values), second(values))  # type: ignore[operator]


@given(trees(), some.tuples(*(some.integers(0, 12) for _ in NAMES)))
def test_simplifying_keeps_the_value(tree: tuple[Index, object], chosen: tuple[int, ...]) -> None:
    values = dict(zip(NAMES, chosen, strict=True))
    index, meaning = tree
    try:
        expected = meaning(values)  # type: ignore[operator]
    except ZeroDivisionError:
        return
    assert indices.evaluate(index, values) == expected
    text = indices.text(index).replace("/", "//").replace("(int64_t)", "")
    assert eval(text, {"min": min, **values}) == expected


def test_row_major_leaves_out_what_is_one_or_zero() -> None:
    position = (variable("i"), number(0), variable("j"))
    shape = (variable("rows"), number(1), variable("columns"))
    assert str(indices.row_major(position, shape)) == "i * columns + j"


@given(trees(), some.tuples(*(some.integers(1, 6) for _ in NAMES)), some.data())
def test_what_loops_run_over_simplifies_and_keeps_the_value(
    tree: tuple[Index, object], chosen: tuple[int, ...], data: some.DataObject
) -> None:
    extents = {name: number(extent) for name, extent in zip(NAMES, chosen, strict=True)}
    values = {name: data.draw(some.integers(0, extent.value - 1)) for name, extent in extents.items()}
    index, meaning = tree
    try:
        expected = meaning(values)  # type: ignore[operator]
    except ZeroDivisionError:
        return
    assert indices.evaluate(proofs.within(index, extents, lambda a, b: a == b), values) == expected


def test_digits_of_a_number_are_found_again() -> None:
    i, j, k = (variable(name) for name in "ijk")
    rows, columns = variable("rows"), variable("columns")
    extents = {"i": number(7), "j": rows, "k": columns}
    whole = indices.row_major((i, j, k), (number(7), rows, columns))

    def simple(index: Index) -> str:
        return str(proofs.within(index, extents, lambda a, b: a == b))

    assert simple(indices.remainder(whole, columns)) == "k"
    assert simple(indices.divide(whole, columns)) == "i * rows + j"
    assert simple(indices.divide(indices.divide(whole, columns), rows)) == "i"
    assert str(proofs.bound(whole, extents)) == "rows * columns * 7"


def test_quotient_and_remainder_are_put_together_again() -> None:
    i, columns = variable("i"), variable("columns")
    halves = (indices.divide(i, columns), indices.remainder(i, columns))
    assert indices.row_major(halves, (variable("rows"), columns)) == i


def test_values_are_those_of_c_where_they_are_negative() -> None:
    halved, rest = (
        make(indices.subtract(variable("a"), number(4)), number(2))
        for make in (indices.divide, indices.remainder)
    )
    assert [indices.evaluate(halved, {"a": a}) for a in (1, 2, 4, 7)] == [-1, -1, 0, 1]
    assert [indices.evaluate(rest, {"a": a}) for a in (1, 2, 4, 7)] == [-1, 0, 0, 1]


def test_the_least_of_a_number_and_an_index_has_one_type() -> None:
    """CUDA has no `min` of an int and an int64_t."""
    assert str(indices.least(number(17), variable("a"))) == "min((int64_t)17, a)"
