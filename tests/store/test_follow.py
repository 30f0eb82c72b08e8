"""A log is followed while it is written: half lines wait, damage is named, replaced files are read anew."""

import json
import os
import threading
from pathlib import Path

import pytest

from kernelblaster.errors import StoreError
from kernelblaster.store import tail
from kernelblaster.store.follow import FollowedRun
from kernelblaster.store.history import History
from kernelblaster.store.run import LOG, Run, create_run, open_run
from tests.report.made_run import made_run


@pytest.fixture(autouse=True)
def not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda file: None)


def kinds(run: FollowedRun) -> list[str]:
    return [event.kind for event in run.events]


def test_what_is_appended_is_seen_and_nothing_is_read_twice(tmp_path: Path) -> None:
    with create_run(tmp_path, task="t") as run:
        followed = FollowedRun(run.folder)
        assert followed.update() and kinds(followed) == ["created"] and not followed.update()
        run.append("one", x=1)
        run.once("two", "k", lambda: {"y": [1, 2]})
        assert followed.update() and [event.data for event in followed.events[1:]] == [
            {"x": 1},
            {"y": [1, 2]},
        ]
        assert list(followed.events) == run.events and followed.damage == ""


def test_a_line_that_is_half_written_waits_for_its_end(tmp_path: Path) -> None:
    with create_run(tmp_path, task="t") as run:
        run.append("one", text="x" * 100)
    log = run.folder / LOG
    whole = log.read_bytes()
    followed = FollowedRun(run.folder)
    for cut in range(len(whole.split(b"\n")[0]) + 1, len(whole)):
        log.write_bytes(whole[:cut])
        os.utime(log, ns=(cut, cut))
        followed.update()
        assert kinds(followed) == ["created"] and followed.damage == ""
    log.write_bytes(whole)
    assert followed.update() and kinds(followed) == ["created", "one"]


def test_a_damaged_line_is_named_and_what_came_before_it_stays(tmp_path: Path) -> None:
    with create_run(tmp_path, task="t") as run:
        run.append("one")
        run.append("two")
    log = run.folder / LOG
    log.write_bytes(log.read_bytes().replace(b'"two"', b'"tw0"'))
    followed = FollowedRun(run.folder)
    assert followed.update() and kinds(followed) == ["created", "one"]
    assert "line 3 is damaged; the 2 before it are whole" in followed.damage
    assert not followed.update()


@pytest.mark.parametrize("junk", [b"\x00\xff\n", b"{}\n", b'{"format": 99}\n', b"[" * 5000 + b"\n"])
def test_what_is_no_log_is_damaged_and_not_fatal(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / LOG).write_bytes(junk)
    followed = FollowedRun(tmp_path)
    assert followed.update() and followed.damage and kinds(followed) == []


def test_folders_come_and_go(tmp_path: Path) -> None:
    followed = FollowedRun(tmp_path / "r")
    assert not followed.update() and followed.damage == ""
    made_run(tmp_path / "r", [("Accepted", 50.0)])
    assert followed.update() and followed.events
    (tmp_path / "r" / LOG).unlink()
    assert not followed.update() and followed.events, "what was read stays"
    (tmp_path / "r").rename(tmp_path / "gone")
    made_run(tmp_path / "r", [("Accepted", 50.0), ("Accepted", 40.0)])
    assert followed.update() and len(History(followed).judged) == 2, "another run in its place is read anew"


def test_a_log_that_was_cut_off_is_read_anew(tmp_path: Path) -> None:
    with create_run(tmp_path, task="t") as run:
        run.append("one")
    followed = FollowedRun(run.folder)
    followed.update()
    first = (run.folder / LOG).read_bytes().split(b"\n")[0] + b"\n"
    (run.folder / LOG).write_bytes(first)
    assert followed.update() and kinds(followed) == ["created"]


def test_events_are_kept_small_and_read_again_when_wanted(tmp_path: Path) -> None:
    with create_run(tmp_path, task="t") as run:
        run.append("large", text="x" * 10_000)
    followed = FollowedRun(run.folder, lambda event: event.model_copy(update={"data": {}}))
    followed.update()
    assert followed.events[1].data == {} and followed.whole(1).data == {"text": "x" * 10_000}
    (run.folder / LOG).unlink()
    with pytest.raises(StoreError, match="cannot be read any more"):
        followed.whole(1)


def test_large_logs_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "AT_ONCE", 1000)
    with create_run(tmp_path, task="t") as run:
        for number in range(30):
            run.append("some", text="x" * (40 * number))
    followed = FollowedRun(run.folder)
    assert followed.update() and len(followed.events) == 31


def test_runs_of_earlier_versions_are_followed_too(tmp_path: Path) -> None:
    import zlib

    lines = []
    for number, kind in enumerate(("created", "evaluation")):
        text = json.dumps({"number": number, "at": 1.0, "kind": kind, "key": "", "data": {"task": "old"}})
        lines.append(f"{zlib.crc32(text.encode()):08x} {text}\n")
    (tmp_path / LOG).write_text("".join(lines))
    followed = FollowedRun(tmp_path)
    assert followed.update() and kinds(followed) == ["created", "evaluation"]
    assert followed.whole(1).data == {"task": "old"}


def test_a_writer_is_never_kept_from_writing(tmp_path: Path) -> None:
    with create_run(tmp_path, task="t") as run:
        name = run.name
    stop = threading.Event()

    def reading() -> None:
        while not stop.is_set():
            FollowedRun(tmp_path / name).update()

    reader = threading.Thread(target=reading)
    reader.start()
    try:
        for number in range(60):
            with open_run(tmp_path, name, writing=True) as opened:
                opened.append("again", number=number)
    finally:
        stop.set()
        reader.join()
    followed = FollowedRun(tmp_path / name)
    followed.update()
    assert len(followed.events) == 61
    with Run(tmp_path / name, writing=False) as whole:
        assert list(followed.events) == whole.events
