"""Runs survive crashes, second writers, full disks and meddling."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelblaster.errors import StoreError
from kernelblaster.store.events import EventLog
from kernelblaster.store.files import Files
from kernelblaster.store.run import LOG, create_run, open_run, run_folders

STEPS = 40
# A search whose every choice depends on all that came before it, and that keeps a file at each step.
PROGRAM = f"""
import random, sys, time
from pathlib import Path
from kernelblaster.store.run import open_run

with open_run(Path(sys.argv[1]), sys.argv[2], writing=True) as run:
    rng, best = random.Random(7), 1.0
    for step in range({STEPS}):
        draw = rng.random()
        def judge():
            time.sleep(0.002)
            kept = run.files.put(f"kernel {{step}} {{best}}")
            return {{"speedup": best * (0.9 + 0.3 * draw), "file": kept}}
        found = run.once("step", str(step), judge)
        best = max(best, found["speedup"])
    run.once("finished", "end", lambda: {{"best": best}})
"""


def search(root: Path, name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(root), name])


def outcome(root: Path, name: str) -> list[tuple[str, str, dict[str, object]]]:
    with open_run(root, name) as run:
        texts = [run.files.get(e.data["file"]) for e in run.events if e.kind == "step"]
        assert len(texts) == STEPS
        return [(e.kind, e.key, e.data) for e in run.events if e.kind != "created"]


def test_a_run_that_is_killed_again_and_again_ends_as_one_that_was_not(tmp_path: Path) -> None:
    names = []
    for _ in range(2):
        with create_run(tmp_path, task="t") as run:
            names.append(run.name)
    assert search(tmp_path, names[0]).wait() == 0
    rng = random.Random(3)
    killed = 0
    while killed < 20:
        process = search(tmp_path, names[1])
        time.sleep(rng.uniform(0.05, 0.5))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        killed += 1
    assert search(tmp_path, names[1]).wait() == 0
    assert outcome(tmp_path, names[0]) == outcome(tmp_path, names[1])


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_what_a_crash_cut_off_was_never_written(tmp_path: Path, cut: int) -> None:
    with create_run(tmp_path) as run:
        run.append("one", value=1)
        run.append("two", value=2)
        log = run.folder / LOG
    os.truncate(log, log.stat().st_size - cut)
    with open_run(tmp_path, run.name, writing=True) as again:
        assert [e.kind for e in again.events] == ["created", "one"]
        again.append("three", value=3)
    with open_run(tmp_path, run.name) as read:
        assert [e.kind for e in read.events] == ["created", "one", "three"]


def test_a_changed_event_is_found(tmp_path: Path) -> None:
    with create_run(tmp_path) as run:
        run.append("one", value=1)
        run.append("two", value=2)
        log = run.folder / LOG
    log.write_bytes(log.read_bytes().replace(b'"value":1', b'"value":9'))
    with pytest.raises(StoreError, match="line 2 is damaged"):
        open_run(tmp_path, run.name)


def test_two_writers(tmp_path: Path) -> None:
    with create_run(tmp_path) as run:
        with pytest.raises(StoreError, match="another process"):
            open_run(tmp_path, run.name, writing=True)
        with open_run(tmp_path, run.name) as reader, pytest.raises(StoreError, match="reading only"):
            reader.append("one")


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with create_run(tmp_path) as run:
        run.append("one", value=1)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(StoreError, match="No space left"):
                run.append("two", value=2)
            with pytest.raises(StoreError, match="No space left"):
                run.files.put("text")
        run.append("three", value=3)
    with open_run(tmp_path, run.name) as again:
        assert [e.kind for e in again.events] == ["created", "one", "three"]
    assert not list(run.folder.rglob(".writing-*"))


def test_files_are_kept_by_content(tmp_path: Path) -> None:
    files = Files(tmp_path)
    name = files.put("a kernel")
    assert files.put("a kernel") == name and files.get(name) == "a kernel"
    next(tmp_path.rglob(name)).write_text("another")
    with pytest.raises(StoreError, match="changed"):
        files.get(name)
    with pytest.raises(StoreError):
        files.get("0" * 32)


def test_runs_are_found_by_the_beginning_of_their_name(tmp_path: Path) -> None:
    with create_run(tmp_path, task="t") as run:
        pass
    assert [f.name for f in run_folders(tmp_path)] == [run.name]
    with open_run(tmp_path, run.name[:-2]) as found:
        assert found.events[0].data == {"task": "t"}
    with pytest.raises(StoreError, match="there is no run"):
        open_run(tmp_path, "nothing")
    with pytest.raises(StoreError):
        EventLog(tmp_path / "missing", writing=False)
