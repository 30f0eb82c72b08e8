"""What a person sees of a search: the same facts on a terminal, in a pipe, and nothing with --json."""

import io
from typing import Any

import pytest
from rich.console import Console

from kernelblaster.cli import live
from kernelblaster.cli.live import LiveSearch, bar, left, show_search
from kernelblaster.records import Failed, Gained, Step, StepId
from kernelblaster.sessions.log import Progress


def progress(**fields: Any) -> Progress:
    step = Step(
        id=StepId(1, 0, 2),
        state="latency",
        technique="loop_unrolling",
        predicted=1.3,
        result=Gained(0.4),
        taken=True,
    )
    known: dict[str, Any] = {"phase": "stepped", "iteration": 1, "id": step.id, "step": step}
    known |= {"evaluations": 7, "evaluations_left": 13, "seconds": 41.0, "state": "latency"}
    known |= {"technique": "loop_unrolling", "predicted": 1.3, "result": step.result}
    known |= {"first_us": 400.0, "best_us": 200.0, "baseline_us": 282.9, "floor_us": 100.0}
    return Progress(**known | fields)


def on_a_console(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> io.StringIO:
    written = io.StringIO()
    monkeypatch.setattr(live, "out", Console(file=written, force_terminal=terminal, width=120))
    return written


def test_a_line_says_why_a_candidate_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    written = on_a_console(monkeypatch, terminal=False)
    with show_search("run r", quiet=False) as view:
        view(progress(result=Failed("Rejected"), why="race in kernel k, line 3"))
    assert "got Rejected" in written.getvalue() and "race in kernel k, line 3" in written.getvalue()


def test_the_bar_shows_the_best_between_the_first_and_the_floor_with_the_baseline() -> None:
    drawn = bar(progress(), 40)
    assert drawn.startswith("█" * 10 + "|" + "█" * 9 + "░" * 20) and "50%" in drawn
    assert bar(progress(best_us=100.0), 40).startswith("█" * 10 + "|" + "█" * 29)
    assert bar(progress(best_us=None), 40) == ""
    assert bar(progress(floor_us=500.0), 40) == ""


def test_what_is_left_of_every_budget_is_told() -> None:
    assert left(progress()) == "13 candidates; 7 judged in 41 s"
    told = left(progress(seconds_left=19.0, gpu_seconds_left=3.0))
    assert told == "13 candidates, 19 s, 3 s of the GPU; 7 judged in 41 s"


def test_a_terminal_shows_the_whole_state_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    written = on_a_console(monkeypatch, terminal=True)
    with show_search("run r: a task", quiet=False) as view:
        view(progress())
        view(progress(phase="judging", technique="kernel_fusion", predicted=2.0, result=None, step=None))
        view.stage("verifying")
        view.say("the device was lost")
    text = written.getvalue()
    for word in ("run r: a task", "best 200.0 us", "floor 100.0", "baseline 282.9", "13 candidates"):
        assert word in text
    for word in ("loop_unrolling", "1.49x", "kernel_fusion", "predicted 2.00x", "verifying", "was lost"):
        assert word in text


def test_only_the_last_steps_are_shown() -> None:
    view = LiveSearch("run")
    for number in range(50):
        view(progress(id=StepId(1, 0, number)))
    console = Console(file=io.StringIO(), width=120)
    console.print(view)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "1/0/49" in text and "1/0/40" not in text


def test_elsewhere_each_step_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    written = on_a_console(monkeypatch, terminal=False)
    with show_search("run r", quiet=False) as view:
        view(progress(phase="judging", step=None))
        view(progress())
        view(progress(result=Failed("Incorrect")))
        view.stage("timing")
    lines = written.getvalue().splitlines()
    assert len(lines) == 4 and lines[0] == "run r" and "iteration/rollout/step/choice" in lines[1]
    assert "predicted 1.30x, got 1.49x" in lines[2] and "got Incorrect" in lines[3]


def test_with_json_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    written = on_a_console(monkeypatch, terminal=True)
    with show_search("run r", quiet=True) as view:
        view(progress())
        view.stage("timing")
        view.say("news")
    assert written.getvalue() == ""


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_modelled_is_marked(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    written = on_a_console(monkeypatch, terminal=terminal)
    with show_search("run r", quiet=False) as view:
        view(progress(modelled=True))
    assert "1.49x modelled" in written.getvalue() and "best 200.0 us modelled" in written.getvalue()


def test_on_80_columns_techniques_are_whole_and_no_line_wraps() -> None:
    state = "instruction-issue/integer-pipe+intermediate-traffic"
    view = LiveSearch("run r: a task")
    for technique in ("vectorized_memory_access", "kernel_fusion + rows_in_registers + shared_memory_tiling"):
        view(progress(technique=technique, modelled=True, state=state))
    console = Console(file=io.StringIO(), width=80)
    console.print(view)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 9 and all(line.startswith("  ") for line in lines[1:])
    rows = [line for line in lines if "1.49x modelled" in line]
    assert "vectorized_memory_access " in rows[0] and "kernel_fusion + rows" in rows[1]


def test_a_stage_that_takes_long_says_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr("kernelblaster.cli.live.time.monotonic", lambda: now[0])
    view = LiveSearch("run")
    console = Console(file=io.StringIO(), width=80)
    console.print(view)
    now[0] += 7
    console.print(view)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.splitlines()[1].strip() == "starting" and "starting, 7 s" in text
