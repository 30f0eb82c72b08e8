"""Reads, updates and rewrites the tables of performance states and optimizations, which hold the latest
content. All functions work in a transaction that the caller has opened."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table, select

from kernelblaster.databases.inserting import insert_into
from kernelblaster.knowledge import tables
from kernelblaster.knowledge.content import Content, Key
from kernelblaster.knowledge.content_changes import changed_rows, optimizations_in, updated
from kernelblaster.knowledge.rows import Damaged, Values, checked, optimization_row, state_row, summed


def about_row(connection: Connection) -> Any:
    """Returns the single row of the table kb_about: the format of the tables, the latest version, the version
    at which all rows were last written anew (`rebuilt`), and the numbers of rows of the other tables. Raises
    Damaged if the row is missing or its checksum is wrong."""
    row = connection.execute(select(tables.about)).first()
    if row is None:
        raise Damaged("kb_about is empty")
    return checked(tables.about, row)


def refreshed(connection: Connection, known: Content) -> Content:
    """Returns the content at the latest version. `known` is a content read earlier: it is returned itself if
    its version is the latest, else a copy of it that is updated with the rows that changed since. Raises
    Damaged if rows are damaged or missing."""
    about = about_row(connection)
    if about.version == known.version:
        return known
    return updated(known, changed_rows(connection, about, known.version))


def save(connection: Connection, content: Content, keys: set[Key]) -> None:
    """Writes the rows of `content` for these keys, in place of older rows. A key is (performance state,
    technique), or (state, None) for the state itself. Also writes the content's version and the new numbers
    of rows."""
    _save(connection, content, keys, about_row(connection).rebuilt)


def rewrite(connection: Connection, content: Content) -> None:
    """Deletes all rows of the tables of performance states and optimizations, and writes those of `content`
    instead."""
    connection.execute(tables.states.delete())
    connection.execute(tables.optimizations.delete())
    keys: set[Key] = {(name, None) for name in content.states}
    keys |= {(name, technique) for name, row in content.entries.items() for technique in row}
    _save(connection, content, keys, rebuilt=content.version)


def _save(connection: Connection, content: Content, keys: set[Key], rebuilt: int) -> None:
    """Writes the rows of `content` for these keys (states, or techniques in them) in place of older ones, and
    the row of kb_about: version and counts, and `rebuilt`, the version at which all rows were last written
    anew."""
    states, entries = [], []
    for name, technique in sorted(keys, key=lambda key: (key[0], key[1] or "")):
        if technique is None:
            states.append(state_row(name, content.version, content.states[name]))
        else:
            entry = content.entries[name][technique]
            entries.append(optimization_row(name, technique, content.version, entry))
    replace_rows(connection, tables.states, states)
    replace_rows(connection, tables.optimizations, entries)
    counts = len(content.states), optimizations_in(content)
    save_about(connection, about_values(content.version, rebuilt, *counts))


def replace_rows(connection: Connection, table: Table, rows: Sequence[Values]) -> None:
    """Writes these rows to `table`. A row with a primary key that the table has already takes the place of
    the old one. Does nothing if `rows` is empty."""
    if not rows:
        return
    insert = insert_into(connection, table)
    keys = [column.name for column in table.primary_key]
    names = [column.name for column in table.columns if column.name not in keys]
    others = {name: insert.excluded[name] for name in names}
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=others), list(rows))


def about_values(version: int, rebuilt: int, states: int, optimizations: int) -> Values:
    """Returns the values of the row of the table kb_about, with its checksum: the latest version, the version
    at which all rows were last written anew (`rebuilt`), and the numbers of rows of the tables of performance
    states and optimizations."""
    counts = {"states": states, "optimizations": optimizations}
    return summed(tables.about, {"format": tables.FORMAT, "rebuilt": rebuilt, "version": version, **counts})


def save_about(connection: Connection, values: Values) -> None:
    """Replaces the values in the single row of the table kb_about, which has the format, version and numbers
    of rows of the knowledge base."""
    connection.execute(tables.about.update().values(**values))
