"""Whatever becomes of a knowledge base's file is named, or has no effect; what can be made again is."""

import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner

from kernelblaster.cli.main import app
from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge import Content, KnowledgeBase, KnowledgeEvent, Provenance, plant, tables
from kernelblaster.knowledge.check import problems, repair
from kernelblaster.knowledge.drivers import sentence
from kernelblaster.knowledge.events import Revised
from kernelblaster.knowledge.initial import start_knowledge
from kernelblaster.knowledge.rows import summed

Known = tuple[Content, list[KnowledgeEvent]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with KnowledgeBase(tmp_path / "kb.db") as kb:
        plant(kb)
        state = next(iter(kb.content().entries))
        for number, technique in enumerate(kb.content().entries[state]):
            kb.observe(state, technique, 0.1 * number, Provenance(run="r", architecture="sm_90a"))
    return tmp_path / "kb.db"


def known(path: Path) -> Known:
    with KnowledgeBase(path, create=False) as kb:
        return kb.content(), kb.log()


def changed(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_a_flipped_bit_is_named_or_has_no_effect(path: Path) -> None:
    good, expected = path.read_bytes(), known(path)
    rng = random.Random(7)
    named = 0
    for _ in range(40):
        data = bytearray(good)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        try:
            assert known(path) == expected
        except KnowledgeError:
            named += 1
    assert 10 < named < 40


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "UPDATE kb_optimizations SET body = replace(body, '0', '1') WHERE technique = 'fast_math'",
            "fast_math",
        ),
        ("UPDATE kb_states SET body = replace(body, 'false', 'true')", "a row of kb_states"),
        ("UPDATE kb_events SET payload = replace(payload, '0', '1') WHERE version = 9", "version 9"),
        ("UPDATE kb_about SET rebuilt = 7", "a row of kb_about"),
        ("DELETE FROM kb_optimizations WHERE technique = 'fast_math'", "were written"),
        ("DELETE FROM kb_events WHERE version = 5", "events are missing"),
        ("DELETE FROM kb_about", "has format None"),
    ],
)
def test_what_is_changed_behind_its_back_is_named(path: Path, statement: str, message: str) -> None:
    changed(path, statement)
    with pytest.raises(KnowledgeError, match=message) as found:
        known(path)
    assert "kb check --repair" in str(found.value) and "restore a copy" in str(found.value)
    assert problems(path)


def test_what_follows_from_the_events_is_made_again(path: Path) -> None:
    expected = known(path)
    changed(
        path, "UPDATE kb_states SET body = '{'", "DELETE FROM kb_optimizations WHERE technique = 'fast_math'"
    )
    before = path.read_bytes()
    run = CliRunner().invoke(app, ["kb", "check", "--kb", str(path)])
    assert run.exit_code == 1 and "a row of kb_states (name " in run.output and path.read_bytes() == before
    run = CliRunner().invoke(app, ["kb", "check", "--kb", str(path), "--repair"])
    assert run.exit_code == 0 and "made again from its events; the damaged one is kept" in run.output
    assert known(path) == expected and (path.parent / "kb.db.damaged").read_bytes() == before
    run = CliRunner().invoke(app, ["kb", "check", "--kb", str(path)])
    assert run.exit_code == 0 and "everything is what was written" in run.output


def test_damaged_events_cannot_be_made_again(path: Path) -> None:
    changed(path, "UPDATE kb_events SET payload = '{' WHERE version = 9", "UPDATE kb_states SET body = '{'")
    run = CliRunner().invoke(app, ["kb", "check", "--kb", str(path), "--repair"])
    assert isinstance(run.exception, KnowledgeError) and "from version 9 on" in str(run.exception)


def test_an_earlier_format_is_brought_to_the_present_one(path: Path) -> None:
    expected = known(path)
    dropped = [f"ALTER TABLE kb_{table} DROP COLUMN sum" for table in ("events", "states", "optimizations")]
    dropped += [
        f"ALTER TABLE kb_about DROP COLUMN {name}" for name in ("sum", "version", "states", "optimizations")
    ]
    changed(path, *dropped, "UPDATE kb_about SET format = 1")
    assert known(path) == expected and problems(path) == []
    with KnowledgeBase(path) as kb:
        kb.note(next(iter(kb.content().states)), "goes on")
    assert len(known(path)[1]) == len(expected[1]) + 1


def test_a_file_of_the_format_before_opens_and_takes_new_kinds_of_events(path: Path) -> None:
    expected = known(path)
    with KnowledgeBase(path) as kb:
        counts = {"rebuilt": 0, "version": kb.version, "states": len(kb.content().states)}
        counts["optimizations"] = sum(map(len, kb.content().entries.values()))
    row = summed(tables.about, {"format": 2, **counts})
    changed(path, f"UPDATE kb_about SET format = 2, rebuilt = 0, sum = '{row['sum']}'")
    assert known(path) == expected and problems(path) == []
    with KnowledgeBase(path) as kb:
        state, technique = next((s, t) for s, row in kb.content().entries.items() for t in row)
        kb.record([Revised(state=state, technique=technique, description="better", notes=("one",))])
        assert kb.content().entry(state, technique).description == "better"
    assert problems(path) == []


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("canceling statement due to lock timeout", "", "held by another process for too long"),
        ("canceling statement due to statement timeout", "", "held by another process for too long"),
        ("disk I/O error", "SQLITE_IOERR_NOMEM", "not enough memory"),
        ("disk I/O error", "SQLITE_IOERR_WRITE", "the disk is full or failing"),
    ],
)
def test_what_a_database_says_is_understood(words: str, code: str, message: str) -> None:
    cause = sqlite3.OperationalError(words)
    cause.sqlite_errorname = code
    assert message in sentence(OperationalError("select", {}, cause), "read")


@pytest.fixture
def left(path: Path, tmp_path: Path) -> Path:
    """As a process that was killed leaves it: what was written last is in SQLite's log alone."""
    with KnowledgeBase(path) as kb:
        for number in range(3):
            kb.note(next(iter(kb.content().states)), f"note {number}")
        (tmp_path / "left").mkdir()
        for kind in ("", "-wal", "-head"):
            shutil.copy(f"{path}{kind}", tmp_path / "left" / f"kb.db{kind}")
    return tmp_path / "left" / "kb.db"


def test_what_sqlite_drops_of_a_damaged_log_is_missed(left: Path, tmp_path: Path) -> None:
    log = Path(f"{left}-wal")
    good, rng = log.read_bytes(), random.Random(7)
    for number in range(15):
        data = bytearray(good)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        log.write_bytes(data)
        copy = Path(shutil.copytree(left.parent, tmp_path / str(number))) / "kb.db"
        with pytest.raises(KnowledgeError, match=r"had come to version \d+, and ends with \d+: its log"):
            known(copy)
        with pytest.raises(KnowledgeError, match="had come to version"):
            start_knowledge(str(copy), tmp_path / f"{number}.db")
    assert problems(copy) and repair(copy) is not None
    assert problems(copy) == [] and len(known(copy)[1]) > 0


def test_a_log_that_is_whole_is_read_and_nothing_stays_beside(left: Path) -> None:
    head = Path(f"{left}-head")
    head.write_bytes(head.read_bytes().replace(b"0", b"1", 1))  # not what was written: it says nothing
    assert known(left)[0].states and not head.exists() and not Path(f"{left}-wal").exists()


def test_a_new_one_in_the_place_of_another_is_not_blamed(left: Path) -> None:
    left.unlink()
    Path(f"{left}-wal").unlink()
    with KnowledgeBase(left) as kb:
        plant(kb)
    assert problems(left) == []
