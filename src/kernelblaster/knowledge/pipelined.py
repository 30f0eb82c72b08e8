"""Records changes of single entries (one technique in one performance state) on PostgreSQL. Other writers
wait for a lock, which is held as shortly as possible: for two round trips to the server, without waiting for
the disk.

The transaction is committed without waiting for the disk. A second transaction then writes a message to the
server's log, and its commit does wait; when it returns, everything before it is on the disk too. So several
writers can wait for the disk at the same time.
"""

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, Table

from kernelblaster.knowledge import tables
from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.entry_rows import (
    EntriesRead,
    EntriesWritten,
    EntryKey,
    change_entries,
    entry_keys,
)
from kernelblaster.knowledge.event_rows import Fresh
from kernelblaster.knowledge.rows import Damaged, Values

LOCKED = f"SELECT set_config('synchronous_commit', 'off', true), pg_advisory_xact_lock({tables.LOCK})"
DURABLE = "SELECT pg_logical_emit_message(true, 'kernelblaster', '')"


def _columns(table: Table) -> str:
    return ", ".join(f'"{column.name}"' for column in table.columns)


def _insert(table: Table) -> str:
    """The SQL statement that inserts one row into `table`, with a placeholder for each column, in the table's
    order."""
    return f"INSERT INTO {table.name} ({_columns(table)}) VALUES ({', '.join(['%s'] * len(table.columns))})"


def _replace(table: Table) -> str:
    """The SQL statement that inserts one row into `table`, or overwrites the row with the same primary key; a
    placeholder for each column, in the table's order."""
    keys = [column.name for column in table.primary_key]
    others = [column.name for column in table.columns if column.name not in keys]
    changed = ", ".join(f'"{name}" = excluded."{name}"' for name in others)
    return f"{_insert(table)} ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {changed}"


ABOUT = (
    f"SELECT {_columns(tables.about)}, (SELECT coalesce(max(version), 0) FROM {tables.states.name}) "
    f"FROM {tables.about.name}"
)
ENTRIES = (
    f"SELECT {_columns(tables.optimizations)} FROM {tables.optimizations.name} "
    "WHERE (state, technique) IN (SELECT * FROM unnest(%s::text[], %s::text[]))"
)
RECORDED = f"SELECT uid FROM {tables.events.name} WHERE uid = ANY(%s)"
APPEND = _insert(tables.events)
REPLACE = _replace(tables.optimizations)
SAVE = f"UPDATE {tables.about.name} SET " + ", ".join(f'"{c.name}" = %s' for c in tables.about.columns)
_AboutRow = namedtuple("_AboutRow", [column.name for column in tables.about.columns])  # type: ignore[misc]
_EntryRow = namedtuple("_EntryRow", [column.name for column in tables.optimizations.columns])  # type: ignore[misc]


class PipelinedWriter:
    """Records changes of single entries (one technique in one performance state) in the PostgreSQL database
    of `engine`, through a connection of its own, which is opened at the first use and ended by `close`.
    Errors of SQLAlchemy and psycopg are raised as they are."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._opened: Any = None

    def record(self, known: Content, fresh: Sequence[Fresh]) -> int | None:
        """Records the changes `fresh` in a transaction of its own and returns the new version; they are then
        on the server's disk. Each change comes with its provenance (where it comes from) and its identity (a
        text by which it is recognized in every knowledge base). `known` is a content read earlier. Does
        nothing and returns None if `known` and the rows of the changed entries do not suffice to apply the
        changes."""
        keys = entry_keys(known, fresh)
        if not keys:
            return None
        try:
            return self._record(known, keys, fresh)
        except BaseException:
            self.close()  # in whatever state it is
            raise

    def close(self) -> None:
        if self._opened is not None:
            self._opened.invalidate()
            self._opened.close()
            self._opened = None

    def _record(self, known: Content, keys: set[EntryKey], fresh: Sequence[Fresh]) -> int | None:
        raw = self._connection()
        with raw.pipeline():
            raw.execute("BEGIN")
            raw.execute(LOCKED)
            about = raw.execute(ABOUT)
            entries = raw.execute(ENTRIES, [list(part) for part in zip(*sorted(keys), strict=True)])
            recorded = raw.execute(RECORDED, [[uid for _, _, uid in fresh]])
            written = change_entries(known, keys, fresh, _read(about, entries, recorded))
            if written is None:
                raw.execute("ROLLBACK")
                return None
            _write(raw, written)
            raw.execute("COMMIT")
            raw.execute(DURABLE)
        return int(written.about["version"])

    def _connection(self) -> Any:
        """The driver's own connection in autocommit mode; opened at the first call."""
        if self._opened is None:
            self._opened = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        return self._opened.connection.driver_connection


def _read(about: Any, entries: Any, recorded: Any) -> EntriesRead:
    """The results of the three queries ABOUT, ENTRIES and RECORDED. Raises Damaged if kb_about is empty."""
    row = about.fetchone()
    if row is None:
        raise Damaged("kb_about is empty")
    rows = [_EntryRow(*values) for values in entries.fetchall()]
    return EntriesRead(_AboutRow(*row[:-1]), row[-1], rows, [uid for (uid,) in recorded.fetchall()])


def _write(raw: Any, written: EntriesWritten) -> None:
    """Sends the statements that append the new events, replace the changed entries and update kb_about, on
    the driver's connection `raw`."""
    for row in written.events:
        raw.execute(APPEND, _in_order(tables.events, row))
    for row in written.entries:
        raw.execute(REPLACE, _in_order(tables.optimizations, row))
    raw.execute(SAVE, _in_order(tables.about, written.about))


def _in_order(table: Table, values: Values) -> list[Any]:
    """One row's values as a list, in the order of the table's columns, as the prepared statements take
    them."""
    return [values[column.name] for column in table.columns]
