"""The tables of states and optimizations, which hold the latest content: read, updated and rewritten in a
transaction of the caller."""

from typing import Any

from sqlalchemy import Connection, bindparam, select

from kernelblaster.knowledge import tables
from kernelblaster.knowledge.content import Content, Key
from kernelblaster.knowledge.content_changes import changed_rows, optimizations_in, updated
from kernelblaster.knowledge.rows import Damaged, checked, optimization_row, state_row, summed


def about_row(connection: Connection) -> Any:
    """The row with the format, the latest version, the version at which all rows were last written anew
    (`rebuilt`), and the counts of the other tables. Raises Damaged."""
    row = connection.execute(select(tables.about)).first()
    if row is None:
        raise Damaged("kb_about is empty")
    return checked(tables.about, row)


def refreshed(connection: Connection, known: Content) -> Content:
    """The latest content: `known` itself if that is the latest, else a copy of it, updated with the rows
    that changed since. Raises Damaged if rows are missing."""
    about = about_row(connection)
    if about.version == known.version:
        return known
    return updated(known, changed_rows(connection, about, known.version))


def save(connection: Connection, content: Content, keys: set[Key]) -> None:
    """Write the rows of these keys, replacing older ones, and the counts of all."""
    _save(connection, content, keys, about_row(connection).rebuilt)


def rewrite(connection: Connection, content: Content) -> None:
    """Replace all rows by those of `content`."""
    connection.execute(tables.states.delete())
    connection.execute(tables.optimizations.delete())
    keys: set[Key] = {(name, None) for name in content.states}
    keys |= {(name, technique) for name, row in content.entries.items() for technique in row}
    _save(connection, content, keys, rebuilt=content.version)


def _save(connection: Connection, content: Content, keys: set[Key], rebuilt: int) -> None:
    """As `save`; `rebuilt` is the version at which all rows were last written anew."""
    states, entries = [], []
    for name, technique in sorted(keys, key=lambda key: (key[0], key[1] or "")):
        if technique is None:
            states.append(state_row(name, content.version, content.states[name]))
        else:
            entry = content.entries[name][technique]
            entries.append(optimization_row(name, technique, content.version, entry))
    for table, rows in ((tables.states, states), (tables.optimizations, entries)):
        if rows:
            here = [column == bindparam(f"old_{column.name}") for column in table.primary_key]
            old = [{f"old_{column.name}": row[column.name] for column in table.primary_key} for row in rows]
            connection.execute(table.delete().where(*here), old)
            connection.execute(table.insert(), rows)
    about = {"format": tables.FORMAT, "rebuilt": rebuilt, "version": content.version}
    about |= {"states": len(content.states), "optimizations": optimizations_in(content)}
    connection.execute(tables.about.update().values(**summed(tables.about, about)))
