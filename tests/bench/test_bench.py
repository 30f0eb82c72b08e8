"""A whole bench on the emulated device: good, broken, unfit and uncovered tasks, each accounted for; gone
on with after an interruption; and its report."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelblaster.bench.bench import Bench
from kernelblaster.bench.jobs import Setup
from kernelblaster.bench.record import BenchPlan
from kernelblaster.bench.suite import entries_of
from kernelblaster.bench.tables import summaries, task_speedups
from kernelblaster.cli.main import app
from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.sessions.settings import Search


def plan_of(checkout: Path, own: Path, **changed: object) -> BenchPlan:
    setup = Setup(device="emulated", gpu="h200", search=Search(evaluations=3), knowledge="")
    entries = entries_of([f"kernelbench:{checkout}", str(own / "program.cu")])
    plan = BenchPlan(suites=("kernelbench", "own"), entries=tuple(entries), setup=setup)
    return plan.model_copy(update=changed)


@pytest.fixture(scope="module")
def folder(compiler: str, checkout: Path, own: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bench that was stopped before it began, and then gone on with."""
    where = tmp_path_factory.mktemp("bench") / "bench"
    with Bench.open(where, plan_of(checkout, own)) as bench:
        bench.run(workers=1, seconds=0)
        assert {row.result.status for row in bench.rows()} == {"unfinished"}
        assert summaries(bench.plan, bench.rows())[-1].summary.valid_rate == 0.0
    with Bench.open(where) as bench:
        bench.run(workers=1)
    return where


def test_every_file_is_accounted_for(folder: Path) -> None:
    with Bench(folder, writing=False) as bench:
        rows = {"/".join(Path(row.result.task).parts[-2:]): row.result for row in bench.rows()}
    rows = {task.removeprefix("kernelbench:"): result for task, result in rows.items()}
    assert {task: result.status for task, result in rows.items()} == {
        "level1/1_relu": "valid",
        "level1/2_broken": "broken",
        "level1/3_constant": "unfit",
        "level1/4_random": "unfit",
        "level2/1_scaled_sum": "valid",
        "level2/2_uncovered": "uncovered",
        "level2/3_not_a_task": "broken",
        "mine/program.cu": "broken",
    }
    assert "has a main(); keep the kernels" in rows["mine/program.cu"].reason
    assert "constant" in rows["level1/3_constant"].reason and "random" in rows["level1/4_random"].reason
    assert "sort" in rows["level2/2_uncovered"].reason and rows["level1/2_broken"].reason


def test_nothing_is_dropped_from_the_denominators(folder: Path) -> None:
    with Bench(folder, writing=False) as bench:
        rows = bench.rows()
        found = {(s.group, s.baseline): s.summary for s in summaries(bench.plan, rows)}
    everything = found["all", "eager"]
    assert (everything.tasks, everything.valid) == (8, 2)
    assert found["level1", "eager"].valid_rate == 1 / 4
    initial = found["all", "initial"]
    assert initial.minimum is not None and initial.minimum >= 1.0
    valid = [row for row in rows if row.result.status == "valid"]
    for row in valid:
        assert row.speedup("initial") == pytest.approx(row.result.gain, rel=1e-6)  # modelled: the same again
        assert row.result.spent.evaluations <= 3 and row.result.modelled


def test_several_seeds_of_a_task_count_once(folder: Path) -> None:
    with Bench(folder, writing=False) as bench:
        row = next(row for row in bench.rows() if row.result.status == "valid")
    failed = replace(row, result=row.result.model_copy(update={"status": "failed", "seed": 1}))
    assert task_speedups([row, row], "eager") == pytest.approx([row.speedup("eager")])
    assert task_speedups([row, failed], "eager") == [None]


def test_what_was_done_is_not_done_again(folder: Path) -> None:
    before = (folder / "events.jsonl").read_bytes()
    with Bench.open(folder) as bench:
        bench.run(workers=1)
    assert (folder / "events.jsonl").read_bytes() == before


def test_without_a_memory_nothing_is_learned(compiler: str, checkout: Path, tmp_path: Path) -> None:
    words = ["bench", str(checkout / "KernelBench" / "level1" / "1_relu.py"), "--strategy", "no-memory"]
    options = ["--device", "emulated", "--budget", "4", "--workers", "1", "--folder", str(tmp_path / "b")]
    done = CliRunner().invoke(app, [*words, *options])
    assert done.exit_code == 0, done.output
    with Bench(tmp_path / "b", writing=False) as bench:
        (row,) = bench.rows()
    assert row.result.status == "valid" and row.result.spent.evaluations > 1
    run = tmp_path / "b" / "runs" / str(row.result.run)
    for file, knows in ((tmp_path / "b" / "knowledge.db", True), (run / "no-memory.db", False)):
        with KnowledgeBase(file) as knowledge:
            content = knowledge.content()
        entries = [one for state in content.entries.values() for one in state.values()]
        assert not any(one.evidence.total.attempts for one in entries)
        assert any(one.description for one in entries) == knows  # the seed's, and none


def test_another_plan_is_refused(folder: Path, checkout: Path, own: Path) -> None:
    with pytest.raises(KernelBlasterError, match="another seeds"):
        Bench.open(folder, plan_of(checkout, own, seeds=(0, 1)))
    with pytest.raises(KernelBlasterError, match="no bench to go on with"):
        Bench.open(folder.parent / "nowhere")


def test_the_command_says_how_it_went_and_reports(folder: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["bench", "--folder", str(folder), "--json"])
    assert told.exit_code == 0, told.output
    data = json.loads(told.stdout)
    assert len(data["tasks"]) == 8 and data["device"] == "PTX machine (NVIDIA H200)"
    page = tmp_path / "page.html"
    words = ["report", str(folder), "--out", str(page), "--also", "markdown,csv,svg"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    with (tmp_path / "page.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 8
    text = (tmp_path / "page.md").read_text()
    assert "2 of 8" in text and "level2/2_uncovered" in text
    assert "roofline.svg" in text and (tmp_path / "page-figures" / "roofline.svg").is_file()


def test_a_run_by_itself_can_be_reported(folder: Path, tmp_path: Path) -> None:
    with Bench(folder, writing=False) as bench:
        run = next(folder / "runs" / str(r.result.run) for r in bench.rows() if r.result.status == "valid")
    done = CliRunner().invoke(app, ["report", str(run), "--out", str(tmp_path / "run.html"), "--json"])
    assert done.exit_code == 0, done.output
    subject = json.loads(done.stdout)["subjects"][0]
    assert subject["valid"] == 1 and subject["rows"][0]["speedup"] > 0


def test_bad_words_are_said(tmp_path: Path) -> None:
    for words, message in (
        (["bench"], "name a suite"),
        (["bench", "core", "--baselines", "magic"], "magic is none of"),
        (["bench", "core", "--device", "emulated", "--baselines", "eager,compile"], "needs a GPU"),
        (["bench", "core", "--level", "one"], "give whole numbers"),
        (["report", str(tmp_path)], "holds neither a bench nor runs"),
        (["report", str(tmp_path), "--also", "pdf"], "pdf is none of"),
    ):
        done = CliRunner().invoke(app, words)
        assert isinstance(done.exception, KernelBlasterError) and message in str(done.exception), words
