"""Settings of SQLite and PostgreSQL connections, and what errors of these databases mean for the user."""

import logging
from collections.abc import Mapping

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry

from kernelblaster.databases.patience import is_lost
from kernelblaster.knowledge import tables
from kernelblaster.knowledge.tables import about

RESTORE = (
    "`kernelblaster kb check --repair` makes again what follows from its events; else restore a copy, or "
    "start a new one and import an exported document."
)
DAMAGED = (
    "not a database",
    "malformed",
    "no such table",
    "no such column",
    "could not decode",
    "datatype mismatch",
    "constraint failed",
    "unsupported file format",
)
CONNECT_S = 30
SILENT_S = 120
NO_MEMORY = ("SQLITE_NOMEM", "SQLITE_IOERR_NOMEM", "SQLITE_IOERR_SHMMAP")


def sentence(error: Exception, verb: str) -> str:
    """Returns what went wrong with the database and what to do about it, in words for the user. `error` is
    the driver's exception. `verb` says what was being done to the database: "read" or "written"."""
    cause = getattr(error, "orig", None) or error
    reason = " ".join(str(cause).split())
    words, name = reason.lower(), getattr(cause, "sqlite_errorname", "")
    lost = is_lost(error) or (not isinstance(error, PoolTimeout) and "connect" in words)
    meanings = [
        (
            any(one in words for one in DAMAGED) or name in ("SQLITE_CORRUPT", "SQLITE_NOTADB"),
            f"is damaged, or not a knowledge base ({reason}). {RESTORE}",
        ),
        (
            name in NO_MEMORY or "out of memory" in words,
            "there is not enough memory; what was recorded before is safe. Allow this process more "
            "(ulimit -v), and try again.",
        ),
        (
            any(one in words for one in ("disk is full", "no space left", "disk i/o")),
            "the disk is full or failing; what was recorded before is safe. Free some space and try again.",
        ),
        (
            any(one in words for one in ("locked", "lock timeout", "statement timeout")),
            "is held by another process for too long; try again when it has finished.",
        ),
        (
            any(one in words for one in ("readonly", "read-only", "unable to open")),
            f"cannot be {verb}: {reason}. Check the folder's permissions.",
        ),
        (
            lost,
            "the connection to the database failed or was lost; what was recorded before is safe. "
            "Check the server and try again.",
        ),
    ]
    return next((meaning for holds, meaning in meanings if holds), f"cannot be {verb}: {reason}")


def connecting(given: Mapping[str, object]) -> dict[str, object]:
    """Returns the time limits for a PostgreSQL connection, as arguments of the driver: 30 s to connect, and
    120,000 ms for sent bytes that are not acknowledged. A limit that the URL's query (`given`) sets is left
    out."""
    limits: dict[str, object] = {"connect_timeout": CONNECT_S, "tcp_user_timeout": 1000 * SILENT_S}
    return {name: limit for name, limit in limits.items() if name not in given}


def prepare_postgres(engine: Engine) -> None:
    """Sets up the engine so that every new connection waits at most 60 s for a lock (BUSY_MS) and runs a
    statement for at most 600 s (STATEMENT_MS). Also silences the warnings of the driver (psycopg) in this
    process: that a connection was lost is reported by `patiently`, which waits for the server."""
    logging.getLogger("psycopg").setLevel(logging.ERROR)

    @event.listens_for(engine, "connect")
    def connected(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        cursor.execute(f"SET lock_timeout = {tables.BUSY_MS}")
        cursor.execute(f"SET statement_timeout = {tables.STATEMENT_MS}")
        cursor.close()
        connection.commit()


def prepare_sqlite(engine: Engine, *, reading_only: bool = False) -> None:
    """Sets up the engine so that every new connection waits up to 60 s for a lock (BUSY_MS), and uses
    write-ahead logging. Writing transactions begin with BEGIN IMMEDIATE, so that they get their lock at the
    start and cannot fail halfway. `reading_only`: connections cannot write."""

    @event.listens_for(engine, "connect")
    def connected(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={tables.BUSY_MS}")
        if reading_only:
            cursor.execute("PRAGMA query_only=ON")
        elif cursor.execute("PRAGMA journal_mode").fetchone() == ("delete",) and _is_ours(cursor):  # type: ignore[func-returns-value]
            _use_wal(cursor)
        cursor.close()

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        writing = connection.get_execution_options().get("kb_writing")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _is_ours(cursor: object) -> bool:
    """Whether the database that `cursor` is open on is empty or a knowledge base. Settings that the file
    remembers are changed in no other one."""
    tables = cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()  # type: ignore[attr-defined]
    return not tables or (about.name,) in tables


def _use_wal(cursor: object) -> None:
    """Turns on SQLite's write-ahead logging, which the file remembers. Does nothing if the file is locked,
    since another process is then doing the same."""
    from sqlite3 import OperationalError

    try:
        cursor.execute("PRAGMA journal_mode=WAL")  # type: ignore[attr-defined]
    except OperationalError as error:
        if "locked" not in str(error):
            raise
