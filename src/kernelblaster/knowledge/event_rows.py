"""Reads and appends rows of the table of events. All functions work in a transaction that the caller has
opened."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge import tables
from kernelblaster.knowledge.events import Change, KnowledgeEvent, Provenance, RolledBack, effective
from kernelblaster.knowledge.rows import Damaged, Values, event_of

AT_ONCE = 500  # values in one query
Fresh = tuple[Change, Provenance, str]
"""A change to be recorded, where it comes from, and its identity."""


def read_events(connection: Connection, since: int = 0, until: int | None = None) -> list[KnowledgeEvent]:
    """Returns the events after version `since`, up to and including version `until` (None: the latest), in
    order. Events that were reverted or rolled back later are among them. Raises Damaged if an event is
    missing or its checksum is wrong."""
    events = [event_of(row) for row in event_rows(connection, since, until)]
    expected = range(since + 1, since + 1 + len(events))
    if [event.version for event in events] != list(expected):
        raise Damaged(f"events are missing after version {since}")
    return events


def event_rows(connection: Connection, since: int, until: int | None) -> Sequence[Row[Any]]:
    """Returns the rows of the events after version `since`, up to and including version `until` (None: the
    latest), in order. Their checksums are not verified."""
    table = tables.events
    query = select(table).where(table.c.version > since).order_by(table.c.version)
    if until is not None:
        query = query.where(table.c.version <= until)
    return connection.execute(query).all()


def append_events(connection: Connection, rows: Sequence[Values]) -> None:
    """Adds `rows` to the table of events. The caller sees to it that their versions continue from the latest
    one without a gap; this is not checked."""
    if rows:
        connection.execute(tables.events.insert(), list(rows))


def uncounted(connection: Connection, known: Sequence[Fresh]) -> list[Fresh]:
    """Returns those of the changes `known` that have no effect in this database at present, because they were
    never recorded, or were later reverted or rolled back. Each change comes with its provenance (where it
    comes from) and its identity (a text by which it is recognized in every knowledge base)."""
    uids = [uid for _, _, uid in known]
    recorded: set[str] = set()
    for start in range(0, len(uids), AT_ONCE):
        some = tables.events.c.uid.in_(uids[start : start + AT_ONCE])
        recorded |= set(connection.execute(select(tables.events.c.uid).where(some)).scalars())
    if not recorded:
        return list(known)
    here = {event.uid for event in effective(read_events(connection))}
    return [fresh for fresh in known if fresh[2] not in here]


def check_revertible(connection: Connection, version: int, name: str) -> None:
    """Raises KnowledgeError if the event of this version cannot be reverted: there is none, or it is a
    rollback. `name` is the knowledge base's, for the message."""
    events = read_events(connection, version - 1, version)
    if not events or isinstance(events[0].change, RolledBack):
        raise KnowledgeError(
            f"{name}: version {version} is no single change; roll back to a version instead."
        )
