import pytest

from kernelblaster.policies.llm.edits import Refusal, SourceEdit, apply_edits, changed

SOURCE = "int a = 1;\nint b = 2;\nint c = 1;\n"


def edit(search: str, replace: str) -> SourceEdit:
    return SourceEdit(search=search, replace=replace)


def test_blocks_are_replaced_in_order_to_the_letter() -> None:
    found = apply_edits(SOURCE, [edit("int b = 2;", "int b = 3;"), edit("b = 3", "b = 4")])
    assert found == "int a = 1;\nint b = 4;\nint c = 1;\n"


@pytest.mark.parametrize(
    ("search", "why"),
    [
        ("= 1;", "occurs 2 times"),
        ("int  b = 2;", "other spaces or line breaks"),
        ("int d", "does not occur"),
        ("", "`search` is empty"),
    ],
)
def test_what_does_not_fit_exactly_once_is_refused_with_the_reason(search: str, why: str) -> None:
    with pytest.raises(Refusal, match=f"edit 2: .*{why}"):
        apply_edits(SOURCE, [edit("int b = 2;", "int  b =  2;\nint b = 2;"), edit(search, "x")])


@pytest.mark.parametrize(
    ("whole", "edits", "shown", "why"),
    [
        ("", [], True, "either"),
        ("int a;", [edit("int b = 2;", "")], True, "not both"),
        ("int a;", [], False, "not shown"),
        (SOURCE + "\n", [], True, "the same as before"),
        ("", [edit("int b", "int b")], True, "the same as before"),
    ],
)
def test_an_answer_that_is_no_change_is_refused(
    whole: str, edits: list[SourceEdit], shown: bool, why: str
) -> None:
    with pytest.raises(Refusal, match=why):
        changed(SOURCE, whole, edits, all_shown=shown)


def test_a_whole_file_takes_the_place_of_the_old_one() -> None:
    assert changed(SOURCE, "int z;", [], all_shown=True) == "int z;\n"
