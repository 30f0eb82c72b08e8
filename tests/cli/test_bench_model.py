"""`bench` and `ablate` with a model: searches on the emulated device against a server on loopback."""

import csv
import json
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kernelblaster.bench.ablation import Ablation
from kernelblaster.bench.bench import Bench
from kernelblaster.bench.jobs import JobResult
from kernelblaster.cli.main import app
from kernelblaster.errors import KernelBlasterError
from tests.cli.model_runs import SHORT, model_place, person_at, told, use
from tests.cli.test_optimize_model import at_first
from tests.models.conftest import own_environment
from tests.models.server import CACHED, USAGE, Status
from tests.policies.llm.played import TASK, plays, role_of

__all__ = ["own_environment"]

UNCOVERED = TASK.replace("torch.relu(x) * 2.0 + 1.0", "torch.sort(x, dim=1).values")
EACH = ((USAGE[0] - CACHED) * 2.0 + CACHED * 0.5 + USAGE[1] * 10.0) / 1e6  # dollars, as Place.prices()


def suite(folder: Path, **sources: str) -> Path:
    """A folder with these tasks."""
    found = folder / "suite"
    found.mkdir()
    for name, source in sources.items():
        (found / f"{name}.py").write_text(source)
    return found


def words(tasks: Path, folder: Path, *more: str) -> list[str]:
    given = ["bench", str(tasks), "--folder", str(folder), "--device", "emulated", "--workers", "1"]
    return [*given, *SHORT, "--json", *more]


def statuses(found: dict[str, Any]) -> dict[str, str]:
    return {row["task"]: row["status"] for row in found["tasks"]}


def result(folder: Path) -> JobResult:
    """Of a bench with one task."""
    with Bench(folder, writing=False) as opened:
        (row,) = opened.rows()
    return row.result


def test_costs_of_each_task_are_told(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By two processes. A task that the model cannot do has costs too; keys are left nowhere."""
    use(monkeypatch, tmp_path)
    key = "sk-planted-0123456789"
    monkeypatch.setenv("KERNELBLASTER_API_KEY", key)
    tasks = suite(tmp_path, relu=TASK, sums=UNCOVERED)
    with model_place(tmp_path, "openai") as place:
        money = ("--usd", "5", "--prices", str(place.prices()), "--workers", "2")
        done = CliRunner().invoke(
            app, words(tasks, tmp_path / "b", "--policy", "llm", "--model", place.model, *money)
        )
        found = told(done)
        calls = len(place.script.calls)
    assert "estimate: " in done.stderr
    assert statuses(found) == {"suite/relu": "valid", "suite/sums": "failed"}
    relu, sums = found["tasks"]
    assert relu["gain_over_first"] > 2 and "correct first candidate" in sums["reason"]
    assert relu["tokens"] + sums["tokens"] == calls * sum(USAGE) and sums["tokens"] > 0
    assert relu["usd"] + sums["usd"] == pytest.approx(calls * EACH)
    page = CliRunner().invoke(
        app, ["report", str(tmp_path / "b"), "--out", str(tmp_path / "r.html"), "--also", "csv,markdown"]
    )
    assert page.exit_code == 0, page.output
    with (tmp_path / "r.csv").open() as file:
        assert sum(int(row["tokens"]) for row in csv.DictReader(file)) == calls * sum(USAGE)
    assert f"| {calls * sum(USAGE)} |" in (tmp_path / "r.md").read_text()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if key.encode() in path.read_bytes()] == []


def test_a_bench_that_was_killed_asks_nothing_twice(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    tasks = suite(tmp_path, relu=TASK)
    with model_place(tmp_path, "openai") as place:
        process = place.start(*words(tasks, tmp_path / "b", "--model", place.model))
        while len(place.script.calls) < 2:
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        found = told(CliRunner().invoke(app, ["bench", "--folder", str(tmp_path / "b"), "--json"]))
        times = Counter(json.dumps(call, sort_keys=True) for call in place.script.calls)
    assert statuses(found) == {"suite/relu": "valid"}
    assert sum(times.values()) <= len(times) + 1  # the one that was on its way
    assert found["tasks"][0]["tokens"] >= len(times) * sum(USAGE)


def test_a_server_that_is_down_leaves_the_task_unfinished(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    tasks = suite(tmp_path, relu=TASK)
    with model_place(tmp_path, "openai", at_first({"lowerer": [Status(503)] * 4})) as place:
        failed = CliRunner().invoke(app, words(tasks, tmp_path / "b", "--model", place.model))
        assert f"Go on with: kernelblaster bench --folder {tmp_path / 'b'}" in str(failed.exception)
        assert result(tmp_path / "b").status == "unfinished"
        again = CliRunner().invoke(app, ["bench", "--folder", str(tmp_path / "b"), "--json"])
        assert statuses(told(again)) == {"suite/relu": "valid"}


def test_a_budget_for_models_ends_a_search_with_what_it_has(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    tasks = suite(tmp_path, relu=TASK)
    with model_place(tmp_path, "openai") as place:
        done = CliRunner().invoke(
            app, words(tasks, tmp_path / "b", "--model", place.model, "--tokens", "20000")
        )
        assert statuses(told(done)) == {"suite/relu": "valid"}
    found = result(tmp_path / "b")
    assert "budget for models is spent" in found.reason and 0 < found.spent.tokens <= 20_000


def test_what_a_review_rejects_is_no_result(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    quoted = {"kind": "shortcut", "why": "it does too little", "line": "(unsigned)((n + 255) / 256)"}
    against = plays(soft_verifier=lambda text: {"verdict": "reject", "findings": [quoted]})
    with model_place(tmp_path, "openai", against) as place:
        done = CliRunner().invoke(
            app, words(suite(tmp_path, relu=TASK), tmp_path / "b", "--model", place.model)
        )
        (row,) = told(done)["tasks"]
    found = result(tmp_path / "b")
    assert row["gain_over_first"] == pytest.approx(1.0) and None in found.judged


def test_a_recorded_bench_is_replayed_without_a_server(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    tasks = suite(tmp_path, relu=TASK, more=TASK.replace("cols = 2048", "cols = 1024"))
    record = str(tmp_path / "record")
    with model_place(tmp_path, "openai") as place:
        first = told(
            CliRunner().invoke(app, words(tasks, tmp_path / "a", "--model", place.model, "--record", record))
        )
    again = words(tasks, tmp_path / "b", "--replay", record)
    second = told(CliRunner().invoke(app, again))
    assert [row["applied"] for row in second["tasks"]] == [row["applied"] for row in first["tasks"]]
    assert [row["tokens"] for row in second["tasks"]] == [0, 0]


def test_a_person_may_play_the_model(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, tmp_path)
    desk = tmp_path / "desk"
    with person_at(desk):
        played = CliRunner().invoke(
            app, words(suite(tmp_path, relu=TASK), tmp_path / "b", "--model", f"handoff:{desk}")
        )
    assert statuses(told(played)) == {"suite/relu": "valid"}
    assert f"{desk}" in played.stderr


def test_agents_are_compared(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, tmp_path)
    given = [
        "ablate",
        str(suite(tmp_path, relu=TASK)),
        "--studies",
        "agents",
        "--folder",
        str(tmp_path / "a"),
    ]
    given += ["--device", "emulated", "--workers", "1", "--seeds", "0", "--budget", "2"]
    given += ["--rollouts", "1", "--steps", "1", "--choices", "1"]
    with model_place(tmp_path, "openai") as place:
        done = CliRunner().invoke(app, [*given, "--model", place.model])
        assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"
        asked = Counter(map(role_of, place.script.calls))
        calls = len(place.script.calls)
    assert "estimate: " in done.stderr
    with Ablation.open(tmp_path / "a") as opened:
        spent = {one.arm.removeprefix("agents: "): one.spent.tokens for one in opened.results.values()}
        assert {one.status for one in opened.results.values()} == {"valid"}
    assert set(spent) == {"full", "no memory", "cycles only", "minimal"}
    assert sum(spent.values()) == calls * sum(USAGE) and min(spent.values()) > 0
    assert asked["plain"] >= 1 and asked["lowerer"] >= 3, "no arm is answered from another one's questions"
    text = (tmp_path / "a" / "studies.md").read_text()
    assert "tokens a search" in text and "1 tasks are too few to say" in text and place.model in text


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["bench", "core", "--policy", "llm"], "--policy llm: name the model"),
        (["bench", "core", "--strategy", "minimal"], "a language model is needed"),
        (["bench", "core", "--policy", "expert", "--model", "openai:x"], "--policy expert asks no model"),
        (["ablate", "core", "--studies", "agents"], "the study `agents` compares ways to use a language"),
        (["ablate", "core", "--model", "x"], "is no model"),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_begins(
    tmp_path: Path, given: list[str], why: str
) -> None:
    done = CliRunner().invoke(app, [*given, "--device", "emulated", "--folder", str(tmp_path / "x")])
    assert isinstance(done.exception, KernelBlasterError) and why in str(done.exception)
    assert not (tmp_path / "x").exists()


def test_a_missing_key_is_said_before_a_task_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    tasks = suite(tmp_path, relu=TASK)
    done = CliRunner().invoke(app, words(tasks, tmp_path / "b", "--model", "openai:gpt-6-luna"))
    assert "OPENAI_API_KEY" in str(done.exception) and not (tmp_path / "b" / "runs").exists()
