"""Records changes that each concern one technique in one state without reading the rest of a knowledge base's
content. Most of what searches record is of this kind, and searches that share a knowledge base wait for each
other while one writes."""

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
    """What is read from the database before entries (what is known about techniques in states) are changed:
    `about`, the row of kb_about; `latest_state`, the version at which any state was last changed; `entries`,
    the rows to change; `recorded`, the identities of those changes that are recorded already."""

    about: Any
    latest_state: int
    entries: Sequence[Any]
    recorded: Collection[str]


@dataclass(frozen=True)
class EntriesWritten:
    """What is written to change entries (techniques in states): rows of events and optimizations, and the row
    of kb_about."""

    events: list[Values]
    entries: list[Values]
    about: Values


def entry_keys(known: Content, fresh: Sequence[Fresh]) -> set[EntryKey] | None:
    """The (state, technique) pairs that the changes `fresh` are about. States that were merged are replaced
    by what they were merged into, by `known`, an earlier content. None if a change concerns more than one
    pair (is not of a type in SINGLE), or its state is not in `known`."""
    keys: set[EntryKey] = set()
    for change, _, _ in fresh:
        if not isinstance(change, SINGLE) or change.state not in known.states:
            return None
        keys.add((known.resolve(change.state), change.technique))
    return keys


def change_entries(
    known: Content, keys: set[EntryKey], fresh: Sequence[Fresh], read: EntriesRead
) -> EntriesWritten | None:
    """Applies the changes `fresh` to the entries that were `read`, those of `keys`, and returns the rows to
    write. None if those entries are not enough: states were added or merged since `known`, an entry is
    missing, or a change was recorded before. Raises Damaged if a row's checksum is wrong."""
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
    """Records and applies the changes `fresh` in the caller's transaction, and returns the new version. Does
    nothing and returns None if `known`, an earlier content, and the rows of the changed entries are not
    enough to do so."""
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
