"""Converts events and entries to database rows with checksums, and back. What is read is what was written, or
an error names the damaged row."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row, Table

from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge import tables
from kernelblaster.knowledge.content import OptimizationEntry, StateEntry
from kernelblaster.knowledge.events import Change, KnowledgeEvent, Provenance

SUM_BYTES = 8
_changes: TypeAdapter[Change] = TypeAdapter(Change)
Values = dict[str, Any]


class Damaged(KnowledgeError):
    """Raised if the tables of a knowledge base are not as they were written. The message says what is wrong,
    without the knowledge base's name."""


class DamagedRow(Damaged):
    """Raised if the checksum of `row`, a row of `table`, does not fit its values. The message names the table
    and the row's key."""

    def __init__(self, table: Table, row: Row[Any]) -> None:
        key = ", ".join(f"{column.name} {getattr(row, column.name)!r}" for column in table.primary_key)
        super().__init__(f"a row of {table.name}{f' ({key})' if key else ''} is not what was written")


def summed(table: Table, values: Values) -> Values:
    """Returns the values of a row of `table` together with their checksum, which has the key `sum`."""
    return values | {"sum": _sum(table, values)}


def checked(table: Table, row: Row[Any]) -> Row[Any]:
    """Returns `row`, a row of `table`, unchanged if its checksum is right; raises DamagedRow if not."""
    values = {column.name: getattr(row, column.name) for column in table.columns if column.name != "sum"}
    if row.sum != _sum(table, values):
        raise DamagedRow(table, row)
    return row


def event_row(version: int, change: Change, provenance: Provenance, uid: str) -> Values:
    """Returns a new event as the values of a row of the table of events, with a checksum and the present
    time. `version` is the event's number, `uid` its identity; `provenance` says which search made the
    change."""
    values = {
        "version": version,
        "uid": uid,
        "time": datetime.now(UTC).isoformat(),
        "kind": change.kind,
        "payload": change.model_dump_json(),
        "provenance": provenance.model_dump_json(exclude_none=True),
    }
    return summed(tables.events, values)


def event_of(row: Row[Any]) -> KnowledgeEvent:
    """Returns the event in a row of the table of events. Raises DamagedRow if the row's checksum is wrong."""
    checked(tables.events, row)
    return KnowledgeEvent(
        version=row.version,
        uid=row.uid,
        time=datetime.fromisoformat(row.time),
        change=_changes.validate_json(row.payload),
        provenance=Provenance.model_validate_json(row.provenance),
    )


def state_row(name: str, version: int, entry: StateEntry) -> Values:
    """Returns `entry`, what is known about the state `name`, as the values of a row, with a checksum.
    `version` is the number of the event that changed the state last."""
    return summed(tables.states, {"name": name, "version": version, "body": entry.model_dump_json()})


def state_of(row: Row[Any]) -> StateEntry:
    """Returns what a row of the table of states says about its state. Raises DamagedRow if the row's checksum
    is wrong."""
    return StateEntry.model_validate_json(checked(tables.states, row).body)


def optimization_row(state: str, technique: str, version: int, entry: OptimizationEntry) -> Values:
    """Returns `entry`, what is known about a technique in a performance state, as the values of a row, with a
    checksum. `version` is the number of the event that changed it last."""
    values = {"state": state, "technique": technique, "version": version, "body": entry.model_dump_json()}
    return summed(tables.optimizations, values)


def optimization_of(row: Row[Any]) -> OptimizationEntry:
    """Returns what a row of the table of optimizations says about its technique in its performance state.
    Raises DamagedRow if the row's checksum is wrong."""
    return OptimizationEntry.model_validate_json(checked(tables.optimizations, row).body)


READERS: dict[str, Callable[[Row[Any]], object]] = {
    tables.about.name: lambda row: checked(tables.about, row),
    tables.events.name: event_of,
    tables.states.name: state_of,
    tables.optimizations.name: optimization_of,
}


def _sum(table: Table, values: Values) -> str:
    """The checksum of a row: over name, type, length and text of each value, so that no two different
    rows are hashed alike."""
    digest = hashlib.blake2b(table.name.encode(), digest_size=SUM_BYTES)
    for name in sorted(values):
        text = str(values[name])
        digest.update(f"{name} {type(values[name]).__name__} {len(text)} {text}".encode(errors="replace"))
    return digest.hexdigest()
