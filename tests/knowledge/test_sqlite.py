"""A knowledge base in a file: the contract, and what is said when the file or the disk fails."""

import os
import sqlite3
from pathlib import Path

import pytest

from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge import KnowledgeBase, plant
from kernelblaster.records import State
from kernelblaster.testing.knowledge_contract import HERE, KnowledgeContract, technique


class TestSqlite(KnowledgeContract):
    @pytest.fixture
    def where(self, tmp_path: Path) -> Path:
        return tmp_path / "kb.db"


def test_a_missing_file_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeError, match="there is no such knowledge base"):
        KnowledgeBase(tmp_path / "none.db", create=False)
    assert not (tmp_path / "none.db").exists()


def test_a_text_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all\n" * 100)
    with pytest.raises(KnowledgeError, match="is damaged, or not a knowledge base"):
        KnowledgeBase(path)


def test_a_foreign_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "music.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    with pytest.raises(KnowledgeError, match=r"database of something else \(songs\)"):
        KnowledgeBase(path)


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    KnowledgeBase(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE kb_about SET format = 7")
    with pytest.raises(KnowledgeError, match="has format 7"):
        KnowledgeBase(path)


def test_a_damaged_file_is_said_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    with KnowledgeBase(path) as kb:
        plant(kb)
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(KnowledgeError, match="damaged"):
        KnowledgeBase(path).content()


def test_a_damaged_row_is_said(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    with KnowledgeBase(path) as kb:
        plant(kb)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE kb_optimizations SET body = '{\"state\"' WHERE technique = 'fast_math'")
    with pytest.raises(KnowledgeError, match="is damaged: a row"):
        KnowledgeBase(path).content()


def test_a_full_disk_loses_only_what_did_not_fit(tmp_path: Path) -> None:
    kb = KnowledgeBase(tmp_path / "kb.db")
    kb.add_state(State(name="slow", primary="latency"))
    kb.add_optimization("slow", technique("tile"))
    with kb._database.engine.connect() as connection:  # SQLite's own limit gives the error of a full disk
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    recorded = kb.version
    with pytest.raises(KnowledgeError, match="the disk is full"):
        for _ in range(1000):
            recorded = kb.observe("slow", "tile", 0.1, HERE)
    assert kb.version == recorded > 2
    again = KnowledgeBase(tmp_path / "kb.db")
    assert again.content() == kb.content() == again.at(recorded)
    again.observe("slow", "tile", 0.1, HERE)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeError, match="cannot be created"):
        KnowledgeBase("/proc/nowhere/kb.db")
    with pytest.raises(KnowledgeError, match="is a folder"):
        KnowledgeBase(tmp_path)


@pytest.mark.parametrize("where", ["voodoo://host/kb", "://"])
def test_a_url_that_is_none(where: str) -> None:
    with pytest.raises(KnowledgeError):
        KnowledgeBase(where)


@pytest.mark.parametrize("result", [float("nan"), float("inf"), "Boring"])
def test_a_result_must_be_a_number_or_a_failure(tmp_path: Path, result: float | str) -> None:
    kb = KnowledgeBase(tmp_path / "kb.db")
    kb.add_state(State(name="slow", primary="latency"))
    kb.add_optimization("slow", technique("tile"))
    with pytest.raises(KnowledgeError, match="neither a finite log speedup nor a failure"):
        kb.observe("slow", "tile", result)  # type: ignore[arg-type]
    assert kb.version == 2
