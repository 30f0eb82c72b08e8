"""The contract on a real PostgreSQL server; skipped where there is none to start."""

import logging
import socket
import time
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text

from kernelblaster.errors import KnowledgeError, KnowledgeUnreachable
from kernelblaster.knowledge import KnowledgeBase, drivers, tables
from kernelblaster.knowledge.database import Database
from kernelblaster.knowledge.pipelined import PipelinedWriter
from kernelblaster.records import State
from kernelblaster.testing.knowledge_contract import HERE, KnowledgeContract, technique
from kernelblaster.testing.postgres_server import PostgresServer


@pytest.mark.xdist_group("postgres")
class TestPostgres(KnowledgeContract):
    @pytest.fixture
    def where(self, postgres: PostgresServer) -> str:
        return postgres.database()


def test_a_lost_connection_is_said_and_nothing_recorded_is_lost(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELBLASTER_DATABASE_PATIENCE", "0.5")
    kb = KnowledgeBase(postgres.database())
    kb.add_state(State(name="slow", primary="latency"))
    kb.add_optimization("slow", technique("tile"))
    kb.observe("slow", "tile", 0.4, HERE)
    postgres.stop()
    try:
        with pytest.raises(KnowledgeError, match="connection to the database failed or was lost") as caught:
            kb.observe("slow", "tile", 0.4, HERE)
        assert "secret" not in str(caught.value)
    finally:
        postgres.start()
    assert kb.version == 3
    kb.observe("slow", "tile", 0.2, HERE)
    assert kb.content().entry("slow", "tile").evidence.total.seen == 2


def test_a_lock_is_waited_for_with_a_limit(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds it: another writer, or someone at the table itself."""
    import psycopg

    monkeypatch.setattr(tables, "BUSY_MS", 300)
    where = postgres.database()
    kb = KnowledgeBase(where)
    for held in (f"SELECT pg_advisory_xact_lock({tables.LOCK})", "LOCK TABLE kb_events"):
        with psycopg.connect(where) as other:
            other.execute(held)  # type: ignore[call-overload, arg-type]
            start = time.monotonic()
            with pytest.raises(KnowledgeError, match="held by another process for too long"):
                kb.add_state(State(name="slow", primary="latency"))
            assert 0.2 < time.monotonic() - start < 30
    kb.add_state(State(name="slow", primary="latency"))
    assert kb.version == 1


def test_a_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setattr(drivers, "CONNECT_S", 2)  # the least that the driver knows
    monkeypatch.setenv("KERNELBLASTER_DATABASE_PATIENCE", "0.5")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://kb:secret@127.0.0.1:{silent.getsockname()[1]}/kb"
        with pytest.raises(KnowledgeError, match="connection to the database failed") as caught:
            KnowledgeBase(url)
    assert "secret" not in str(caught.value)
    assert drivers.connecting({"connect_timeout": "5"}) == {"tcp_user_timeout": 120_000}


def test_a_server_that_comes_back_is_waited_for(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Killed with what it had not written yet: what was recorded before is there, and nothing twice."""
    kb = KnowledgeBase(postgres.database())
    kb.add_state(State(name="slow", primary="latency"))
    kb.add_optimization("slow", technique("tile"))
    kb.content()
    for _ in range(20):
        kb.observe("slow", "tile", 0.4, HERE)
    postgres.kill()
    back = Timer(0.7, postgres.start)
    back.start()
    with caplog.at_level(logging.WARNING):
        kb.observe("slow", "tile", 0.2, HERE)
        kb.note("slow", "recorded in the other way")
    back.join()
    assert "Waiting for it for up to 60 s" in caplog.text and "secret" not in caplog.text
    assert kb.content().entry("slow", "tile").evidence.total.seen == 21
    assert kb.version == 24 and kb.content() == kb.rebuilt()


def test_opening_waits_for_a_server_that_comes_back(postgres: PostgresServer) -> None:
    where = postgres.database()
    with KnowledgeBase(where) as kb:
        kb.add_state(State(name="slow", primary="latency"))
    postgres.kill()
    back = Timer(0.5, postgres.start)
    back.start()
    with KnowledgeBase(where, create=False) as again:
        assert list(again.content().states) == ["slow"]
    back.join()


def test_what_was_read_before_it_was_on_the_disk_is_read_again(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash of the server may take back what another process has just written and this one just read."""
    where = postgres.database()
    settle = Database.settle
    lost = [True]

    def losing(self: Database, *arguments: Any) -> None:
        if lost and lost.pop():
            raise KnowledgeUnreachable("the server has crashed")
        settle(self, *arguments)

    with KnowledgeBase(where) as kb, KnowledgeBase(where) as other:
        other.add_state(State(name="slow", primary="latency"))
        monkeypatch.setattr(Database, "settle", losing)
        assert list(kb.content().states) == ["slow"] and not lost


def test_what_was_recorded_without_an_answer_is_not_recorded_again(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks after the commit, before its answer has come."""
    from psycopg import OperationalError

    kb = KnowledgeBase(postgres.database())
    kb.add_state(State(name="slow", primary="latency"))
    kb.add_optimization("slow", technique("tile"))
    kb.content()
    once = PipelinedWriter.record
    breaks = [True]

    def breaking(self: PipelinedWriter, *about: object) -> int | None:
        version = once(self, *about)  # type: ignore[arg-type]
        if breaks.pop() if breaks else False:
            raise OperationalError("server closed the connection unexpectedly")
        return version

    monkeypatch.setattr(PipelinedWriter, "record", breaking)
    assert kb.observe("slow", "tile", 0.4, HERE) == 3
    assert kb.content().entry("slow", "tile").evidence.total.seen == 1


def test_both_ways_of_writing_take_turns(postgres: PostgresServer) -> None:
    """One reads everything, the other only the entry that it changes; each sees what the other wrote."""
    where = postgres.database()
    one, other = KnowledgeBase(where), KnowledgeBase(where)
    one.add_state(State(name="slow", primary="latency"))
    one.add_optimization("slow", technique("tile"))
    for number in range(5):
        one.observe("slow", "tile", 0.1, HERE)
        other.add_optimization("slow", technique(f"other{number}"))
        other.observe("slow", f"other{number}", "TimedOut", HERE)
        one.note("slow", f"note {number}", "tile")
    assert one.content() == other.content() == one.rebuilt()
    assert one.content().entry("slow", "tile").evidence.total.seen == 5


def test_migrations_make_the_tables_that_are_made_at_once(postgres: PostgresServer, tmp_path: Path) -> None:
    """From nothing, on both databases; and a database of format 1 gets them when it is opened."""
    for number, where in enumerate((postgres.database(), f"sqlite:///{tmp_path / 'a.db'}")):
        other = postgres.database() if number == 0 else f"sqlite:///{tmp_path / 'b.db'}"
        engine = create_engine(where.replace("postgresql:", "postgresql+psycopg:"))
        with engine.begin() as connection:
            tables.REVISIONS.upgrade(connection)
        KnowledgeBase(other).close()
        made = create_engine(other.replace("postgresql:", "postgresql+psycopg:"))
        assert _schema(engine) == _schema(made)
        with KnowledgeBase(where) as kb:
            kb.add_state(State(name="slow", primary="latency"))
            assert kb.version == 1
        with engine.begin() as connection:
            assert tables.REVISIONS.present(connection) == tables.REVISIONS.latest
            for table in ("kb_events", "kb_states", "kb_optimizations", "kb_about"):
                connection.execute(text(f"ALTER TABLE {table} DROP COLUMN sum"))
            for column in ("version", "states", "optimizations"):
                connection.execute(text(f"ALTER TABLE kb_about DROP COLUMN {column}"))
            connection.execute(text("UPDATE kb_about SET format = 1"))
            connection.execute(text("DROP TABLE kb_revision"))
        with KnowledgeBase(where) as kb:
            assert list(kb.content().states) == ["slow"] and kb.content() == kb.rebuilt()


def _schema(engine: object) -> dict[str, object]:
    """Columns with their types, keys and indices of all tables."""
    known = inspect(engine)
    return {  # type: ignore[no-any-return, union-attr]
        name: (
            [(c["name"], str(c["type"]), c["nullable"]) for c in known.get_columns(name)],
            known.get_pk_constraint(name)["constrained_columns"],
            sorted((i["name"], tuple(i["column_names"])) for i in known.get_indexes(name)),
        )
        for name in sorted(known.get_table_names())
    }
