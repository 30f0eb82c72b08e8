"""The event log and the files of a run in a shared store (database), with the interfaces of those in a folder
(events.py, files.py)."""

import hashlib
import secrets
import time
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, select, text

from kernelblaster.databases.inserting import insert_into
from kernelblaster.errors import StoreError
from kernelblaster.store import lines, tables
from kernelblaster.store.database import StoreDatabase
from kernelblaster.store.files import name_of
from kernelblaster.store.lines import FORMAT, RunEvent


class DatabaseLog:
    """The log of the run with this `id` in a store; `events` are all of them, read when it is opened. One
    process at a time may open it for `writing`, others may read. Raises StoreError if it is damaged, or
    another process is writing."""

    def __init__(self, store: StoreDatabase, id: str, *, writing: bool) -> None:
        self._store = store
        self._id = id
        self._writing = writing
        self._held: Connection | None = None
        self._passing: dict[int, str] = {}  # lines after the last lasting one, by number
        self._opened = time.monotonic()
        if writing:
            self._hold()
        try:
            self.events, self._sum = self._read()
        except BaseException:
            self.close()
            raise

    def append(self, kind: str, key: str = "", *, lasting: bool = True, **data: Any) -> RunEvent:
        """Appends an event of this `kind` with this `data`, which must be JSON, and returns it. `key` may be
        empty; otherwise the caller must see to it that no other event of the kind has it. The event is on the
        server's disk when this returns; if not `lasting`, a crash of the server may lose it."""
        if not self._writing:
            raise StoreError(f"{self._store.name}: run {self._id} was opened for reading only.")
        number = len(self.events)
        event = RunEvent(
            number=number,
            at=time.time(),
            after=time.monotonic() - self._opened,
            kind=kind,
            key=key,
            format=None if number else FORMAT,
            id=None if number else secrets.token_hex(8),
            data=data,
        )
        encoded, own = lines.encode(event, self._sum)
        line = encoded.decode()
        self._store.transact(lambda connection: self._insert(connection, number, line), lasting=lasting)
        self._passing = {} if lasting else {**self._passing, number: line}
        self.events.append(event)
        self._sum = own
        return event

    def of(self, kind: str) -> Iterator[RunEvent]:
        """Yields the events of one kind (like "evaluation") in the order in which they were recorded."""
        return (event for event in self.events if event.kind == kind)

    def close(self) -> None:
        if self._held is not None:
            self._held.invalidate()  # a session of the server ends with its locks
            self._held.close()
            self._held = None

    def _insert(self, connection: Connection, number: int, line: str) -> None:
        """Insert an event's line, unless it is there because an earlier attempt succeeded and its answer was
        lost; and those before it that a crash of the server may have lost. Raises StoreError if another
        process has inserted another line with this number."""
        if self._passing:
            rows = [{"run": self._id, "number": one, "line": text} for one, text in self._passing.items()]
            again = insert_into(connection, tables.events).values(rows)
            connection.execute(again.on_conflict_do_nothing())
        if self._store.add(connection, tables.events, run=self._id, number=number, line=line):
            return
        here = (tables.events.c.run == self._id) & (tables.events.c.number == number)
        if connection.execute(select(tables.events.c.line).where(here)).scalar() != line:
            raise self._taken()

    def _read(self) -> tuple[list[RunEvent], str]:
        """Reads all events of the run and verifies their chain of checksums; returns them and the last
        checksum. Raises StoreError if one is damaged or missing."""
        table = tables.events
        query = select(table.c.line).where(table.c.run == self._id).order_by(table.c.number)
        recorded = self._store.transact(lambda connection: connection.execute(query).scalars().all())
        events: list[RunEvent] = []
        checksum = ""
        for number, line in enumerate(recorded):
            event_and_sum = lines.decode(line.encode(), number, checksum)
            if event_and_sum is None:
                raise StoreError(
                    f"{self._store.name}: event {number} of run {self._id} is damaged or missing; restore "
                    "the database."
                )
            events.append(event_and_sum[0])
            checksum = event_and_sum[1]
        return events, checksum

    def _hold(self) -> None:
        """Lock the run for this process by an advisory lock of PostgreSQL; does nothing for SQLite. Raises
        StoreError if another process holds it. (If the server's session is lost, another process may take it;
        then the first to append an event continues, and the other gets an error.)"""
        if self._store.sqlite:
            return
        lock = int.from_bytes(hashlib.blake2b(self._id.encode(), digest_size=8).digest(), signed=True)

        def hold(_: Connection) -> Connection:
            held = self._store.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if not held.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": lock}).scalar():
                held.close()
                raise self._taken()
            return held

        self._held = self._store.transact(hold)

    def _taken(self) -> StoreError:
        return StoreError(f"{self._store.name}: another process is working on run {self._id}.")


class DatabaseFiles:
    """The texts of a run (sources, prompts) in a shared store, a database; each has a hash of its content as
    its name."""

    def __init__(self, store: StoreDatabase) -> None:
        self._store = store

    def put(self, content: str) -> str:
        """Stores the text `content`, unless it is stored already. Returns its name, by which `get` finds
        it."""
        name = name_of(content)
        self._store.transact(lambda c: self._store.add(c, tables.files, name=name, text=content))
        return name

    def get(self, name: str) -> str:
        """Returns the text stored under a name that `put` returned. Raises StoreError if it is missing or was
        changed."""
        query = select(tables.files.c.text).where(tables.files.c.name == name)
        content: str | None = self._store.transact(lambda connection: connection.execute(query).scalar())
        if content is None or name_of(content) != name:
            state = "is missing" if content is None else "was changed since it was written"
            raise StoreError(f"{self._store.name}: the text {name} {state}.")
        return content


def first_stored_event(store: StoreDatabase, id: str) -> RunEvent | None:
    """Returns the first event of the run `id` in a store, which describes task and settings; None if there is
    none or it is damaged. The other events are not read."""
    here = (tables.events.c.run == id) & (tables.events.c.number == 0)
    query = select(tables.events.c.line).where(here)
    line: str | None = store.transact(lambda connection: connection.execute(query).scalar())
    event_and_sum = lines.decode(line.encode(), 0, "") if line is not None else None
    return event_and_sum and event_and_sum[0]
