"""What is seen while a bench goes on: redrawn on a terminal, lines elsewhere."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from kernelblaster.bench.bench import Pace
from kernelblaster.bench.jobs import JobResult, Measured, Spent
from kernelblaster.bench.searching import News
from kernelblaster.cli import progress
from kernelblaster.records.outcome import Speedup
from kernelblaster.sessions.ranking import Ranking

DONE = JobResult(
    job="bench/t/0",
    arm="bench",
    task="t",
    group="g",
    seed=0,
    status="valid",
    first_us=40.0,
    best_us=10.0,
    baseline_us=20.0,
    spent=Spent(evaluations=7, device_seconds=1.0, seconds=3.0),
)
REFUSED = DONE.model_copy(update={"job": "bench/u/0", "status": "uncovered", "reason": "no kernels for gru"})
BESIDE = Measured(
    job="bench/t/0",
    baseline="compile",
    outcome="Accepted",
    speedup=Speedup(estimate=1.5, low=1.4, high=1.6, confidence=0.99),
)


def told(view: progress.Overview) -> None:
    view(News("began", "bench/t/0"))
    view(News("stepped", "bench/t/0", 5, 40.0, 12.0, 20.0, 8.0))
    view(News("began", "bench/v/0"))
    view(News("ended", "bench/t/0", result=DONE))
    view(News("ended", "bench/u/0", result=REFUSED))
    view(News("lost", "", words="the device was lost; it is started again"))
    view.measured(BESIDE)


def test_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    text = StringIO()
    monkeypatch.setattr(progress, "out", Console(file=text, width=200))
    with progress.show_bench("bench f", ["a", "b", "c", "d"], False, {"z"}) as view:
        told(view)
    lines = text.getvalue().splitlines()
    assert lines[0] == "bench f: 4 searches"
    assert lines[1].startswith("2/4") and "40.0 -> 10.0 us, eager 20.0; 7 judged in 3 s" in lines[1]
    assert "uncovered: no kernels for gru" in lines[2] and "lost" in lines[3]
    assert "1.50x against compile" in lines[4]


def test_the_view_of_a_terminal_holds_what_goes_on_and_what_ended() -> None:
    view = progress.LiveBench("bench f", 4, 1)
    told(view)
    console = Console(file=StringIO(), width=120, record=True)
    console.print(view)
    text = console.export_text()
    assert "3 of 4 searched; 14 candidates judged in 0 s" in text.splitlines(), "a line of its own"
    assert "bench/v/0" in text and "preparing" in text and "1.50x against compile" in text
    assert "it is started again" in text


def test_what_a_run_had_judged_before_does_not_count() -> None:
    rate = progress.Rate()
    rate.hear(News("began", "bench/t/0"))
    rate.hear(News("began", "bench/t/0", evaluations=4))
    rate.hear(News("ended", "bench/t/0", result=DONE))
    assert rate.judged == 3


def test_beside_json_only_what_needs_a_person_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.show_bench("bench f", [], True, ()) as view:
        told(view)
        view(News("says", "bench/v/0", words="desk/0001: read prompt.md there"))
    said = capsys.readouterr()
    assert said.out == ""
    lost = "the device was lost; it is started again"
    assert said.err.splitlines() == [lost, "desk/0001: read prompt.md there"]


def test_on_a_small_terminal_every_search_has_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "out", Console(file=StringIO(), width=80, height=24))
    view = progress.LiveBench("bench f", 60, 0)
    long = "bench/core/level1/cosine_similarity/0"
    for number in range(20):
        result = DONE.model_copy(update={"job": f"{long}{number}", "modelled": True})
        view(News("ended", result.job, result=result))
        view(News("stepped", f"{long}-{number}", 5, 40.0, 12.0, 20.0, 8.0, modelled=True))
    console = Console(file=StringIO(), width=80, height=24, record=True)
    console.print(view)
    lines = console.export_text().splitlines()
    assert len(lines) <= 24 and sum(long in line for line in lines) == 18
    assert all("us modelled" in line for line in lines if long in line)


def test_every_kind_of_work_has_words() -> None:
    pace = Pace(6, 60.0, dict.fromkeys(("evaluate", "profile", "prepare", "confirm"), 0.25))
    assert "order checks 25%" in str(pace) and "6 a minute" in str(pace) and "ranked" not in str(pace)
    assert str(replace(pace, ranking=Ranking(3, 4))).endswith(
        "; the model ranked 75% of 4 pairs of candidates right."
    )
