"""Whole runs of `optimize --model` on the emulated device, against a server on loopback."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from kernelblaster.cli.main import app
from kernelblaster.models import choice
from kernelblaster.models.factory import Service
from kernelblaster.models.retries import Patience
from kernelblaster.models.wire import CallLimits
from kernelblaster.store.run import run_folders
from tests.cli.test_commands import ROOT
from tests.models.server import Action, Says, Script, serving
from tests.policies.llm.played import TASK, plays, role_of

TASK_FILE = "relu.py"  # from within the folder: what a search draws depends on the task's name
SHORT = ("--budget", "3", "--iterations", "1", "--rollouts", "1", "--choices", "1", "--steps", "1")


@dataclass
class Place:
    """A folder with a task, a model on a server that plays a script, and runs."""

    folder: Path
    model: str
    script: Script
    waits: list[float] = field(default_factory=list)

    def words(self, *more: str) -> list[str]:
        places = ["--kb", str(self.folder / "kb.db"), "--runs", str(self.folder / "runs")]
        (self.folder / TASK_FILE).write_text(TASK)
        return ["optimize", TASK_FILE, "--device", "emulated", "--json", *places, *more]

    @property
    def run(self) -> Path:
        return run_folders(self.folder / "runs")[-1]

    def optimize(self, *more: str) -> Result:
        """In this process, with the model."""
        return CliRunner().invoke(app, self.words("--model", self.model, *more))

    def invoke(self, words: list[str]) -> Result:
        return CliRunner().invoke(app, words)

    def resume(self, *more: str) -> Result:
        words = ["resume", self.run.name, "--runs", str(self.folder / "runs"), "--json", *more]
        return CliRunner().invoke(app, words)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """In a process of its own, which Ctrl-C stops also where these tests run in the background."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        pipe = subprocess.PIPE
        command = ["env", "--default-signal=INT", sys.executable, "-m", "kernelblaster", *words]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )

    @property
    def best(self) -> str:
        return (self.run / "best.cu").read_text()

    @property
    def roles(self) -> list[str]:
        return [role_of(call) for call in self.script.calls]

    def prices(self) -> Path:
        """A table with the model's price."""
        kind, _, rest = self.model.partition(":")
        path = self.folder / "prices.toml"
        rates = "{ input = 2.0, cached = 0.5, output = 10.0 }"
        path.write_text(f'[{kind}]\ndate = "2026-01-01"\nsource = "test"\nmodels."{rest}" = {rates}\n')
        return path


def told(result: Result) -> dict[str, Any]:
    """What a run or a bench that ended printed; a run's exit code tells whether it found something faster."""
    assert result.exit_code in (0, 1), f"{result.output}\n{result.stderr}\n{result.exception!r}"
    found: dict[str, Any] = json.loads(result.stdout)
    if "verdict" in found:
        assert result.exit_code == (0 if found["verdict"] == "Accepted" else 1)
    return found


@contextmanager
def model_place(
    folder: Path, protocol: str, *actions: Action | Callable[[dict[str, Any]], Action]
) -> Iterator[Place]:
    """A place whose server does these things; without any, it plays well."""
    script = Script(*(actions or (plays(),)))
    with serving(script) as address:
        model = f"{protocol}:m@{address}" + ("/v1" if protocol == "openai" else "")
        yield Place(folder, model, script)


def impatient(place_waits: list[float]) -> Callable[..., Service]:
    """Services that give up on silence soon, and note waits instead of making them."""

    def make(**fields: Any) -> Service:
        limits = CallLimits(connect_s=2, silence_s=1.0, call_s=30)
        patience = Patience(tries=4, sleep=place_waits.append)
        return replace(Service(**fields), limits=limits, patience=patience)

    return make


def use(monkeypatch: Any, folder: Path) -> list[float]:
    """Own data, within the folder, an impatient service; returns where waits are noted."""
    waits: list[float] = []
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KERNELBLASTER_DATA", str(folder / "data"))
    monkeypatch.setattr(choice, "Service", impatient(waits))
    return waits


@contextmanager
def person_at(desk: Path) -> Iterator[None]:
    """Someone who answers what is handed off there."""
    done, play = threading.Event(), plays()

    def answering() -> None:
        while not done.wait(0.01):
            for question in desk.glob("[0-9]*/prompt.md"):
                if not (question.parent / "answer.json").exists():
                    _answer(question.parent, play)

    person = threading.Thread(target=answering)
    person.start()
    try:
        yield
    finally:
        done.set()
        person.join()


def _answer(folder: Path, play: Callable[[dict[str, Any]], Action]) -> None:
    """As a person would: from what is in the folder, a source in a file of its own."""
    text = (folder / "prompt.md").read_text().split("# The question\n\n")[1]
    action = play({"messages": [{"role": "user", "content": text}]})
    assert isinstance(action, Says)
    value = json.loads(action.text)
    assert set(json.loads((folder / "schema.json").read_text()).get("required", ())) <= set(value)
    if value.get("source"):
        (folder / "kernel.cu").write_text(value["source"])
        value["source"] = "@file:kernel.cu"
    (folder / ".answer").write_text(json.dumps(value))
    os.replace(folder / ".answer", folder / "answer.json")  # noqa: PTH105
