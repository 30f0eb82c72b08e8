"""Trees of CUDA are written as a C++ compiler reads them back."""

import pytest

from kernelblaster.policies.expert.cuda.headers import Header, in_order
from kernelblaster.policies.expert.cuda.printer import Printer
from kernelblaster.policies.expert.cuda.source import Emitted, TemplateParameter, kernel_text
from kernelblaster.policies.expert.cuda.statements import (
    BREAK,
    For,
    If,
    LambdaParameter,
    Return,
    Statement,
    assign,
    const,
    declare,
    function,
    loop,
    unrolled,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    BOOL,
    FLOAT,
    INT,
    INT64,
    Choice,
    DeviceFunction,
    Given,
    Infix,
    Local,
    Prefixed,
    Term,
    all_of,
    any_of,
    call,
    cast,
    term,
)

A, B, C = Local("a"), Local("b"), Local("c")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (A + B * C, "a + b * c"),
        ((A + B) * C, "(a + b) * c"),
        (A - (B - C), "a - (b - c)"),
        (A + (B - C), "a + b - c"),
        (Infix("+", A, Infix("+", B, C)), "a + (b + c)"),  # a sum of floats keeps its order
        (A / B * C, "a / b * c"),
        (A / (B * C), "a / (b * c)"),
        ((A * B) % C, "(a * b) % c"),
        (A / 4 % 2, "a / 4 % 2"),
        (A * 1 + 0, "a"),
        (Prefixed("-", -A), "-(-a)"),
        (Prefixed("!", A < B), "!(a < b)"),
        (A ^ (B / 2 % 4), "a ^ (b / 2 % 4)"),
        (Choice(A < B, Choice(A < C, A, C), B), "a < b ? (a < c ? a : c) : b"),
        (Choice(A < B, A, Choice(A < C, A, C)), "a < b ? a : a < c ? a : c"),
        (any_of([Infix("&&", A, B), C]), "(a && b) || c"),
        (cast(INT, A + B) / 2, "(int)(a + b) / 2"),
        (cast(FLOAT, A[B]), "(float)a[b]"),
        ((A + 1)[B].field("at"), "(a + 1)[b].at"),
        (call("min", A, term(3)), "min(a, 3)"),
    ],
)
def test_parentheses_are_where_they_are_needed(found: Term, text: str) -> None:
    assert Printer({}).term(found) == text


def test_conditions_are_joined_without_parentheses() -> None:
    both = all_of([A < B, Infix("&&", B < C, A < C)])
    assert both is not None and Printer({}).term(both) == "a < b && b < c && a < c"


def lines(*body: Statement) -> list[str]:
    return Printer({}).body(body, 0)


def test_loops_and_branches() -> None:
    assert lines(unrolled("k", 4, [assign(A[Local("k")], 0)])) == [
        "#pragma unroll",
        "for (int k = 0; k < 4; ++k) a[k] = 0;",
    ]
    assert lines(loop("i", 0, A, [declare(INT, "x", 1), BREAK], step=B, type_=INT64)) == [
        "for (int64_t i = 0; i < a; i += b) {",
        "  int x = 1;",
        "  break;",
        "}",
    ]
    assert lines(For(None, None, None, (BREAK,))) == ["for (;;) break;"]
    chain = If(A, (BREAK,), (If(B, (BREAK,), (Return(),)),))
    assert lines(chain) == [
        "if (a) {",
        "  break;",
        "} else if (b) {",
        "  break;",
        "} else {",
        "  return;",
        "}",
    ]


def test_functions_within_kernels() -> None:
    body = [when(A < 1, Return(term(0))), Return(A)]
    assert lines(function("f", (LambdaParameter(INT, "a"),), body)) == [
        "auto f = [&](int a) {",
        "  if (a < 1) return 0;",
        "  return a;",
        "};",
    ]
    assert lines(function("g", (), [Return(A)])) == ["auto g = [&]() { return a; };"]


TYPES = {"x": "float*", "row": "const float*", "n": "int64_t", "unused": "int64_t"}


def test_what_is_given_is_renamed_where_the_kernel_declares_it() -> None:
    """`row` is a tensor and a variable; `WIDTH` a template's parameter; `min` a function that is called."""
    row = const(INT, "row", call("min", term(1), Given("n")))
    types = {**TYPES, "WIDTH": "int64_t", "min": "float*"}
    stored = assign(Given("x")[Local("row")], Given("row")[Local("WIDTH")] + Given("WIDTH"))
    body = (row, stored, assign(Given("min")[term(0)], Given("x")[term(0)]))
    emitted = Emitted(body, term(1), 32, parameters=(TemplateParameter(INT, "WIDTH"),))
    found = kernel_text("k", emitted, types, {})
    assert found.given == ("x", "row", "n", "WIDTH", "min")
    assert "float* x, const float* row_given, int64_t n, int64_t WIDTH_given, float* min_given" in found.text
    assert "const int row = min(1, n);" in found.text
    assert "x[row] = row_given[WIDTH] + WIDTH_given;" in found.text
    assert "unused" not in found.text


def test_sizes_that_are_constants_in_a_variant() -> None:
    body = (assign(Given("x")[Given("n")], 0),)
    found = kernel_text("k", Emitted(body, term(1), 32), TYPES, {"n": 128})
    assert "template <bool SIZED>" in found.text and "int64_t any_n" in found.text
    assert "const int64_t n = SIZED ? 128 : any_n;" in found.text


def test_device_code_comes_after_what_it_includes() -> None:
    one, two = Header("one", ""), Header("two", "")
    first, again = Header("both", "1", (one,)), Header("both", "2", (two,))
    assert [found.name for found in in_order([first, again])] == ["one", "two", "both"]
    kernel = Emitted((const(BOOL, "done", DeviceFunction("f", again)(A)),), term(1), 32)
    assert kernel_text("k", kernel, {}, {}).needs == (again,)
