"""`optimize`, `resume` and `runs` from the outside, on the emulated device."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.cli.test_commands import ROOT, run

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


def words(folder: Path, kb: str) -> list[str]:
    (folder / "relu.py").write_text(TASK)
    places = ["--kb", str(folder / kb), "--runs", str(folder / kb.removesuffix(".db"))]
    return ["optimize", str(folder / "relu.py"), "--device", "emulated", "--budget", "6", "--json", *places]


def test_a_task_is_made_faster_and_a_killed_run_ends_the_same(compiler: str, tmp_path: Path) -> None:
    done = run(*words(tmp_path, "one.db"))
    assert done.returncode == 0, done.stderr
    whole = json.loads(done.stdout)
    assert whole["gain_over_first"] > 1.2 and whole["applied"]
    best = Path(whole["best"]).read_text()
    assert "launch_gpu_implementation" in best

    command = [sys.executable, "-m", "kernelblaster", *words(tmp_path, "two.db")]
    process = subprocess.Popen(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT / "src"), **_environment()})
    log = tmp_path / "two"
    while not list(log.glob("*/events.jsonl")) or "evaluation" not in _events(log):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    listed = json.loads(run("runs", "list", "--runs", str(log), "--json").stdout)
    again = run("resume", listed[0]["run"][:18], "--runs", str(log), "--json")
    assert again.returncode == 0, again.stderr
    resumed = json.loads(again.stdout)
    assert Path(resumed["best"]).read_text() == best
    assert resumed["applied"] == whole["applied"]
    told = run("runs", "show", listed[0]["run"], "--runs", str(log)).stdout
    assert "knowledge base at version" in told and "finished" in told


def test_what_cannot_be_optimized_is_said(compiler: str, tmp_path: Path) -> None:
    done = run("resume", "nothing", "--runs", str(tmp_path))
    assert done.returncode == 2 and "there is no run nothing" in done.stderr
    kb = str(tmp_path / "kb.db")
    task = "core/level1/conv3d"
    refused = run("optimize", task, "--device", "emulated", "--kb", kb, "--runs", str(tmp_path / "runs"))
    assert refused.returncode == 2 and "does not cover" in refused.stderr


def _events(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.glob("*/events.jsonl"))


def _environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
