"""The page in a real browser: nothing on its console, every figure drawn, and everything moves by
clicking. Skipped where no Chromium is installed."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelblaster.knowledge import KnowledgeBase, plant
from kernelblaster.report.knowledge_page import knowledge_page
from kernelblaster.report.run.page import run_page
from kernelblaster.report.writing import read, write
from kernelblaster.testing.made_bench import made_bench
from tests.report.browser import LAPTOP, PHONE, Browser, installed
from tests.report.made_run import made_run

program = installed()
pytestmark = pytest.mark.skipif(program is None, reason="no Chromium is installed")
FIRST_CELLS = "[...document.querySelectorAll('#s0-tasks tbody tr')].map(row => row.cells[{}].textContent)"
SPEEDUP = 2


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        root = tmp_path_factory.mktemp("page")
        for name, tasks in (("one", 24), ("two", 9)):
            made_bench(root / name, tasks=tasks, steps=8, seed=tasks).close()
    contents = read([str(root / "one"), str(root / "two")], root, root)
    return write(contents, root / "page.html")[0]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert program is not None
    with Browser(program) as opened:
        yield opened


@pytest.fixture
def opened(browser: Browser, page: Path) -> Iterator[Browser]:
    browser.look(LAPTOP)
    browser.errors.clear()
    browser.open(page)
    browser.wait("document.querySelector('#s0-tree').sources !== undefined")
    yield browser
    assert browser.errors == []


def test_every_figure_is_drawn(opened: Browser) -> None:
    sizes = opened.run(
        "[...document.querySelectorAll('#s0 figure svg')].map(svg => {"
        "const box = svg.getBoundingClientRect();"
        "const shapes = [...svg.querySelectorAll('rect, circle, path.line')];"
        "const seen = shapes.filter(shape => shape.getBBox().width > 0).length;"
        "return [svg.dataset.figure, box.width, box.height, seen]; })"
    )
    assert len(sizes) == 9
    for name, width, height, shapes in sizes:
        assert width > 200 and height > 60 and shapes > 0, name


def test_the_table_sorts_by_a_click_and_back(opened: Browser) -> None:
    def speedups() -> list[float]:
        cells = opened.run(FIRST_CELLS.format(SPEEDUP))
        return [float(cell.rstrip("x")) for cell in cells if cell]

    assert speedups() == sorted(speedups(), reverse=True)
    opened.click(f"#s0-tasks th:nth-child({SPEEDUP + 1}) button")
    assert speedups() == sorted(speedups())
    assert opened.run("document.querySelector('#s0-tasks th[aria-sort=ascending]').textContent") == "speedup"
    opened.click("#s0-tasks th:nth-child(1) button")
    names = opened.run(FIRST_CELLS.format(0))
    assert names == sorted(names) and len(names) == 24


def test_the_table_filters_by_words_and_by_clicks(opened: Browser) -> None:
    opened.click("#s0-tasks input")
    opened.type("level2 unrolling")
    assert 0 < opened.run("document.querySelectorAll('#s0-tasks tbody tr:not([hidden])').length") < 24
    opened.run(
        "(() => { const i = document.querySelector('#s0-tasks input'); i.value = '';"
        "i.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    opened.click("#s0-tasks .chips ~ .chips button:nth-child(2)")
    kept = set(opened.run(FIRST_CELLS.format(1).replace("tbody tr", "tbody tr:not([hidden])")))
    assert len(kept) == 1 and kept != {"valid"}


def test_a_step_opens_with_its_difference(opened: Browser) -> None:
    opened.click("#s0-tree .branch:nth-child(2) summary")
    opened.wait("document.querySelectorAll('#s0-tree .difference .added').length >= 1")
    added, removed = (
        opened.run(f"document.querySelectorAll('#s0-tree .difference .{kind}').length")
        for kind in ("added", "removed")
    )
    assert added == removed and 1 <= added <= 4, "as many lines as the made step changes"
    text = opened.run("document.querySelector('#s0-tree .branch:nth-child(2) .more-detail').textContent")
    assert "time in kernels: from" in text and "equal lines" in text
    opened.click("#s0-tree .branch:nth-child(2) .unfold")
    assert opened.run("document.querySelectorAll('#s0-tree .difference .same').length") > 10
    opened.click("#s0-tree .branch:nth-child(2) summary")
    assert not opened.run("document.querySelector('#s0-tree .branch:nth-child(2) details').open")


def test_another_task_is_opened_by_its_row_and_by_the_list(opened: Browser) -> None:
    assert opened.run("document.querySelectorAll('#s0-tree .branch').length") == 9
    before = opened.run("document.querySelector('#s0-choice').value")
    opened.click("#s0-tasks tbody tr:nth-child(5)")
    opened.wait(f"document.querySelector('#s0-choice').value !== {before!r}")
    first = "document.querySelector('#s0-tree').textContent"
    shown = opened.run(first)
    opened.run(
        "(() => { const choice = document.querySelector('#s0-choice'); choice.selectedIndex = 7;"
        "choice.dispatchEvent(new Event('change')); })()"
    )
    opened.wait(f"{first} !== {json.dumps(shown)}")


def test_the_second_subject_is_shown_by_a_click(opened: Browser) -> None:
    opened.click("nav [data-subject='1']")
    opened.wait("!document.querySelector('#s1').hidden")
    assert opened.run("document.querySelector('#s0').hidden") is True
    assert opened.run("document.querySelectorAll('#s1-tasks tbody tr').length") == 9


def test_dark_and_light_differ_and_a_phone_needs_no_sideways_scrolling(
    opened: Browser, tmp_path: Path
) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light = opened.run(colour)
    opened.picture(tmp_path / "light.png", whole=True)
    opened.look(LAPTOP, dark=True)
    assert opened.run(colour) != light
    opened.picture(tmp_path / "dark.png", whole=True)
    opened.look(PHONE)
    assert opened.run("document.documentElement.scrollWidth") <= PHONE[0]
    opened.picture(tmp_path / "phone.png", whole=True)
    sizes = [(tmp_path / f"{name}.png").stat().st_size for name in ("light", "dark", "phone")]
    assert min(sizes) > 50_000


def test_a_knowledge_base_opens_too(browser: Browser, tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.db") as knowledge:
        plant(knowledge)
        knowledge.observe("latency", "vectorized_memory_access", 0.4)
        (tmp_path / "kb.html").write_text(knowledge_page(knowledge))
    browser.look(PHONE)
    browser.errors.clear()
    browser.open(tmp_path / "kb.html")
    assert browser.run("document.querySelectorAll('.spark').length") > 10
    assert browser.run("document.documentElement.scrollWidth") <= PHONE[0]
    assert browser.errors == []


def test_a_run_opens_copies_and_fits_a_phone(browser: Browser, tmp_path: Path) -> None:
    folder = made_run(tmp_path / "r", [("Slower", 125.0), ("Inconclusive", 90.0), ("Accepted", 25.0)])
    (tmp_path / "run.html").write_text(run_page(folder, tmp_path))
    browser.look(PHONE)
    browser.errors.clear()
    browser.open(tmp_path / "run.html")
    opened = "document.querySelectorAll('details.candidate[open]').length"
    assert browser.run(opened) == 1, "the best"
    browser.click("[data-unfold]")
    assert browser.run(opened) == 3
    browser.run("document.querySelectorAll('.difference').forEach(box => box.scrollIntoView())")
    browser.wait("document.querySelectorAll('.difference .added').length === 4")
    assert browser.run("document.documentElement.scrollWidth") <= PHONE[0]
    browser.click("[data-copy=best]")
    browser.wait("document.querySelector('[data-copy=best]').textContent === 'copied'")
    assert browser.errors == []


def test_a_table_that_is_cut_says_so_until_its_end_is_seen(opened: Browser) -> None:
    hints = "[...document.querySelectorAll('#s0 .beyond')].filter(hint => !hint.hidden).length"
    opened.look(PHONE)
    opened.wait(f"{hints} > 0")
    opened.run("document.querySelectorAll('#s0 .scroll').forEach(box => { box.scrollLeft = 9999; })")
    opened.wait(f"{hints} === 0")
