"""A task may end the process that its code runs in, by whatever means: that is its result, and the others go
on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelblaster.bench import coverage, measuring, pool
from kernelblaster.bench.bench import Bench
from kernelblaster.bench.coverage import covered
from kernelblaster.bench.jobs import Job, Setup
from kernelblaster.bench.measuring import measure_all
from kernelblaster.bench.pool import WorkerPool, search_all
from kernelblaster.bench.searching import News
from kernelblaster.bench.suite import entries_of
from kernelblaster.cli.main import OWN, app
from kernelblaster.errors import DeviceLost, Shortage
from kernelblaster.processes.workers import LostJob
from kernelblaster.sessions.settings import Search
from kernelblaster.testing.made_bench import made_bench

MODEL = "class Model: pass\n"
ENDS = MODEL + "import os\nos._exit(0)\n"


def jobs_of(folder: Path, **files: str) -> list[Job]:
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    setup = Setup(device="emulated", gpu="h200", search=Search(evaluations=1), knowledge="kb.db")
    return [Job(arm="a", entry=entry, seed=0, setup=setup) for entry in entries_of([str(folder)])]


def test_a_task_that_exits_has_a_result_and_the_others_go_on(compiler: str, tmp_path: Path) -> None:
    """With one worker too: in a command, that is not its first process."""
    jobs = jobs_of(tmp_path / "suite", broken=MODEL + "def (", ends=ENDS)
    heard: list[News] = []
    search_all(jobs, WorkerPool(tmp_path / "bench", workers=1, apart=True), heard.append)
    results = {news.result.task: news.result for news in heard if news.result}
    assert {Path(task).stem: result.status for task, result in results.items()} == {
        "broken": "broken",
        "ends": "died",
    }
    assert any("it called exit with code 0" in result.reason for result in results.values())


def test_what_keeps_a_process_from_working_is_raised_when_the_others_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = jobs_of(tmp_path / "suite", one=MODEL, two=MODEL)
    told = [Shortage("the disk is full"), LostJob(jobs[1], -9)]
    monkeypatch.setattr(pool, "run_with_retry", lambda *about: iter(told))
    heard: list[News] = []
    with pytest.raises(Shortage, match="the disk is full"):
        search_all(jobs, WorkerPool(tmp_path / "bench", workers=2), heard.append)
    (result,) = [news.result for news in heard if news.result]
    assert result.status == "died" and "SIGKILL (where it does not do so itself" in result.reason


def test_a_task_that_exits_is_left_out_of_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = jobs_of(tmp_path / "suite", one=MODEL, two=MODEL)
    entries = [job.entry for job in jobs]
    monkeypatch.setattr(
        coverage, "run_with_retry", lambda *about: iter([(0, None), LostJob((1, entries[1]), 0)])
    )
    kept, left_out = covered(entries, jobs[0].setup, 1, apart=True)
    assert kept == entries[:1] and [one.status for one in left_out] == ["died"]


def test_a_measurement_that_ends_its_process_is_found_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with made_bench(tmp_path / "b", tasks=2, steps=1) as bench:
        (first, *_) = [row.result for row in bench.rows() if row.result.status == "valid"]
        about = (bench.plan.jobs[0], bench.plan.baselines, tmp_path / "b")
    monkeypatch.setattr(
        measuring, "run_with_retry", lambda *a, **k: iter([LostJob(first, 0), DeviceLost("gone")])
    )
    news = measure_all(*about, [first], apart=True)
    assert {(one.baseline, one.outcome) for one in next(news)} >= {("eager", "Died"), ("initial", "Died")}
    with pytest.raises(DeviceLost):
        next(news)


def test_the_exit_code_of_a_bench_tells_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(work: object, about: object, jobs: Iterator[Job], workers: int) -> Iterator[LostJob]:
        yield from (LostJob(job, 0) for job in jobs)

    jobs_of(tmp_path / "suite", ends=ENDS)
    monkeypatch.setattr(pool, "run_with_retry", tried)
    words = ["bench", str(tmp_path / "suite"), "--device", "emulated", "--workers", "1"]
    run = CliRunner().invoke(app, [*words, "--folder", str(tmp_path / "b")], obj=OWN)
    assert run.exit_code == 1 and "ends: its code ended the process" in run.output
    with Bench(tmp_path / "b", writing=False) as bench:
        assert [row.died for row in bench.rows()] == [True]
