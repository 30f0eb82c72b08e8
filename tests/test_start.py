"""How much a command loads before it does its work: what it starts with counts each time."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelblaster.processes import collection

RELU = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(64, 16)]

def get_init_inputs():
    return []
"""
LOADED = "import sys; {}; print(*sorted(sys.modules))"
SHOWN = """
import gc, sys
from kernelblaster.__main__ import main

def told(*_):
    print(*sorted(sys.modules))
    print(gc.get_threshold()[0], gc.get_freeze_count())

import atexit
atexit.register(told)
main()
"""


def loaded_by(code: str, *arguments: str, **environment: str) -> list[str]:
    """The lines that a Python process prints which runs `code`."""
    command = [sys.executable, "-c", code, *arguments]
    given = {**os.environ, **environment}
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout.splitlines()


def test_what_a_command_imports_before_it_starts_anew_is_little() -> None:
    (bare,) = loaded_by(LOADED.format("import re"))
    (first,) = loaded_by(LOADED.format("import kernelblaster.__main__"))
    more = {*first.split()} - {*bare.split()}
    assert {name for name in more if not name.startswith("kernelblaster")} <= {"gc"}


def test_to_show_a_task_loads_no_judge_and_no_knowledge_base(tmp_path: Path) -> None:
    task = tmp_path / "relu.py"
    task.write_text(RELU)
    *_, modules, collector = loaded_by(
        SHOWN, "--trust-tasks", "tasks", "show", str(task), "--header", KERNELBLASTER_KEEPER="-1"
    )
    assert "torch" in modules.split()
    for part in ("judge.judge", "devices", "opening", "knowledge", "policies", "search", "optimize", "fleet"):
        assert f"kernelblaster.{part}" not in modules.split()
    assert "sqlalchemy" not in modules.split() and "rich.progress" not in modules.split()
    passes, frozen = map(int, collector.split())
    assert passes < collection.AT_START and frozen > 100_000


def test_garbage_is_looked_for_as_usual_once_a_task_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, frozen = gc.get_threshold(), gc.get_freeze_count()
    collection.collect_as_usual()
    assert gc.get_freeze_count() == frozen  # a program that imports this package keeps its objects
    monkeypatch.setattr(gc, "freeze", lambda: None)
    collection.collect_rarely()
    try:
        assert gc.get_threshold()[0] == collection.AT_START
        collection.collect_as_usual()
        assert gc.get_threshold() == usual
    finally:
        gc.set_threshold(*usual)
