"""The content of a knowledge base in a database. Every change is an event, and the content at every earlier
version can be read."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, TypeVar
from uuid import uuid4

from sqlalchemy import Connection

from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge.content import Content, Key, content_of
from kernelblaster.knowledge.content_changes import ContentChanges, changed_rows
from kernelblaster.knowledge.content_rows import about_row, refreshed, rewrite, save
from kernelblaster.knowledge.database import Database
from kernelblaster.knowledge.event_rows import (
    Fresh,
    append_events,
    check_revertible,
    event_rows,
    read_events,
    uncounted,
)
from kernelblaster.knowledge.events import (
    Change,
    KnowledgeEvent,
    Observed,
    Provenance,
    Reverted,
    RolledBack,
    effective,
)
from kernelblaster.knowledge.rows import Damaged, Values, event_row

NOBODY = Provenance()
T = TypeVar("T")


class VersionedContent:
    """The content of a knowledge base, with the events that made it. `where` is the path of a file (SQLite)
    or a URL (PostgreSQL). Many processes can use it at once. `create`: make it if there is none.
    `reading_only`: nothing in it or beside it is changed. Methods raise KnowledgeError if it is damaged or
    cannot be reached.

    The content is kept in memory; each read first fetches what has changed in the database since."""

    def __init__(self, where: str | Path, create: bool = True, *, reading_only: bool = False) -> None:
        self._database = Database(where, create and not reading_only, reading_only=reading_only)
        self._content = Content()

    @property
    def name(self) -> str:
        """The address of the knowledge base (a path or URL), without a password, as it is shown to people."""
        return self._database.name

    @property
    def version(self) -> int:
        """The number of changes that were recorded, which is the number of the latest event; 0 if there is
        none."""
        return self.content().version

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading

    def content(self) -> Content:
        """The content after all recorded changes, as a snapshot that later ones do not affect. Only what
        changed since the last call is read from the database."""
        self._content = self._read(
            lambda connection: refreshed(connection, self._content), lambda content: content.version
        )
        return self._content

    def at(self, version: int) -> Content:
        """Returns the content as it was when the event number `version` was the latest one. Raises
        KnowledgeError if there is no such version."""

        def read(connection: Connection) -> Content:
            if version == self._latest(connection, version):
                return refreshed(connection, self._content)
            return content_of(read_events(connection, 0, version))

        content = self._read(read, lambda content: content.version)
        if content.version >= self._content.version:
            self._content = content
        return content

    def log(self, since: int = 0, until: int | None = None) -> list[KnowledgeEvent]:
        """Returns the events after version `since`, up to and including version `until` (None: the latest).
        Events that were reverted or rolled back later are among them."""
        return self._read(lambda connection: read_events(connection, since, until))

    def rows_of_log(self, since: int, until: int | None) -> list[Values]:
        """Returns the rows of the events after version `since`, up to and including version `until` (None:
        the latest), as plain data that can be sent to a process without access to the database."""
        return self._read(
            lambda connection: [dict(row._mapping) for row in event_rows(connection, since, until)]
        )

    def changes(self, since: int) -> ContentChanges:
        """Returns the rows of the tables of performance states and optimizations that changed after version
        `since`, as plain data for a process that has no access to the database."""
        return self._read(
            lambda connection: changed_rows(connection, about_row(connection), since),
            lambda rows: int(rows.about["version"]),
        )

    def rebuilt(self) -> Content:
        """Returns the content computed anew by applying all events in order. It can be compared with the
        content in the stored tables, which are not read for it."""
        return self._read(lambda connection: content_of(read_events(connection)))

    def _read(self, read: Callable[[Connection], T], version: Callable[[T], int] | None = None) -> T:
        """Calls `read` with a connection that sees one consistent snapshot, and returns its result. Calls it
        again while the server cannot be reached. If `version` is given, it says up to which version the
        result was read; that is on the server's disk when this returns, so that no crash takes it back."""

        def attempt(_: bool) -> T:
            with self._database.reading() as connection:
                result = read(connection)
                if version is not None:
                    self._database.settle(connection, version(result))
                return result

        return self._database.patiently(attempt)

    # Writing

    def record(self, changes: Sequence[Change], provenance: Provenance = NOBODY) -> int:
        """Records these changes, each as an event, in one transaction: if there is an error, none is
        recorded. `provenance` says which search made them. Returns the new version."""
        fresh = [(change, provenance, uuid4().hex) for change in changes]

        def attempt(first: bool) -> int:
            version = self._record_in_entries(fresh)
            if version is not None:
                return version
            return self._write(lambda connection, _: fresh if first else uncounted(connection, fresh))

        return self._database.patiently(attempt)

    def take_over(self, known: Sequence[Fresh]) -> int:
        """Records changes that were recorded in another knowledge base (`known`), each with its provenance
        (where it comes from) and its identity (a text by which it is recognized in every knowledge base).
        Returns how many were recorded: a change whose identity this knowledge base has already is left out,
        unless it was reverted or rolled back here."""
        taken: list[Fresh] = []

        def unknown(connection: Connection, _: Content) -> list[Fresh]:
            taken[:] = uncounted(connection, known)
            return taken

        def attempt(_: bool) -> int:
            if self._record_in_entries(known) is not None:
                return len(known)
            self._write(unknown)
            return len(taken)

        return self._database.patiently(attempt)

    def rollback(self, version: int) -> int:
        """Sets the content back to what it was at `version`. Records that as a new event, whose version is
        returned. The events after `version` no longer count but stay recorded, so a later call can also set
        the content to the version of one of them."""
        with self._database.writing() as connection:
            self._latest(connection, version)
            content = self._disregard(connection, [RolledBack(version=version)])
        return self._keep(content)

    def revert(self, version: int) -> int:
        """Takes back the event number `version` alone, while later events still count. Records that as a new
        event, whose version is returned. Raises KnowledgeError if later events build on the one taken
        back."""
        with self._database.writing() as connection:
            self._latest(connection, version)
            check_revertible(connection, version, self.name)
            try:
                content = self._disregard(connection, [Reverted(version=version)])
            except Damaged:
                raise
            except KnowledgeError as error:
                raise KnowledgeError(
                    f"{self.name}: later changes build on version {version}, so it cannot be "
                    f"taken out alone; roll back to version {version - 1} instead."
                ) from error
        return self._keep(content)

    def withdraw(self, concerned: Callable[[KnowledgeEvent], bool]) -> int:
        """Takes back every event that records an attempt's result and for which the function `concerned`
        returns True; all other events still count. Returns how many were taken back. They stay recorded, as
        after `revert`."""
        with self._database.writing() as connection:
            counted = effective(read_events(connection))
            chosen = [e for e in counted if isinstance(e.change, Observed) and concerned(e)]
            if not chosen:
                return 0
            content = self._disregard(connection, [Reverted(version=event.version) for event in chosen])
        self._keep(content)
        return len(chosen)

    def rebuild(self, events: Sequence[Values] = ()) -> None:
        """Computes the tables of performance states and optimizations anew from the events, and writes them.
        `events` are rows that are added to the table of events before that; a repair gives them when it makes
        a new knowledge base from the events of a damaged one."""
        with self._database.writing() as connection:
            append_events(connection, events)
            content = content_of(read_events(connection))
            rewrite(connection, content)
        self._keep(content)

    def _record_in_entries(self, fresh: Sequence[Fresh]) -> int | None:
        """Tries the fast way to record the changes `fresh`: without reading the whole content, which is
        possible if each concerns one technique in one state. Returns the new version; None if this way is not
        possible, and nothing was recorded. The content in memory is brought up to date when it is read
        next."""
        version = self._database.record_in_entries(self._content, fresh)
        if version is not None:
            self._database.reached(version)
        return version

    def _write(self, fresh: Callable[[Connection, Content], list[Fresh]]) -> int:
        """Record and apply, in one transaction, the changes that `fresh` returns for the connection and
        the latest content. Returns the new version."""
        with self._database.writing() as connection:
            content = refreshed(connection, self._content).copy()
            touched: set[Key] = set()
            recorded = []
            for change, provenance, uid in fresh(connection, content):
                touched |= content.apply(change, provenance)
                content.version += 1
                recorded.append(event_row(content.version, change, provenance, uid))
            if recorded:
                append_events(connection, recorded)
                save(connection, content, touched)
        return self._keep(content)

    def _disregard(self, connection: Connection, changes: Sequence[RolledBack | Reverted]) -> Content:
        """Record rollbacks or reverts and recompute everything from the events that are then in effect;
        returns the new content."""
        latest = about_row(connection).version
        rows = [event_row(latest + n, change, NOBODY, uuid4().hex) for n, change in enumerate(changes, 1)]
        append_events(connection, rows)
        content = content_of(read_events(connection))
        rewrite(connection, content)
        return content

    def _keep(self, content: Content) -> int:
        """Remembers `content`, which was just written to the database, as the latest in memory. Returns its
        version."""
        self._content = content
        self._database.reached(content.version)
        return content.version

    def _latest(self, connection: Connection, version: int) -> int:
        """The latest version in the database. Raises KnowledgeError if `version` is above that or
        negative."""
        latest: int = about_row(connection).version
        if not 0 <= version <= latest:
            raise KnowledgeError(f"{self.name}: has no version {version}; the latest is {latest}.")
        return latest
