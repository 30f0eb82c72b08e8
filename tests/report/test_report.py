"""Pages, tables and figures of a bench that was made, and of a knowledge base."""

import csv
import io
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kernelblaster.knowledge import KnowledgeBase, Provenance, plant
from kernelblaster.quantities import times
from kernelblaster.report.bench_page import bench_page
from kernelblaster.report.chart import Bar, Bars, ChartAxis, ChartLine, LineChart, shown
from kernelblaster.report.contents import Contents, summary_dict
from kernelblaster.report.csv_markdown import csv_of, markdown_of
from kernelblaster.report.knowledge_page import knowledge_page
from kernelblaster.report.reading import read_subjects
from kernelblaster.report.rendering import draw_file, draw_svg
from kernelblaster.report.writing import read, write
from kernelblaster.store.run import LOG, Run
from kernelblaster.testing.made_bench import made_bench
from tests.report.made_run import MadeRun


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        folder = tmp_path_factory.mktemp("made") / "made"
        made_bench(folder, tasks=24, steps=8).close()
    return read([str(folder)], folder, folder)[0]


def test_the_numbers_are_those_of_the_rows(contents: Contents) -> None:
    found = summary_dict(contents)
    assert (found["tasks"], found["valid"]) == (24, 21)
    assert found["main"] == "best" and found["overall"]["low"] < found["overall"]["estimate"]
    row = next(row for row in found["rows"] if row["status"] == "valid")
    assert row["speedup"] == min(row["against"][name] for name in ("eager", "compile", "max-autotune"))
    assert found["statuses"] == {"valid": 21, "uncovered": 1, "unfit": 1, "broken": 1}
    counted = sum(one["attempts"] for one in found["usage"]["techniques"])
    assert counted == 21 * 8


def test_the_page_needs_nothing_from_elsewhere(contents: Contents) -> None:
    page = bench_page([contents])
    outside = re.findall(r"(?:src|href)\s*=\s*[\"']?(?!#|data:)[^\"'\s>]+", page)
    assert outside == []
    assert set(re.findall(r"https?://[\w./]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert "@import" not in page and "url(" not in page


def test_a_trajectory_is_on_the_page_before_any_script_has_run(contents: Contents) -> None:
    best = max(contents.subject.rows, key=lambda row: row.speedup(contents.main) or 0.0)
    detail = contents.details[best.result.job]
    static = bench_page([contents]).partition("<script")[0]
    card = static[static.index('id="s0-tree"') : static.index('id="s0-used')]
    walked = {(step.parent, step.child, step.technique) for step in detail.steps}
    assert card.count('<li id="') == 1 + len(walked)
    shown = card.replace("<wbr>", "")
    assert all(step.technique in shown and step.state in shown for step in detail.steps)
    assert card.count("<li") == card.count("</li>") and 'way">' in card and ">best</span>" in card


def test_names_from_outside_cannot_break_the_page(contents: Contents) -> None:
    rows = contents.subject.rows
    result = rows[0].result.model_copy(update={"task": "</script><script>alert(1)</script>"})
    rows.append(type(rows[0])(result, rows[0].measured))
    try:
        page = bench_page([contents])
    finally:
        rows.pop()
    assert "<script>alert" not in page


def test_every_figure_is_well_formed_and_drawn(contents: Contents) -> None:
    names = {chart.name for chart in contents.charts}
    assert names == {
        "fast_p-best",
        "fast_p-initial",
        "speedup",
        "roofline",
        "light",
        "cost",
        "used-techniques",
        "used-states",
        "discovery",
    }
    for chart in contents.charts:
        root = ElementTree.fromstring(draw_file(chart))
        shapes = [node for node in root.iter() if node.tag.split("}")[-1] in ("path", "rect", "circle")]
        assert len(shapes) > 4, chart.name
        assert "nan" not in draw_svg(chart).lower() and "inf" not in draw_svg(chart).lower()


def test_csv_and_markdown_hold_every_task(contents: Contents) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_of(contents))))
    assert len(rows) == 24 and float(rows[0]["speedup_best"]) > 0 and rows[7]["status"] == "uncovered"
    text = markdown_of(contents)
    assert text.count("made/level") == 24 and "21 of 24" in text


def test_files_are_written_where_they_are_asked_for(contents: Contents, tmp_path: Path) -> None:
    files = write([contents, contents], tmp_path / "two.html", {"markdown", "csv", "svg"})
    assert files[0] == tmp_path / "two.html" and "Side by side" in files[0].read_text()
    assert {"two-1.md", "two-2.csv"} <= {file.name for file in files}
    assert all(file.is_file() for file in files)


def test_png_figures_where_a_rasterizer_is_installed(contents: Contents, tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    files = [file for file in write([contents], tmp_path / "a.html", {"png"}) if file.suffix == ".png"]
    assert len(files) == 9
    assert all(file.read_bytes().startswith(b"\x89PNG") and file.stat().st_size > 9000 for file in files)


def test_axes() -> None:
    assert ChartAxis("", 0, 10).marks == [0, 2, 4, 6, 8, 10]
    assert ChartAxis("", 0.1, 100, log=True).marks == pytest.approx([0.1, 0.3, 1, 3, 10, 30, 100])
    assert ChartAxis("", 1, 100, log=True).fraction(10) == pytest.approx(0.5)
    assert ChartAxis("", 0, 1).fraction(7) == 1.0
    assert (shown(0.25, "percent"), shown(1.5, "times"), shown(2_500_000, "si")) == ("25%", "1.5x", "2.5M")
    assert shown(1000, "times") == "1000x"
    assert [times(x) for x in (1350.4, 81.23, 1.5)] == ["1350x", "81.2x", "1.50x"]


def test_an_empty_line_and_many_bars_are_drawn() -> None:
    axis = ChartAxis("x", 0, 1)
    assert draw_svg(LineChart("n", "t", axis, axis, (ChartLine("a", ()),)))
    many = tuple(Bar(f"b{place}", place / 100 + 0.01) for place in range(90))
    assert draw_svg(Bars("n", "t", ChartAxis("x", 0.01, 1, log=True), many, origin=0.01)).count("<rect") == 90


def test_a_knowledge_base_is_a_page(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.db") as knowledge:
        plant(knowledge)
        here = Provenance(run="r", architecture="sm_90a", gpu="h200")
        for gain in (0.5, 0.6, 0.55):
            knowledge.observe("latency", "vectorized_memory_access", gain, here)
        knowledge.observe("latency", "vectorized_memory_access", "CompileFailed", here)
        knowledge.note("latency", "it pays <often>", "vectorized_memory_access")
        page = knowledge_page(knowledge)
    assert 'id="state-latency"' in page and "it pays &lt;often&gt;" in page
    assert 'data-figure="growth"' in page and "sm_90a 1.73x" in page and "CompileFailed 1" in page


def test_an_empty_knowledge_base_is_a_page_too(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.db") as knowledge:
        assert "0%" in knowledge_page(knowledge)


def test_a_run_whose_first_candidate_failed_begins_with_the_first_correct_one(tmp_path: Path) -> None:
    """As with a policy that writes from nothing: the candidates have no steps between them."""
    run = tmp_path / "runs" / "r"
    run.mkdir(parents=True)
    (run / LOG).touch()
    wrong = {"kind": "Incorrect", "reason": "off by one", "evidence": "x"}
    with Run(run, writing=True) as written:
        written.append("created", task="t", device="cuda")
        for place, us in enumerate((None, 50.0, 40.0)):
            speedup = {"estimate": 100.0 / (us or 1), "low": 1.0, "high": 9.0, "confidence": 0.99}
            timing = {"candidate_us": us, "baseline_us": 100.0, "floor_us": 20.0, "modelled": False}
            verdict = {"device": "NVIDIA H200", "device_seconds": 1.0, "profile": None}
            verdict |= {"outcome": {"kind": "Accepted", "speedup": speedup} if us else wrong}
            verdict |= {"timing": timing if us else None}
            data = {"source": written.files.put(f"// {place}"), "evaluation": verdict}
            written.once("evaluation", f"code{place}", lambda d=data: d)  # type: ignore[misc]
        learned = {"from": 0, "to": 0, "states": [], "techniques": [], "reasons": []}
        written.once("results", "end", lambda: {"best": "code2", "applied": [], "learned": learned})
    contents = read([str(run)], tmp_path, tmp_path)[0]
    row = summary_dict(contents)["rows"][0]
    assert row["against"] == {"eager": 2.5, "initial": 1.25}
    assert bench_page([contents])


@pytest.mark.parametrize("modelled", [True, False])
def test_a_run_on_whatever_device_there_was_says_where_its_times_come_from(
    tmp_path: Path, modelled: bool
) -> None:
    made = MadeRun(tmp_path / "runs" / "r", device="auto")
    code = made.judge("Accepted", modelled=modelled)
    made.end(code)
    made.close()
    assert read_subjects([str(made.folder)], tmp_path, tmp_path)[0].modelled is modelled


def test_a_bench_that_has_not_ended_does_not_count_what_is_missing(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        made_bench(tmp_path / "b", tasks=6, steps=2).close()
    log = tmp_path / "b" / LOG
    lines = log.read_text().splitlines(keepends=True)
    for kept, expected in (
        (1, "0 of 6 searches have ended."),
        (8, "1 of 6 searches have ended; all figures"),
    ):
        log.write_text("".join(lines[:kept]))
        contents = read([str(tmp_path / "b")], tmp_path, tmp_path)[0]
        page = bench_page([contents])
        assert "Unfinished." in page and expected in page
        assert "valid: 0 of" not in page and "<b>0%</b><span>valid" not in page
        assert markdown_of(contents).splitlines()[2].startswith("Unfinished: ")
    assert "<b>100%</b><span>valid: 1 of 1 tasks</span>" in page
