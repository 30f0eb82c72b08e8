"""The contract on a real PostgreSQL server, started here; skipped where there is none to start."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge import KnowledgeBase, drivers, tables
from kernelblaster.records import State
from kernelblaster.testing.knowledge_contract import HERE, KnowledgeContract, technique

PLACES = os.pathsep.join([os.environ.get("PATH", ""), *map(str, Path("/usr/lib/postgresql").glob("*/bin"))])


class Server:
    """A server of its own in a temporary folder, on a free port of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._user = _unprivileged(folder)
        self._port = _free_port()
        self._run("initdb", "-D", str(folder / "data"), "-U", "kb", "-A", "trust", "--no-sync")
        self.start()

    def start(self) -> None:
        options = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._control("start", "-w", "-l", str(self._folder / "log"), "-o", options)

    def stop(self) -> None:
        self._control("stop", "-m", "immediate")

    def database(self) -> str:
        name = f"kb_{uuid4().hex[:8]}"
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload, arg-type]
        return self.url(name)

    def url(self, database: str) -> str:
        return f"postgresql://kb:secret@127.0.0.1:{self._port}/{database}"

    def _control(self, *words: str) -> None:
        self._run("pg_ctl", "-D", str(self._folder / "data"), *words)

    def _run(self, program: str, *words: str) -> None:
        command = [_find(program), *words]
        done = subprocess.run(
            command, user=self._user, cwd=self._folder, capture_output=program == "initdb", timeout=120
        )
        if done.returncode != 0:
            pytest.skip(f"{program} does not work here: {done.stderr!r}")


def _find(program: str) -> str:
    found = shutil.which(program, path=PLACES)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def _unprivileged(folder: Path) -> str | None:
    """Who may run the server: it refuses root. None is whoever runs the tests."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            person = pwd.getpwnam(name)
        except KeyError:
            continue
        os.chown(folder, person.pw_uid, person.pw_gid)
        return name
    pytest.skip("PostgreSQL does not run as root, and there is no one else here")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="kb-postgres-"))
    try:
        running = Server(folder)
        yield running
        running.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.xdist_group("postgres")
class TestPostgres(KnowledgeContract):
    @pytest.fixture
    def where(self, server: Server) -> str:
        return server.database()


def test_a_lost_connection_is_said_and_nothing_recorded_is_lost(server: Server) -> None:
    kb = KnowledgeBase(server.database())
    kb.add_state(State(name="slow", primary="latency"))
    kb.add_optimization("slow", technique("tile"))
    kb.observe("slow", "tile", 0.4, HERE)
    server.stop()
    try:
        with pytest.raises(KnowledgeError, match="connection to the database failed or was lost") as caught:
            kb.observe("slow", "tile", 0.4, HERE)
        assert "secret" not in str(caught.value)
    finally:
        server.start()
    assert kb.version == 3
    kb.observe("slow", "tile", 0.2, HERE)
    assert kb.content().entry("slow", "tile").evidence.total.seen == 2


def test_a_lock_is_waited_for_with_a_limit(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds it: another writer, or someone at the table itself."""
    import psycopg

    monkeypatch.setattr(tables, "BUSY_MS", 300)
    where = server.database()
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
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://kb:secret@127.0.0.1:{silent.getsockname()[1]}/kb"
        with pytest.raises(KnowledgeError, match="connection to the database failed") as caught:
            KnowledgeBase(url)
    assert "secret" not in str(caught.value)
    assert drivers.connecting({"connect_timeout": "5"}) == {"tcp_user_timeout": 120_000}
