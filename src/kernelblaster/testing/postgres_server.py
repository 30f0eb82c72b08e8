"""Starts a real PostgreSQL server for tests; tests that need it are skipped where PostgreSQL is not installed
or does not start."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

PLACES = os.pathsep.join([os.environ.get("PATH", ""), *map(str, Path("/usr/lib/postgresql").glob("*/bin"))])


class PostgresServer:
    """A PostgreSQL server of the tests' own, with its data in `folder` and on a free port of this machine;
    started at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._user = _unprivileged(folder)
        self._port = _free_port()
        self._run("initdb", "-D", str(folder / "data"), "-U", "kb", "-A", "trust", "--no-sync")
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it answers; skips the test if it ends or does not answer within 60
        s."""
        options = ["-p", str(self._port), "-k", str(self._folder), "-c", "listen_addresses=127.0.0.1"]
        command = [_find("postgres"), "-D", str(self._folder / "data"), *options, "-c", "fsync=off"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, user=self._user, cwd=self._folder, stdout=log, stderr=log
            )
        ready = [_find("pg_isready"), "-h", "127.0.0.1", "-p", str(self._port), "-q"]
        until = time.monotonic() + 60
        while subprocess.run(ready, timeout=60).returncode != 0:
            if self._process.poll() is not None or time.monotonic() > until:
                pytest.skip(f"PostgreSQL does not start here: {(self._folder / 'log').read_text()[-500:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends the server at once (SIGQUIT) with all its processes, and waits for that. Its data stays."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def processes(self) -> list[int]:
        """Returns the ids of the server's processes; the first is that of its main process."""
        first = self._process.pid
        try:
            children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        except OSError:  # it was killed
            return []
        return [first, *map(int, children)]

    def kill(self) -> None:
        """End all the server's processes by SIGKILL, as a crash of its machine would, and wait until they are
        gone."""
        processes = self.processes()
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        while any(_runs(process) for process in processes):
            time.sleep(0.01)

    def database(self) -> str:
        name = f"kb_{uuid4().hex[:8]}"
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload, arg-type]
        return self.url(name)

    def url(self, database: str) -> str:
        return f"postgresql://kb:secret@127.0.0.1:{self._port}/{database}"

    def _run(self, program: str, *words: str) -> None:
        command = [_find(program), *words]
        done = subprocess.run(command, user=self._user, cwd=self._folder, capture_output=True, timeout=120)
        if done.returncode != 0:
            pytest.skip(f"{program} does not work here: {done.stderr!r}")


def _runs(process: int) -> bool:
    """Whether the process with this id still runs; False for a zombie, which has ended but was not yet waited
    for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _find(program: str) -> str:
    found = shutil.which(program, path=PLACES)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def _unprivileged(folder: Path) -> str | None:
    """The user to run the server as, since it refuses root; `folder` is given to that user. None, for the
    present user, if that is not root. Skips the test if there is no such user."""
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


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A context that yields a new PostgreSQL server without databases for the tests; it and its files are
    removed afterwards."""
    pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="kb-postgres-"))
    try:
        running = PostgresServer(folder)
        try:
            yield running
        finally:
            running.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
