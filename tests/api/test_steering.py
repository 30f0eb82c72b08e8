"""`kb.steer` and `kb.stop`, and the commands that call them, on searches of other processes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

import kernelblaster as kb
from kernelblaster.cli.main import app
from kernelblaster.errors import KernelBlasterError, StoreError
from kernelblaster.store.run import create_run, open_run
from kernelblaster.store.writer import writer_of

HOLDS = """
import signal, sys, time
from pathlib import Path
from kernelblaster.store.run import open_run
how = {"deaf": lambda *_: None, "background": signal.SIG_IGN}  # else as in a terminal
signal.signal(signal.SIGINT, how.get(sys.argv[-1], signal.default_int_handler))
folder = Path(sys.argv[1])
with open_run(folder.parent, folder.name, writing=True) as run:
    try:
        print("open", flush=True)  # from here on it may be interrupted
        time.sleep(60)
    except KeyboardInterrupt:
        run.append("ended", by="interrupt")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with create_run(tmp_path, task="t") as run:
        return run.folder


@contextmanager
def working_on(folder: Path, *more: str) -> Iterator["subprocess.Popen[str]"]:
    """Another process that has the run open for writing."""
    command = [sys.executable, "-c", HOLDS, str(folder), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "open\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_search_is_asked_to_stop_only_while_it_runs(folder: Path) -> None:
    with pytest.raises(StoreError, match="no process"):
        kb.stop(folder)
    with working_on(folder):
        command = kb.stop(folder)
    assert command is not None and [one.action.kind for one, _ in kb.steering_of(folder)] == ["stop"]


def test_a_search_is_interrupted_now_and_what_it_recorded_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelblaster.store.control.ENDING_S", 60.0)  # of a busy machine
    with working_on(folder) as process:
        assert kb.stop(folder, now=True) is None
        assert process.wait(60) == 0 and writer_of(folder) is None
    with open_run(folder.parent, folder.name) as run:
        assert run.events[-1].kind == "ended"


def test_one_that_does_not_listen_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelblaster.store.control.ENDING_S", 0.4)
    with working_on(folder, "deaf") as process:
        kb.stop(folder, now=True)
        assert process.wait(5) == -15


def test_one_of_a_script_in_the_background_is_ended_without_waiting(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelblaster.store.control.ENDING_S", 60.0)
    with working_on(folder, "background") as process:
        kb.stop(folder, now=True)
        assert process.wait(5) == -15


def test_a_search_of_a_bench_is_only_asked(tmp_path: Path) -> None:
    with create_run(tmp_path, job="j", task="t") as run:
        with pytest.raises(StoreError, match="belongs to a bench"):
            kb.stop(run.folder, now=True)
        assert kb.stop(run.folder) is not None


def test_steering_from_python(folder: Path) -> None:
    kb.steer(folder, budget=40, pin=["a"], forbid=["b", "c"], release=["d"], note="hm", by="me")
    kinds = [(one.action.kind, one.by, taken) for one, taken in kb.steering_of(folder)]
    assert kinds == [(kind, "me", False) for kind in ("budget", "pin", "forbid", "forbid", "release", "note")]
    with pytest.raises(KernelBlasterError, match="technique"):
        kb.steer(folder, pin=["<b>"])
    with pytest.raises(StoreError, match="no run"):
        kb.steer(folder.parent / "gone", budget=3)


def test_steering_from_the_command_line(folder: Path) -> None:
    words = ["runs", "steer", str(folder), "--budget", "40", "--pin", "a", "--pin", "b", "--note", "\x1b[2J"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and "waiting  budget of 40 candidates (cli)" in done.output
    assert "\x1b" not in done.output and "\\x1b[2J" in done.output
    asked = json.loads(CliRunner().invoke(app, ["runs", "steer", str(folder), "--json"]).output)
    assert [one["action"]["kind"] for one in asked] == ["budget", "pin", "pin", "note"]
    assert not any(one["taken"] for one in asked)
    failed = CliRunner().invoke(app, ["runs", "stop", str(folder)])
    assert isinstance(failed.exception, StoreError)
    with open_run(folder.parent, folder.name, writing=True):
        stopped = json.loads(CliRunner().invoke(app, ["runs", "stop", str(folder), "--json"]).output)
    assert stopped["command"]["action"] == {"kind": "stop"} and stopped["stopped"] is False


def test_the_list_says_which_run_is_at_work(folder: Path) -> None:
    words = ["runs", "list", "--runs", str(folder.parent), "--json"]
    assert json.loads(CliRunner().invoke(app, words).output)[0]["state"] == "interrupted"
    with open_run(folder.parent, folder.name, writing=True):
        assert json.loads(CliRunner().invoke(app, words).output)[0]["state"] == "running"
