"""A knowledge base looked at as a whole, and made again from its events where something else is damaged."""

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

TOLD = 20  # problems of one kind


def problems(where: str | Path) -> list[str]:
    """Everything that is not what was written, row by row; nothing: all is well."""
    try:
        database = Database(where, create=False, trusting=True)
    except KnowledgeError as error:
        return [str(error)]
    found: list[str] = []
    try:
        with database.reading() as connection:
            if database.sqlite:
                said = connection.execute(text(f"PRAGMA integrity_check({TOLD})")).scalars().all()
                found += [line for line in said if line != "ok"]
            for table in tables.metadata.sorted_tables:
                found += _of(connection, table)[:TOLD]
    except KnowledgeError as error:
        found.append(str(error))
    finally:
        database.close()
    return found or _together(where)


def repair(where: str | Path) -> Path | None:
    """Make the other tables again from the events, if all of those are whole. A file is replaced, and where
    the damaged one is kept is returned. Nobody else may be using it."""
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
    found = []
    for row in connection.execute(select(table)):
        try:
            READERS[table.name](row)
        except DamagedRow as error:
            found.append(str(error))
    return found


def _together(where: str | Path) -> list[str]:
    """Of rows that are all whole: whether any is missing, and whether they follow from the events."""
    try:
        with KnowledgeBase(where, create=False) as knowledge:
            made, kept = knowledge.rebuilt(), knowledge.content()
    except KnowledgeError as error:
        return [str(error)]
    return [] if made == kept else ["states and optimizations are not what follows from the events"]


def _whole_events(connection: Connection) -> list[Values]:
    found: list[Values] = []
    try:
        for row in connection.execute(select(tables.events).order_by(tables.events.c.version)):
            READERS[tables.events.name](row)
            found.append(dict(row._mapping))
    except (DamagedRow, DBAPIError) as error:
        raise KnowledgeError(
            f"the events are damaged too ({error}), from version {len(found) + 1} on: restore a copy; what "
            "is known can be saved, if it can be read, with `kernelblaster kb export`."
        ) from error
    return found


def _made_again(path: Path, events: list[Values]) -> Path:
    scratch, damaged = path.with_name(f".{path.name}.new"), path.with_name(f"{path.name}.damaged")
    try:
        scratch.unlink(missing_ok=True)
        with KnowledgeBase(scratch) as knowledge:
            knowledge.refill(events)
        for rest in BESIDE:
            Path(f"{path}{rest}").unlink(missing_ok=True)  # all of it was read
        path.replace(damaged)
        replace_durably(scratch, path)
    except OSError as error:
        raise KnowledgeError(f"{path}: cannot be replaced: {error.strerror or error}.") from error
    return damaged
