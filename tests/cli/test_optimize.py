"""`optimize`, `resume`, `runs`, `verify` and `export` from the outside, on the emulated device."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kernelblaster.cli.main import app
from kernelblaster.errors import StoreError
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.store.run import create_run, open_run, run_folders
from tests.cli.test_commands import ROOT, Called, called, run

__all__ = ["called"]
TASK = """
import torch, torch.nn as nn
rows = 4096
cols = 2048
SMALL = {"rows": 5, "cols": 37}
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0 + 1.0
def get_inputs():
    return [torch.randn(rows, cols)]
def get_init_inputs():
    return []
"""
KILLS = 2


def words(task: Path, folder: Path) -> list[str]:
    places = ["--kb", str(folder / "kb.db"), "--runs", str(folder / "runs")]
    return ["optimize", str(task), "--device", "emulated", "--budget", "4", "--json", *places]


def start(*command: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen([sys.executable, "-m", "kernelblaster", *command], cwd=ROOT, env=environment)


def asked(whole: tuple[Path, dict[str, Any]], *command: str) -> Any:
    """A command about the run that ended, in this process."""
    folder, told = whole
    verbs = 2 if command[0] == "runs" else 1
    words = [*command[:verbs], told["run"], *command[verbs:], "--runs", str(folder / "runs")]
    return CliRunner().invoke(app, words)


def recorded(runs: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in runs.glob("*/events.jsonl"))


@pytest.fixture(scope="module")
def whole(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with a run that ended, and what the command printed."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "relu.py").write_text(TASK)
    done = run(*words(folder / "relu.py", folder))
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_a_task_is_made_faster_and_the_run_leaves_its_results(whole: tuple[Path, dict[str, Any]]) -> None:
    folder, told = whole
    assert told["gain_over_first"] > 1.2 and told["applied"]
    left = {path.name for path in (folder / "runs" / told["run"]).iterdir()}
    assert {"best.cu", "trajectory.json", "trajectory.md", "learned.json", "learned.md", "task.py"} <= left
    assert "launch_gpu_implementation" in Path(told["best"]).read_text()
    shown = run("runs", "show", told["run"], "--runs", str(folder / "runs")).stdout
    assert "knowledge base at version" in shown and "finished" in shown


def test_a_run_that_is_killed_again_and_again_ends_as_one_that_was_not(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, _ = whole
    total = recorded(folder / "runs")
    moments = sorted(random.Random(2).sample(range(2, total), KILLS))
    command = words(folder / "relu.py", tmp_path)
    for moment in moments:
        process = start(*command)
        while recorded(tmp_path / "runs") < moment:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        name = run_folders(tmp_path / "runs")[0].name
        command = ["resume", name[:18], "--runs", str(tmp_path / "runs"), "--json"]
    again = run(*command)
    assert again.returncode == 0, again.stderr
    assert _result(tmp_path) == _result(folder)


def test_the_best_candidate_is_judged_again_from_scratch(whole: tuple[Path, dict[str, Any]]) -> None:
    done = asked(whole, "verify", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["correct"] and found["speedup_holds"]
    assert not found["now"]["compilation"]["cached"]
    assert found["now"]["outcome"]["kind"] == found["then"]["outcome"]["kind"]


@pytest.mark.parametrize(
    ("form", "part"),
    [
        ("cu", "// applied: "),
        ("kernelbench", "class ModelNew(Model)"),
        ("module", "class OptimizedModel(Model)"),
    ],
)
def test_the_best_candidate_is_exported(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path, form: str, part: str
) -> None:
    done = asked(whole, "export", "--format", form, "-o", str(tmp_path / "file"))
    assert done.exit_code == 0, done.output
    text = (tmp_path / "file").read_text()
    assert part in text and whole[1]["run"] in text
    assert asked(whole, "export", "--format", form).stdout == text


def test_two_runs_are_compared(whole: tuple[Path, dict[str, Any]]) -> None:
    name = whole[1]["run"]
    assert "the two sources are the same" in asked(whole, "runs", "diff", name).stdout
    found = json.loads(asked(whole, "runs", "diff", name, "--json").stdout)
    assert found["settings"] == {} and found["best"][0]["gain_over_first"] == whole[1]["gain_over_first"]


def test_what_cannot_be_done_is_said(compiler: str, called: Called, tmp_path: Path) -> None:
    task = str(Path(__file__).parents[1] / "tasks" / "data" / "users" / "moe_router.py")
    places = ["--kb", str(tmp_path / "kb.db"), "--runs", str(tmp_path / "runs")]
    refused = called("optimize", task, "--device", "emulated", *places)
    assert refused.returncode == 2 and "does not cover" in refused.stderr
    for verb in ("resume", "verify", "export"):
        with pytest.raises(StoreError, match="there is no run nothing"):
            CliRunner().invoke(app, [verb, "nothing", "--runs", str(tmp_path)], catch_exceptions=False)
    assert run_folders(tmp_path / "runs") == []  # nothing was begun
    with create_run(tmp_path / "runs", task=task) as begun:
        empty = begun.name
    with pytest.raises(StoreError, match="no correct candidate yet"):
        CliRunner().invoke(app, ["export", empty, "--runs", str(tmp_path / "runs")], catch_exceptions=False)


def _result(folder: Path) -> tuple[str, Any, Any]:
    """All that must not depend on whether a run was killed; times and names are left out."""
    name = run_folders(folder / "runs")[0].name
    with open_run(folder / "runs", name) as ended, KnowledgeBase(folder / "kb.db") as knowledge:
        changes = [event.change for event in knowledge.log()]
        way = json.loads((ended.folder / "trajectory.json").read_text())
        return (ended.folder / "best.cu").read_text(), way, changes
