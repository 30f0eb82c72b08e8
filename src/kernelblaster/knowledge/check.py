"""Checks a whole knowledge base; if its tables of performance states and optimizations are damaged, makes
them again from the events."""

from pathlib import Path

from sqlalchemy import Connection, Table, select, text
from sqlalchemy.exc import DBAPIError

from kernelblaster.durability import replace_durably
from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge import tables
from kernelblaster.knowledge.database import Database
from kernelblaster.knowledge.head import BESIDE
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.rows import READERS, DamagedRow, Values

MOST_LISTED = 20  # problems of one kind


def problems(where: str | Path) -> list[str]:
    """Returns everything that is wrong with the knowledge base at the address `where`, one line each; empty
    if nothing is. A line names a damaged row (at most 20 of a table). If no row is damaged, a line may say
    that the tables of performance states and optimizations are not what the events give when they are applied
    again."""
    try:
        database = Database(where, create=False, trusting=True)
    except KnowledgeError as error:
        return [str(error)]
    lines: list[str] = []
    try:
        with database.reading() as connection:
            if database.sqlite:
                said = connection.execute(text(f"PRAGMA integrity_check({MOST_LISTED})")).scalars().all()
                lines += [line for line in said if line != "ok"]
            for table in tables.metadata.sorted_tables:
                lines += _of(connection, table)[:MOST_LISTED]
    except KnowledgeError as error:
        lines.append(str(error))
    finally:
        database.close()
    return lines or _together(where)


def repair(where: str | Path) -> Path | None:
    """Computes the tables of performance states and optimizations of the knowledge base at `where` anew from
    its events. A SQLite file is replaced by a new one; returns the path to which the damaged one was renamed.
    A PostgreSQL database is changed in place; returns None. No other process may use the knowledge base
    meanwhile. Raises KnowledgeError if events are damaged too."""
    database = Database(where, create=False, trusting=True)
    try:
        with database.reading() as connection:
            events = _whole_events(connection)
        if database.file is None:
            with KnowledgeBase(where, create=False) as knowledge:
                knowledge.rebuild()
            return None
    finally:
        database.close()
    return _made_again(database.file, events)


def _of(connection: Connection, table: Table) -> list[str]:
    """Reads all rows of `table` and returns a line for each whose checksum is wrong or that cannot be parsed;
    empty if all are whole."""
    damaged = []
    for row in connection.execute(select(table)):
        try:
            READERS[table.name](row)
        except DamagedRow as error:
            damaged.append(str(error))
    return damaged


def _together(where: str | Path) -> list[str]:
    """Returns one line if the tables of states and optimizations of a knowledge base are not what follows
    from its events; empty if they are. Each row by itself must be undamaged."""
    try:
        with KnowledgeBase(where, create=False) as knowledge:
            made, kept = knowledge.rebuilt(), knowledge.content()
    except KnowledgeError as error:
        return [str(error)]
    return [] if made == kept else ["states and optimizations are not what follows from the events"]


def _whole_events(connection: Connection) -> list[Values]:
    """The rows of the table of events, in the order in which they were recorded, each one's checksum
    verified. Raises KnowledgeError if one is damaged, or cannot be read."""
    events: list[Values] = []
    try:
        for row in connection.execute(select(tables.events).order_by(tables.events.c.version)):
            READERS[tables.events.name](row)
            events.append(dict(row._mapping))
    except (DamagedRow, DBAPIError) as error:
        raise KnowledgeError(
            f"the events are damaged too ({error}), from version {len(events) + 1} on: restore a copy; what "
            "is known can be saved, if it can be read, with `kernelblaster kb export`."
        ) from error
    return events


def _made_again(path: Path, events: list[Values]) -> Path:
    """Builds a new knowledge base at `path` from the rows of all its events. The damaged file is first
    renamed; returns the path that it then has."""
    scratch, damaged = path.with_name(f".{path.name}.new"), path.with_name(f"{path.name}.damaged")
    try:
        scratch.unlink(missing_ok=True)
        with KnowledgeBase(scratch) as knowledge:
            knowledge.rebuild(events)
        for rest in BESIDE:
            Path(f"{path}{rest}").unlink(missing_ok=True)  # all of it was read
        path.replace(damaged)
        replace_durably(scratch, path)
    except OSError as error:
        raise KnowledgeError(f"{path}: cannot be replaced: {error.strerror or error}.") from error
    return damaged
