"""Kill a whole optimization at random moments, resume it, and compare with one that was left alone.

python benchmarks/kills.py [--kills 20] [--seed 0] [--out results/kills.md]

Each trial is a process of its own, `kernelblaster optimize` on the emulated device, with nothing of its
candidates in the compile cache. It is killed (SIGKILL) at a random moment: some time after a random one of
its events. Then `kernelblaster resume` takes it to its end. The best candidate, the trajectory and every
change of the knowledge base must be the same, in the same order.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.settings import settings
from kernelblaster.store.run import open_run, run_folders

ROOT = Path(__file__).parents[1]
TASK = """import torch, torch.nn as nn
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


@dataclass
class Trial:
    """One optimization in a folder of its own; the task is the same for all."""

    task: Path
    folder: Path
    budget: int = 6

    def begin(self) -> "subprocess.Popen[str]":
        (self.folder / "cache").mkdir(parents=True)
        for built in ("ptx", "native"):
            shared = settings().cache / built
            shared.mkdir(parents=True, exist_ok=True)
            (self.folder / "cache" / built).symlink_to(shared)
        words = ["optimize", str(self.task), "--device", "emulated", "--seed", "5"]
        return self._command(*words, "--budget", str(self.budget), "--kb", str(self.folder / "kb.db"))

    def resume(self) -> "subprocess.Popen[str]":
        return self._command("resume", run_folders(self.folder / "runs")[0].name)

    def recorded(self) -> int:
        return sum(path.read_bytes().count(b"\n") for path in self.folder.glob("runs/*/events.jsonl"))

    def events(self) -> list[str]:
        with open_run(self.folder / "runs", run_folders(self.folder / "runs")[0].name) as run:
            return [event.kind for event in run.events]

    def result(self) -> dict[str, Any]:
        """All that must not depend on whether it was killed: times and names of runs are left out."""
        run = run_folders(self.folder / "runs")[0]
        with KnowledgeBase(self.folder / "kb.db") as knowledge:
            changes = [event.change.model_dump(mode="json") for event in knowledge.log()]
        way = json.loads((run / "trajectory.json").read_text())
        return {"best.cu": (run / "best.cu").read_text(), "trajectory": way, "knowledge base": changes}

    def _command(self, *words: str) -> "subprocess.Popen[str]":
        command = [
            sys.executable,
            "-m",
            "kernelblaster",
            *words,
            "--runs",
            str(self.folder / "runs"),
            "--json",
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        environment["KERNELBLASTER_CACHE"] = str(self.folder / "cache")
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )


def finish(process: "subprocess.Popen[str]") -> None:
    _, errors = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"a run failed: {errors}")


def kill_and_resume(trial: Trial, after: int, delay_s: float) -> tuple[str, int]:
    """Kill it so long after so many events; what was recorded last by then, and how many events."""
    process = trial.begin()
    while trial.recorded() < after and process.poll() is None:
        time.sleep(0.005)
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    events = trial.events()
    finish(trial.resume())
    return events[-1], len(events)


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return [name for name in one if one[name] != other[name]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as root:
        task = Path(root) / "task.py"
        task.write_text(TASK)
        whole = Trial(task, Path(root) / "whole")
        finish(Trial(task, Path(root) / "first").begin())  # what is built once for a machine has its own time
        start = time.perf_counter()
        finish(whole.begin())
        length_s = time.perf_counter() - start
        expected, total = whole.result(), whole.recorded()
        lines = [
            "# Killed at random moments, resumed, compared",
            "",
            f"An undisturbed run took {length_s:.1f} s and recorded {total} events.",
            "",
            "| killed at | the last event | after resume |",
            "|---|---|---|",
        ]
        same = 0
        for number in range(arguments.kills):
            after, delay_s = rng.randint(1, total), rng.uniform(0, length_s / total)
            trial = Trial(task, Path(root) / str(number))
            last, count = kill_and_resume(trial, after, delay_s)
            wrong = differences(expected, trial.result())
            same += not wrong
            told = f"other {', '.join(wrong)}" if wrong else "the same"
            lines.append(f"| {count} of {total} events, and {delay_s:.2f} s | {last} | {told} |")
            print(lines[-1], flush=True)
        lines += ["", f"The same result after {same} of {arguments.kills} kills."]
    text = "\n".join(lines) + "\n"
    if arguments.out:
        arguments.out.write_text(text)
    print(text)
    sys.exit(0 if same == arguments.kills else 1)


if __name__ == "__main__":
    main()
