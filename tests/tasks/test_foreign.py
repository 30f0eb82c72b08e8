"""However a task's code ends, it is an error of the task: the command goes on, and a real Ctrl-C stops it."""

import gc
import os
import signal
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelblaster.cli.main import app
from kernelblaster.errors import BadTask
from kernelblaster.tasks import module_file
from kernelblaster.tasks.catalog import load_file
from kernelblaster.tasks.foreign import foreign

TASK = """import sys
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        INIT
    def forward(self, x):
        FORWARD
        return x * 2
def get_inputs():
    INPUTS
    return [torch.rand(8, 8)]
def get_init_inputs():
    return []
IMPORT
"""
PLACES = {"IMPORT": 15, "INIT": 6, "INPUTS": 11, "FORWARD": 8}
ENDS = {
    "sys.exit(0)": "SystemExit",
    "sys.exit('bye\\x1b[2J')": "SystemExit",
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "raise GeneratorExit": "GeneratorExit",
    "raise type('Own', (BaseException,), {})('x' * 10**6)": "Own",
    "raise type('Mute', (BaseException,), {'__str__': lambda self: sys.exit(0)})": "Mute",
    "(f := lambda: f())()": "RecursionError",
    "bytearray(1 << 62)": "MemoryError",
}


def task(place: str, code: str) -> str:
    text = TASK.replace(place, code)
    for other in PLACES:
        text = text.replace(other, "pass")
    return text


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("code", ENDS)
def test_the_error_names_the_file_and_the_line(place: str, code: str, tmp_path: Path) -> None:
    path = tmp_path / "task.py"
    path.write_text(task(place, code))
    with pytest.raises(BadTask) as caught:
        load_file("task", path, "float32")
    words = str(caught.value)
    assert str(path) in words and len(words) < 1000 and "\x1b" not in words
    if ENDS[code] not in ("RecursionError", "MemoryError") or place != "FORWARD":
        assert f"{path}:{PLACES[place]}" in words and ENDS[code] in words


def test_a_check_does_not_succeed_because_a_task_ends_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(task("IMPORT", "sys.exit(0)"))
    (tmp_path / "b.py").write_text(task("IMPORT", "raise KeyboardInterrupt"))
    done = CliRunner().invoke(app, ["tasks", "check", str(tmp_path)])
    assert done.exit_code == 1 and done.output.count("unfit") == 2 and "0 of 2 fit" in done.output


def test_a_loop_without_an_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_file, "IMPORT_LIMIT_S", 0.1)
    with pytest.raises(BadTask, match=r"t\.py:1: TookTooLong: took longer than 0\.1 s"):
        module_file.ModuleFile("while True: pass", "t.py")


def test_a_real_interrupt_stops_the_command() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    gc.disable()  # what is raised in a callback of the collector is ignored, an interrupt too
    try:
        with pytest.raises(KeyboardInterrupt), foreign("t.py"):
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(10)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, before)
