"""Syntax colours: every token keeps its text, and a reader sees what is what."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelblaster.report.colours import Language, highlight, tokens
from kernelblaster.report.source_diff import MOST_LINES, difference

CUDA = """#include <cuda_runtime.h>
/* two
lines */ __global__ void f(const float4* x, int64_t n) {
  asm("mov \\"%0\\";" : "=f"(x)); // why
  for (int i = threadIdx.x; i < 0x1Fu; i += 1'000) g<<<1, 2>>>(1.5e-3f);
}
"""
PYTHON = '''@torch.no_grad()
def forward(self, x):
    """Two
    lines with # no comment"""
    return f"{x}" + 'a' * 0x10  # why
'''


def classes(text: str, language: Language) -> dict[str, str]:
    return {part: kind for kind, part in tokens(text, language) if kind}


def test_cuda() -> None:
    found = classes(CUDA, "cuda")
    assert found["/* two\nlines */"] == found["// why"] == "c"
    assert found['"mov \\"%0\\";"'] == "s" and found["#include"] == "d"
    assert found["__global__"] == found["threadIdx"] == "b"
    assert found["float4"] == found["int64_t"] == found["int"] == "t" and found["const"] == "k"
    assert found["0x1Fu"] == found["1'000"] == found["1.5e-3f"] == "n"
    assert found["g"] == found["f"] == "f" and "x" not in found


def test_python() -> None:
    found = classes(PYTHON, "python")
    assert found['"""Two\n    lines with # no comment"""'] == found['f"{x}"'] == found["'a'"] == "s"
    assert found["# why"] == "c" and found["@torch.no_grad"] == "d" and found["def"] == "k"
    assert found["self"] == "b" and found["forward"] == "f" and found["0x10"] == "n"


@given(st.text("ab(\"'/*\n\\#R1 @{", max_size=60), st.sampled_from(["cuda", "python", "text"]))
def test_tokens_are_the_text(text: str, language: Language) -> None:
    assert "".join(part for _, part in tokens(text, language)) == text
    assert len(highlight(text, language)) == text.count("\n") + 1


@pytest.mark.parametrize("piece", ['R"(', "/*", '"""', "'", "1'", "\\", "#\n", "rb'"])
def test_what_never_ends_takes_little_time(piece: str) -> None:
    start = time.process_time()
    for language in ("cuda", "python"):
        assert highlight(piece * 4000, language)
    assert time.process_time() - start < 3


def test_a_line_is_escaped_and_shows_what_would_hide() -> None:
    line = highlight("// <b>&\u202e x", "cuda")[0]
    assert line == "<i class=c>// &lt;b&gt;&amp;\\u202e x</i>"


def test_a_difference_has_both_texts() -> None:
    old = [f"line {number};" for number in range(40)]
    new = [*old[:10], "int added;", *old[10:25], *old[27:]]
    found = difference("\n".join(old), "\n".join(new))
    kinds = [line.kind for line in found]
    assert kinds.count("added") == 1 and kinds.count("removed") == 2 and kinds.count("gap") == 3
    assert found[0].text == "7 equal lines" and "<i class=t>int</i> added;" in [line.text for line in found]
    assert difference("a", "a") == []


def test_a_comment_that_begins_outside_of_a_difference_is_still_one() -> None:
    before, after = ("/*\n" + "x\n" * 9 + f"{word}\n*/\n" for word in ("if", "for"))
    added = next(line for line in difference(before, after) if line.kind == "added")
    assert added.text == "<i class=c>for</i>"


def test_two_texts_without_a_line_in_common_are_shown_up_to_a_limit() -> None:
    before, after = ("\n".join(f"{name}{number}" for number in range(3000)) for name in "ab")
    found = difference(before, after)
    assert len(found) == MOST_LINES + 1 and found[-1].text == "5200 lines more"
