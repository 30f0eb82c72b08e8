"""The rows that changed between two versions of a knowledge base, by which a `Content` in memory, or in a
process without access to the database, is brought up to date."""

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from kernelblaster.knowledge import tables
from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.knowledge.rows import Damaged, Values, checked, optimization_of, state_of


class ContentChanges(NamedTuple):
    """The row of kb_about (latest version and counts of rows), and the rows of states and of optimizations
    that changed since some version; all of them if the tables were rebuilt since."""

    about: Values
    states: Sequence[Values]
    optimizations: Sequence[Values]


def changed_rows(connection: Connection, about: Any, since: int) -> ContentChanges:
    """The rows that changed after version `since`; all rows if the tables were rebuilt since. `about` is the
    row of kb_about."""
    known = 0 if about.rebuilt > since else since
    found = (
        connection.execute(select(table).where(table.c.version > known))
        for table in (tables.states, tables.optimizations)
    )
    states, optimizations = ([dict(row._mapping) for row in rows] for rows in found)
    return ContentChanges(dict(about._mapping), states, optimizations)


def updated(content: Content, changes: ContentChanges) -> Content:
    """A copy of `content` brought up to date with the rows that changed since its version. Raises DamagedRow
    if a row's checksum is wrong, Damaged if the number of rows is not the one written."""
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
    """How many techniques this content has: a technique counts once for each state that offers it."""
    return sum(map(len, content.entries.values()))


def _rows(values: Iterable[Values]) -> Iterable[Any]:
    """Makes rows that came as dictionaries look like rows of a database: objects with attributes, which the
    functions of rows.py read."""
    return (SimpleNamespace(**row) for row in values)
