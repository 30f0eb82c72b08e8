"""Runs survive crashes, second writers, full disks and meddling."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import zlib
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


def test_every_flip_of_a_bit_is_found_in_whichever_line(tmp_path: Path) -> None:
    """Also in the last one, and in the ends of lines."""
    with create_run(tmp_path, task="t") as run:
        for number in range(3):
            run.append("one", value=number)
        log, events = run.folder / LOG, list(run.events)
    good = log.read_bytes()
    rng = random.Random(1)
    for place in [*rng.sample(range(len(good)), 150), len(good) - 1, good.index(b"\n")]:
        flipped = good[place] ^ (1 << rng.randrange(8))
        log.write_bytes(good[:place] + bytes([flipped]) + good[place + 1 :])
        number = good[:place].count(b"\n") + 1
        with pytest.raises(StoreError, match=rf"line {number} is damaged|has format"):
            open_run(tmp_path, run.name)
    log.write_bytes(good)
    with open_run(tmp_path, run.name) as again:
        assert again.events == events


def test_lines_that_changed_places_or_are_missing_are_found(tmp_path: Path) -> None:
    with create_run(tmp_path) as run, create_run(tmp_path) as other:
        for one in (run, other):
            one.append("one", value=1)
            one.append("two", value=2)
    log = run.folder / LOG
    mine, theirs = log.read_bytes().splitlines(True), (other.folder / LOG).read_bytes().splitlines(True)
    for damaged in ([mine[0], theirs[1], mine[2]], [mine[0], mine[2]], [mine[0], mine[1], mine[1]]):
        log.write_bytes(b"".join(damaged))
        with pytest.raises(StoreError, match=r"line [23] is damaged"):
            open_run(tmp_path, run.name)


def test_a_line_that_was_cut_off_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with create_run(tmp_path) as run:
        run.append("one", value=1)
        (run.folder / "files").mkdir()
        (run.folder / "files" / ".writing-x").write_text("half")
    os.truncate(run.folder / LOG, (run.folder / LOG).stat().st_size - 9)
    with open_run(tmp_path, run.name, writing=True) as again:
        assert len(again.events) == 1
    assert "the last line was cut off while it was written; it is dropped" in caplog.text
    assert not list(run.folder.rglob(".writing-*"))


def test_runs_of_earlier_versions_are_read_and_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    texts = [b'{"number":%d,"at":5.0,"kind":"k","key":"","data":{"n":%d}}' % (n, n) for n in range(2)]
    old = b"".join(b"%08x %s\n" % (zlib.crc32(text), text) for text in texts)
    (tmp_path / "old" / LOG).write_bytes(old)
    with open_run(tmp_path, "old", writing=True) as run:
        assert [event.data["n"] for event in run.events] == [0, 1] and run.id == "old"
        run.append("k", n=2)
    with open_run(tmp_path, "old") as run:
        assert [event.data["n"] for event in run.events] == [0, 1, 2]
    (tmp_path / "old" / LOG).write_bytes(
        (tmp_path / "old" / LOG).read_bytes().replace(old, old[:9] + old[10:])
    )
    with pytest.raises(StoreError, match="line 1 is damaged"):
        open_run(tmp_path, "old")


def test_runs_of_later_versions_say_so(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / LOG).write_text('{"format":3,"hello":"there"}\n{"other":1}\n')
    with pytest.raises(StoreError, match=r"has format 3, .* reads up to format 2; install a later one"):
        open_run(tmp_path, "new")


def test_a_copy_is_the_same_run_and_two_runs_are_not(tmp_path: Path) -> None:
    with create_run(tmp_path) as one, create_run(tmp_path) as other:
        assert one.id != other.id
    shutil.copytree(one.folder, tmp_path / "copy")
    with open_run(tmp_path, "copy") as copy:
        assert copy.id == one.id and copy.name != one.name


def test_a_text_that_was_damaged_is_kept_again(tmp_path: Path) -> None:
    files = Files(tmp_path)
    name = files.put("a kernel")
    next(tmp_path.rglob(name)).write_text("a kernal")
    assert files.put("a kernel") == name and files.get(name) == "a kernel"
