"""Sources in colours and the differences of two, made by source.js: every token keeps its text, a reader sees
what is what, and nothing takes long. Skipped where no Chromium is installed."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from kernelblaster.report.rendering import read_part
from tests.report.browser import LAPTOP, Browser, installed

program = installed()
pytestmark = pytest.mark.skipif(program is None, reason="no Chromium is installed")

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
READY = "document.documentElement.dataset.ready = 'yes';"
PAGE = "<!doctype html><meta charset=utf-8><body></body><script>{}</script>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert program is not None
    file = tmp_path_factory.mktemp("source") / "page.html"
    file.write_text(PAGE.format(str(read_part("source.js")) + READY))
    with Browser(program) as browser:
        browser.look(LAPTOP)
        browser.open(file)
        yield browser
        assert browser.errors == []


def tokens(page: Browser, text: str, language: str) -> list[tuple[str, str]]:
    call = f"[...kernelblasterSource.tokens({json.dumps(text)}, {json.dumps(language)})]"
    return [(kind, part) for kind, part in page.run(call)]


def classes(page: Browser, text: str, language: str) -> dict[str, str]:
    return {part: kind for kind, part in tokens(page, text, language) if kind}


def difference(page: Browser, before: str, after: str) -> list[tuple[str, str]]:
    """(class, text) of each line of a difference as it is shown."""
    page.run(
        "(() => { const box = document.createElement('pre'); document.body.replaceChildren(box);"
        f"box.sources = {json.dumps({'a': before, 'b': after})};"
        "Object.assign(box.dataset, {language: 'cuda', before: 'a', after: 'b'}); })()"
    )
    page.wait("document.querySelector('pre > div') !== null")
    return [
        (kind, text)
        for kind, text in page.run(
            "[...document.querySelectorAll('pre > div')].map(line => [line.className, line.textContent])"
        )
    ]


def test_cuda(page: Browser) -> None:
    found = classes(page, CUDA, "cuda")
    assert found["/* two\nlines */"] == found["// why"] == "c"
    assert found['"mov \\"%0\\";"'] == "s" and found["#include"] == "d"
    assert found["__global__"] == found["threadIdx"] == "b"
    assert found["float4"] == found["int64_t"] == found["int"] == "t" and found["const"] == "k"
    assert found["0x1Fu"] == found["1'000"] == found["1.5e-3f"] == "n"
    assert found["g"] == found["f"] == "f" and "x" not in found


def test_python(page: Browser) -> None:
    found = classes(page, PYTHON, "python")
    assert found['"""Two\n    lines with # no comment"""'] == found['f"{x}"'] == found["'a'"] == "s"
    assert found["# why"] == "c" and found["@torch.no_grad"] == "d" and found["def"] == "k"
    assert found["self"] == "b" and found["forward"] == "f" and found["0x10"] == "n"


def test_tokens_are_the_text_whatever_it_is(page: Browser) -> None:
    random = Random(0)
    texts = ["".join(random.choices("ab(\"'/*\n\\#R1 @{", k=random.randrange(60))) for _ in range(300)]
    wrong: Any = page.run(
        f"{json.dumps(texts)}.flatMap(text => ['cuda', 'python', 'text'].filter(language => "
        "[...kernelblasterSource.tokens(text, language)].map(([, part]) => part).join('') !== text || "
        "kernelblasterSource.highlight(text, language).length !== text.split('\\n').length))"
    )
    assert wrong == []


@pytest.mark.parametrize("piece", ['R"(', "/*", '"""', "'", "1'", "\\", "#\n", "rb'"])
def test_what_never_ends_takes_little_time(page: Browser, piece: str) -> None:
    took = page.run(
        f"(() => {{ const text = {json.dumps(piece)}.repeat(4000), begin = performance.now();"
        "['cuda', 'python'].forEach(language => kernelblasterSource.highlight(text, language));"
        "return performance.now() - begin; })()"
    )
    assert took < 3000


def test_a_line_stays_text_and_shows_what_would_hide(page: Browser) -> None:
    found = difference(page, "x", "// <img src=x onerror=alert(1)>&\u202e\x1b x")
    assert found == [("removed", "- x"), ("added", "+ // <img src=x onerror=alert(1)>&\\u202e\\x1b x")]
    assert page.run("document.querySelector('img')") is None


def test_a_difference_has_both_texts(page: Browser) -> None:
    old = [f"line {number};" for number in range(40)]
    new = [*old[:10], "int added;", *old[10:25], *old[27:]]
    found = difference(page, "\n".join(old), "\n".join(new))
    kinds = [kind for kind, _ in found]
    assert kinds.count("added") == 1 and kinds.count("removed") == 2 and kinds.count("gap") == 3
    assert found[0] == ("gap", "⋯ 7 equal lines") and ("added", "+ int added;") in found
    assert difference(page, "a", "a") == [("gap", "The sources are equal.")]


def test_a_comment_that_begins_outside_of_a_difference_is_still_one(page: Browser) -> None:
    before, after = ("/*\n" + "x\n" * 9 + f"{word}\n*/\n" for word in ("if", "for"))
    difference(page, before, after)
    assert page.run("document.querySelector('.added i').className") == "c"


def test_differences_rebuild_both_texts_whatever_they_are(page: Browser) -> None:
    random = Random(1)
    pairs = [["\n".join(random.choices("abcd", k=random.randrange(40))) for _ in "ab"] for _ in range(200)]
    wrong = page.run(
        f"{json.dumps(pairs)}.filter(([one, other]) => {{ const a = one.split('\\n'), b = other.split('\\n');"
        "const lines = kernelblasterSource.compared(a, b);"
        "const old = lines.filter(([sign]) => sign !== '+').map(([, x]) => a[x]);"
        "const now = lines.filter(([sign]) => sign !== '-').map(([, , y]) => b[y]);"
        "return old.join('\\n') !== one || now.join('\\n') !== other"
        " || lines.some(([sign, x, y]) => sign === ' ' && a[x] !== b[y]); })"
    )
    assert wrong == []


def test_two_texts_without_a_line_in_common_are_shown_up_to_a_limit(page: Browser) -> None:
    before, after = ("\n".join(f"{name}{number}" for number in range(3000)) for name in "ab")
    found = difference(page, before, after)
    assert len(found) == 801 and found[-1] == ("gap", "⋯ 5200 lines more")


def test_a_source_is_coloured_and_numbered_where_it_stands(page: Browser) -> None:
    page.run(
        "(() => { const box = document.createElement('pre'), code = document.createElement('code');"
        f"code.textContent = {json.dumps(CUDA)}; box.append(code); box.dataset.language = 'cuda';"
        "document.body.replaceChildren(box); })()"
    )
    page.wait("document.querySelector('pre i.k') !== null")
    assert page.run("document.querySelectorAll('pre code > span').length") == CUDA.count("\n")
    assert page.run("document.querySelector('pre').textContent") == CUDA.rstrip("\n")
