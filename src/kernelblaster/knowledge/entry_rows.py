"""Records changes of single entries (what is known about one technique in one performance state) without
reading the rest of a knowledge base's content. Most of what searches record is of this kind. It has to be
fast: of searches that share a knowledge base, only one can write at a time, and the others wait."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, func, or_, select

from kernelblaster.knowledge import tables
from kernelblaster.knowledge.content import Content, Key
from kernelblaster.knowledge.content_rows import about_values, replace_rows, save_about
from kernelblaster.knowledge.event_rows import Fresh, append_events
from kernelblaster.knowledge.events import EvidenceAdded, Observed
from kernelblaster.knowledge.rows import (
    Damaged,
    Values,
    checked,
    event_row,
    optimization_of,
    optimization_row,
)

SINGLE = (Observed, EvidenceAdded)
"""Changes that need one entry and change only that."""
EntryKey = tuple[str, str]
"""A state, and a technique in it."""


@dataclass(frozen=True)
class EntriesRead:
    """The rows that are read from the database before entries (what is known about one technique in one
    performance state) are changed. `about` is the row of the table kb_about; `latest_state` is the version at
    which any state was last changed; `entries` are the rows to change; `recorded` are the identities of those
    changes that the database has recorded already."""

    about: Any
    latest_state: int
    entries: Sequence[Any]
    recorded: Collection[str]


@dataclass(frozen=True)
class EntriesWritten:
    """The rows to write when entries (what is known about one technique in one performance state) are
    changed: new ones of the table of events, replacements in the table of optimizations, and the row of
    kb_about."""

    events: list[Values]
    entries: list[Values]
    about: Values


def entry_keys(known: Content, fresh: Sequence[Fresh]) -> set[EntryKey] | None:
    """Returns the (performance state, technique) pairs that the changes `fresh` are about. Each change comes
    with its provenance (where it comes from) and its identity (a text by which it is recognized in every
    knowledge base). `known` is a content read earlier. If a change's state was merged into another state in
    `known`, the pair names that other state. None if a change is of a type that may concern more than one
    pair (not in SINGLE), or if `known` does not have its state."""
    keys: set[EntryKey] = set()
    for change, _, _ in fresh:
        if not isinstance(change, SINGLE) or change.state not in known.states:
            return None
        keys.add((known.resolve(change.state), change.technique))
    return keys


def change_entries(
    known: Content, keys: set[EntryKey], fresh: Sequence[Fresh], read: EntriesRead
) -> EntriesWritten | None:
    """Returns the rows to write for the changes `fresh`. Each change comes with its provenance (where it
    comes from) and its identity (a text by which it is recognized in every knowledge base). `keys` are the
    (performance state, technique) pairs that the changes are about, and `read` has the rows of these; `known`
    is a content read earlier. None if this is not enough to apply the changes: a state was added, changed or
    merged after `known` was read, an entry is missing, or one of the changes is recorded already. Raises
    Damaged if a row's checksum is wrong."""
    about = checked(tables.about, read.about)
    if read.recorded or max(about.rebuilt, read.latest_state) > known.version:
        return None
    content = Content(about.version, known.states)
    for row in read.entries:
        content.entries.setdefault(row.state, {})[row.technique] = optimization_of(row)
    if sum(map(len, content.entries.values())) < len(keys):
        return None
    touched: set[Key] = set()
    events = []
    for change, provenance, uid in fresh:
        touched |= content.apply(change, provenance)
        content.version += 1
        events.append(event_row(content.version, change, provenance, uid))
    entries = [
        optimization_row(state, technique, content.version, content.entries[state][technique])
        for state, technique in sorted((state, technique or "") for state, technique in touched)
    ]
    return EntriesWritten(
        events, entries, about_values(content.version, about.rebuilt, about.states, about.optimizations)
    )


def record_in_entries(connection: Connection, known: Content, fresh: Sequence[Fresh]) -> int | None:
    """Records and applies the changes `fresh` in the caller's transaction, and returns the new version. Each
    change comes with its provenance (where it comes from) and its identity (a text by which it is recognized
    in every knowledge base). `known` is a content read earlier. Besides it, only the rows of the changed
    entries are read. Does nothing and returns None if the rows and `known` do not suffice to apply the
    changes, for example because a performance state was merged after `known` was read."""
    keys = entry_keys(known, fresh)
    if not keys:
        return None
    written = change_entries(known, keys, fresh, _read(connection, keys, [uid for _, _, uid in fresh]))
    if written is None:
        return None
    append_events(connection, written.events)
    replace_rows(connection, tables.optimizations, written.entries)
    save_about(connection, written.about)
    return int(written.about["version"])


def _read(connection: Connection, keys: set[EntryKey], uids: Sequence[str]) -> EntriesRead:
    """Read what is needed to change these entries: `uids` are the identities of the changes. Raises Damaged
    if kb_about is empty."""
    latest = select(func.max(tables.states.c.version)).scalar_subquery().label("latest_state")
    about = connection.execute(select(tables.about, latest)).first()
    if about is None:
        raise Damaged("kb_about is empty")
    table = tables.optimizations
    wanted = [and_(table.c.state == state, table.c.technique == technique) for state, technique in keys]
    entries = connection.execute(select(table).where(or_(*wanted))).all()
    known = select(tables.events.c.uid).where(tables.events.c.uid.in_(uids))
    return EntriesRead(about, about.latest_state or 0, entries, connection.execute(known).scalars().all())
