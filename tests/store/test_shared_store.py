"""Runs, leases and verdicts in folders, in SQLite and on a real PostgreSQL server."""

import logging
import os
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from sqlalchemy import create_engine, func

from kernelblaster.errors import StoreError, StoreUnreachable
from kernelblaster.fleet.dispatcher import LOSSES
from kernelblaster.records import Evaluation, Incorrect
from kernelblaster.store import tables
from kernelblaster.store.database import StoreDatabase, open_store
from kernelblaster.store.leases import StoredLeases, leases_of
from kernelblaster.store.pointer import pointer_of
from kernelblaster.store.run import Run, SharedRuns, begin_run, create_run, discard_unbegun, open_run
from kernelblaster.store.shared_runs import fetch_run
from kernelblaster.store.steering import SetBudget, append_command, read_commands
from kernelblaster.store.verdicts import FileVerdicts, StoredVerdicts, VerdictKey, Verdicts
from kernelblaster.store.writer import writer_of
from kernelblaster.testing.postgres_server import PostgresServer
from kernelblaster.testing.run_contract import RunContract


@pytest.fixture
def url(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of its own, at an address without a password."""
    monkeypatch.setenv("PGPASSWORD", "secret")
    return postgres.database().replace(":secret@", "@")


class TestRunsInFolders(RunContract):
    @pytest.fixture
    def kept(self) -> None:
        return None


class TestRunsOnPostgres(RunContract):
    @pytest.fixture
    def kept(self, url: str) -> SharedRuns:
        return SharedRuns(url)


def test_a_shared_run_can_be_steered_and_stopped_on_its_machine(tmp_path: Path, url: str) -> None:
    with create_run(tmp_path, kept=SharedRuns(url), task="t") as run:
        assert writer_of(run.folder) == os.getpid()
        append_command(run.folder, SetBudget(evaluations=3), "me")
        assert read_commands(run.folder)[0][0].action == SetBudget(evaluations=3)
        assert fetch_run(url, run.name, tmp_path) == run.folder and writer_of(run.folder) == os.getpid()
    assert writer_of(run.folder) is None
    assert discard_unbegun(open_run(tmp_path, run.name, writing=True))


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StoreDatabase:
    sqlite = request.param == "sqlite"
    return StoreDatabase(tmp_path / "leases.db" if sqlite else request.getfixturevalue("url"))


def test_what_is_lost_is_counted_and_named(store: StoreDatabase) -> None:
    leases = StoredLeases(store, "bench")
    assert leases.begin("w", "evaluate candidate 1234 of relu", "GPU 0") == 0
    assert leases.lose("w", "node 1 is gone") == 1
    assert leases.lose("w", "node 1 is gone") == 1  # said twice
    assert leases.begin("w", "evaluate candidate 1234 of relu", "GPU 1") == 1
    assert leases.lose("w", "it was ended by SIGSEGV") == LOSSES
    assert leases.begin("w", "evaluate candidate 1234 of relu", "GPU 2") == LOSSES
    [lost] = leases.lost_works()
    assert "1234" in lost.about and lost.losses == LOSSES and "SIGSEGV" in lost.why
    assert StoredLeases(store, "another bench").begin("w", "", "GPU 0") == 0


def test_what_is_done_is_forgotten(store: StoreDatabase) -> None:
    leases = StoredLeases(store, "bench")
    leases.begin("w", "", "GPU 0")
    leases.lose("w", "")
    leases.begin("w", "", "GPU 1")
    leases.end("w")
    assert leases.begin("w", "", "GPU 1") == 0 and leases.lost_works() == []


def test_a_crash_of_the_server_brings_no_losses_back(
    store: StoreDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done after it was lost is written to the disk; else a crash would leave the loss, and count the
    next one of the same work as the second."""
    leases = StoredLeases(store, "bench")
    leases.begin("never lost", "", "GPU 0")
    leases.begin("lost", "", "GPU 1")
    leases.lose("lost", "node 1 is gone")
    again = StoredLeases(store, "bench")  # in another process, which finds the first one held
    assert again.begin("lost", "", "GPU 0") == again.begin("never lost", "", "GPU 1") == 1
    again.begin("new", "", "GPU 2")
    lasting: list[bool] = []
    transact = store.transact
    monkeypatch.setattr(
        store,
        "transact",
        lambda work, *, lasting_=lasting, **named: (
            lasting_.append(named.get("lasting", True)) or transact(work, **named)
        ),
    )
    monkeypatch.setattr(store, "note", lambda *_: lasting.append(False))
    for work in ("lost", "never lost", "new"):
        again.end(work)
    assert lasting == [True, True, False]


def test_what_its_process_was_killed_with_counts_as_lost(store: StoreDatabase) -> None:
    leases = StoredLeases(store, "bench")
    leases.begin("killed with", "", "GPU 0")
    leases.begin("given back", "", "GPU 1")
    leases.release("given back")
    again = StoredLeases(store, "bench")
    assert again.begin("killed with", "", "GPU 0") == 1 and again.begin("given back", "", "GPU 1") == 0


def test_leases_are_where_the_run_is(tmp_path: Path, url: str) -> None:
    with create_run(tmp_path) as run, create_run(tmp_path, kept=SharedRuns(url)) as shared:
        leases_of(run).begin("w", "", "GPU 0")
        leases_of(shared).begin("w", "", "GPU 0")
        assert (run.folder / "leases.db").is_file() and not (shared.folder / "leases.db").exists()
        assert leases_of(run).begin("w", "", "GPU 0") == leases_of(shared).begin("w", "", "GPU 0") == 1


@pytest.fixture(params=["folder", "sqlite", "postgres"])
def verdicts(request: pytest.FixtureRequest, tmp_path: Path) -> Verdicts:
    if request.param == "folder":
        return FileVerdicts(tmp_path)
    where = tmp_path / "v.db" if request.param == "sqlite" else request.getfixturevalue("url")
    return StoredVerdicts(StoreDatabase(where))


def test_the_first_verdict_stays(verdicts: Verdicts) -> None:
    key = VerdictKey(gpu="h200", task="t" * 16, code="c" * 16)
    assert verdicts.get(key) is None
    first, second = (
        Evaluation(
            task="t", candidate="c", device="d", seconds=1.0, outcome=Incorrect(reason=why, evidence="")
        )
        for why in ("wrong", "other")
    )
    assert verdicts.keep(key, first) == first == verdicts.keep(key, second) == verdicts.get(key)
    assert verdicts.get(key.model_copy(update={"gpu": "a100"})) is None


def test_a_run_is_continued_on_another_machine(tmp_path: Path, url: str) -> None:
    """With those that belong to it; only the store is common to the two."""
    here, there = tmp_path / "here", tmp_path / "there"
    with begin_run(here / "bench", kept=SharedRuns(url), plan="p") as bench:
        pointer = pointer_of(bench.folder)
        assert pointer is not None
        for task in ("relu", "gelu"):
            parts = SharedRuns(url, pointer.id)
            with begin_run(here / "bench" / "runs" / task, kept=parts, job=task) as run:
                source = run.files.put(f"the source of {task}")
    folder = fetch_run(url, "bench", there)
    assert folder == there / "bench" and fetch_run(url, pointer.id, there) == folder
    with Run(folder, writing=True) as again:
        assert again.events[0].data == {"plan": "p"} and again.id == bench.id
        again.append("going on")
    with open_run(folder / "runs", "gelu", writing=True) as run:
        assert run.events[0].data == {"job": "gelu"} and run.files.get(source) == "the source of gelu"
    with Run(here / "bench", writing=False) as seen:
        assert [event.kind for event in seen.events] == ["created", "going on"]
    with pytest.raises(StoreError, match="has no run named other"):
        fetch_run(url, "other", there)
    (there / "mine").mkdir()
    (there / "mine" / "file").touch()
    with (
        begin_run(here / "mine", kept=SharedRuns(url)),
        pytest.raises(StoreError, match="holds something else"),
    ):
        fetch_run(url, "mine", there)


def test_a_store_that_comes_back_is_waited_for(
    tmp_path: Path, url: str, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    with create_run(tmp_path, kept=SharedRuns(url)) as run:
        run.append("before")
        postgres.kill()
        back = Timer(0.5, postgres.start)
        back.start()
        with caplog.at_level(logging.WARNING):
            run.append("after")
        back.join()
        run.append("later")
    assert "Waiting for it for up to 60 s" in caplog.text
    with open_run(tmp_path, run.name) as again:
        assert [event.kind for event in again.events] == ["created", "before", "after", "later"]


def test_opening_waits_for_a_store_that_comes_back(
    url: str, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A search that begins at this moment opens it anew."""
    StoreDatabase(url).close()
    postgres.kill()
    back = Timer(0.5, postgres.start)
    back.start()
    with caplog.at_level(logging.WARNING):
        opened = StoreDatabase(url)
    back.join()
    assert "Waiting for it for up to 60 s" in caplog.text
    assert opened.transact(lambda connection: connection.execute(func.count()).scalar()) is not None
    opened.close()


def test_what_a_crash_of_the_server_took_back_is_written_again(tmp_path: Path, url: str) -> None:
    """Events that are not lasting may be lost with it, but not those between two that are kept."""
    with create_run(tmp_path, kept=SharedRuns(url)) as run:
        run.append("before")
        for key in "ab":
            run.once("guess", key, lambda: {"number": 7}, lasting=False)
        lost = tables.events.delete().where(tables.events.c.number >= 2)
        open_store(url).transact(lambda connection: connection.execute(lost))
        run.append("after")
        run.once("guess", "c", lambda: {"number": 8}, lasting=False)
    with open_run(tmp_path, run.name) as again:
        kinds = [event.kind for event in again.events]
        assert kinds == ["created", "before", "guess", "guess", "after", "guess"]


def test_one_that_does_not_come_back_is_given_up_in_a_sentence(
    tmp_path: Path, url: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELBLASTER_DATABASE_PATIENCE", "0.3")
    with create_run(tmp_path, kept=SharedRuns(url)) as run:
        postgres.stop()
        try:
            with pytest.raises(StoreUnreachable, match=r"what was recorded before is safe") as caught:
                run.append("lost")
            assert "secret" not in str(caught.value)
        finally:
            postgres.start()
    with open_run(tmp_path, run.name, writing=True) as again:
        assert [event.kind for event in again.events] == ["created"]
        again.append("gone on")


def test_an_event_without_an_answer_is_not_recorded_twice(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    once: Any = StoreDatabase._once
    breaks = [True]

    def breaking(self: StoreDatabase, work: Any, *, lasting: bool) -> Any:
        result = once(self, work, lasting=lasting)
        if breaks and breaks.pop():
            raise StoreUnreachable("the connection broke")
        return result

    with create_run(tmp_path, kept=SharedRuns(url)) as run:
        monkeypatch.setattr(StoreDatabase, "_once", breaking)
        run.append("told")
        assert not breaks
        run.append("more")
    with open_run(tmp_path, run.name) as again:
        assert [event.kind for event in again.events] == ["created", "told", "more"]


def test_a_password_is_not_kept(tmp_path: Path, postgres: PostgresServer) -> None:
    with pytest.raises(StoreError, match=r"does not keep the password.*PGPASSWORD") as caught:
        create_run(tmp_path, kept=SharedRuns(postgres.database()))
    assert "secret" not in str(caught.value)


def test_a_changed_event_is_noticed(tmp_path: Path, url: str) -> None:
    with create_run(tmp_path, kept=SharedRuns(url)) as run:
        run.append("told", number=1)
        run.append("told", number=2)
    store = open_store(url)
    changed = tables.events.update().where(tables.events.c.number == 1)
    other = func.replace(tables.events.c.line, '"kind":"told"', '"kind":"said"')
    store.transact(lambda connection: connection.execute(changed.values(line=other)))
    with pytest.raises(StoreError, match="event 1 of run"):
        open_run(tmp_path, run.name)


def test_migrations_make_the_tables_that_are_made_at_once(postgres: PostgresServer, tmp_path: Path) -> None:
    from tests.knowledge.test_postgres import _schema

    for migrated, made in (
        (postgres.database(), postgres.database()),
        (f"sqlite:///{tmp_path / 'a.db'}", f"sqlite:///{tmp_path / 'b.db'}"),
    ):
        engines = [
            create_engine(one.replace("postgresql:", "postgresql+psycopg:")) for one in (migrated, made)
        ]
        with engines[0].begin() as connection:
            tables.REVISIONS.upgrade(connection)
        StoreDatabase(made).close()
        assert _schema(engines[0]) == _schema(engines[1])
        StoreDatabase(migrated).close()
        with engines[0].begin() as connection:
            tables.REVISIONS.stamp(connection, "9999")
        with pytest.raises(StoreError, match="install a later one"):
            StoreDatabase(migrated)
