"""Finds the rows of a knowledge base that changed after some version, and brings a `Content` that was read
earlier up to date with them. The process that does so need not have access to the database."""

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from kernelblaster.knowledge import tables
from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.knowledge.rows import Damaged, Values, checked, optimization_of, state_of


class ContentChanges(NamedTuple):
    """The database rows from which a content of an earlier version is brought up to date. `about` is the row
    of the table kb_about, with the latest version and the counts of rows. `states` and `optimizations` are
    the rows of these tables that changed since the earlier version, or all rows if the tables were written
    anew since."""

    about: Values
    states: Sequence[Values]
    optimizations: Sequence[Values]


def changed_rows(connection: Connection, about: Any, since: int) -> ContentChanges:
    """Returns the rows of the tables of performance states and techniques that changed after version `since`,
    together with `about`, the row of the table kb_about. That row says at which version the tables were last
    written anew; if this is after `since`, all their rows are returned."""
    known = 0 if about.rebuilt > since else since
    found = (
        connection.execute(select(table).where(table.c.version > known))
        for table in (tables.states, tables.optimizations)
    )
    states, optimizations = ([dict(row._mapping) for row in rows] for rows in found)
    return ContentChanges(dict(about._mapping), states, optimizations)


def updated(content: Content, changes: ContentChanges) -> Content:
    """Returns a copy of `content` brought up to date by `changes`, the rows that changed since its version.
    Raises DamagedRow if a row's checksum is wrong. Raises Damaged if the numbers of performance states and
    techniques in the result are not those in `changes.about`, the row of the table kb_about."""
    about = checked(tables.about, SimpleNamespace(**changes.about))  # type: ignore[arg-type]
    latest = Content() if about.rebuilt > content.version else content.copy()
    latest.version = about.version
    for row in _rows(changes.states):
        latest.states[row.name] = state_of(row)
    changed: dict[str, dict[str, OptimizationEntry]] = {}
    for row in _rows(changes.optimizations):
        changed.setdefault(row.state, {})[row.technique] = optimization_of(row)
    for name, entries in changed.items():
        latest.entries[name] = {**latest.entries.get(name, {}), **entries}
    if (len(latest.states), optimizations_in(latest)) != (about.states, about.optimizations):
        raise Damaged(
            f"it has {len(latest.states)} states and {optimizations_in(latest)} optimizations; "
            f"{about.states} and {about.optimizations} were written"
        )
    return latest


def optimizations_in(content: Content) -> int:
    """Returns the number of techniques in this content; a technique counts once in each performance state
    that has it."""
    return sum(map(len, content.entries.values()))


def _rows(values: Iterable[Values]) -> Iterable[Any]:
    """Makes rows that came as dictionaries look like rows of a database: objects with attributes, which the
    functions of rows.py read."""
    return (SimpleNamespace(**row) for row in values)
