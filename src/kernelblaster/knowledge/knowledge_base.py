"""The knowledge base: every change is an event, and every earlier version can be read."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import ValidationError
from sqlalchemy import Connection, Row, bindparam, select

from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge import tables
from kernelblaster.knowledge.consolidate import KnowledgeLimits, consolidation
from kernelblaster.knowledge.content import (
    Content,
    Key,
    Scored,
    content_of,
)
from kernelblaster.knowledge.content_changes import (
    ContentChanges,
    MissingRows,
    changed_rows,
    optimizations_in,
    updated,
)
from kernelblaster.knowledge.database import Database
from kernelblaster.knowledge.events import (
    KNOWLEDGE,
    Change,
    KnowledgeEvent,
    Noted,
    Observed,
    OptimizationAdded,
    PriorSet,
    Provenance,
    Result,
    Reverted,
    RolledBack,
    StateAdded,
    effective,
)
from kernelblaster.knowledge.matching import MATCH, nearest
from kernelblaster.knowledge.rows import (
    Values,
    checked,
    event_of,
    event_row,
    optimization_row,
    state_row,
    summed,
)
from kernelblaster.records import Optimization, State

NOBODY = Provenance()
AT_ONCE = 500  # values in one query
Fresh = tuple[Change, Provenance, str]
"""A change to be recorded, where it comes from, and its identity."""


class KnowledgeBase:
    """A knowledge base in a file (SQLite) or at a URL (PostgreSQL), usable by many processes at once.
    `create`: make it if there is none. Methods raise KnowledgeError if it is damaged or cannot be
    reached.

    The content is held in memory; before each read, only what other processes have changed is fetched."""

    def __init__(self, where: str | Path, create: bool = True) -> None:
        self._database = Database(where, create)
        self._content = Content()

    @property
    def name(self) -> str:
        """The address as it is shown to people, without a password."""
        return self._database.name

    @property
    def version(self) -> int:
        """The number of the latest event; an empty knowledge base is at 0."""
        return self.content().version

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> "KnowledgeBase":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading

    def content(self) -> Content:
        """The content at the latest version: a snapshot that later changes do not affect."""
        with self._database.reading() as connection:
            self._content = self._refreshed(connection)
        return self._content

    def optimizations(
        self,
        state: str,
        architecture: str | None = None,
        applied: tuple[str, ...] = (),
        family: str | None = None,
    ) -> list[Scored]:
        """The techniques of a state that are not retired, with their predictions for a GPU architecture,
        after the techniques `applied`, in a family of tasks (None: any); largest expected gain first."""
        return self.content().optimizations(state, architecture, applied, family)

    def log(self, since: int = 0, until: int | None = None) -> list[KnowledgeEvent]:
        """The events after version `since`, up to and including `until` (None: the latest), reverted ones
        included."""
        with self._database.reading() as connection:
            return self._events(connection, since, until)

    def rows_of_log(self, since: int, until: int | None) -> list[Values]:
        """As `log`, as rows of the table of events, for a process that has no access to the database."""
        with self._database.reading() as connection:
            return [dict(row._mapping) for row in self._event_rows(connection, since, until)]

    def changes(self, since: int) -> ContentChanges:
        """The rows that differ from the content at version `since`, for a process that has no access to the
        database."""
        with self._database.reading() as connection:
            return changed_rows(connection, self._about(connection), since)

    def at(self, version: int) -> Content:
        """The content as it was when `version` was the latest event. Raises KnowledgeError if there is no
        such version."""
        with self._database.reading() as connection:
            if version == self._check_version(connection, version):
                self._content = self._refreshed(connection)
                return self._content
            return content_of(self._events(connection, 0, version))

    # Learning

    def add_state(self, state: State, provenance: Provenance = NOBODY, discovered: bool = False) -> None:
        """Add a state; a known one is not changed."""
        if state.name in self.content().states:
            return
        self.record([StateAdded(state=state, discovered=discovered)], provenance)

    def add_optimization(
        self, state: str, optimization: Optimization, weight: float = 1.0, provenance: Provenance = NOBODY
    ) -> None:
        """Add a technique to a known state; one that is there is not changed. Its predicted speedup
        counts as `weight` observations."""
        content = self.content()
        if optimization.technique in content.entries.get(content.resolve(state), {}):
            return
        change = OptimizationAdded(state=state, optimization=optimization, weight=weight)
        self.record([change], provenance)

    def set_prior(
        self,
        state: str,
        technique: str,
        predicted: float,
        weight: float = 1.0,
        provenance: Provenance = NOBODY,
    ) -> None:
        """Replace the prior of a technique: `predicted` is a speedup, which counts as `weight`
        observations. Its evidence is kept."""
        change = PriorSet(state=state, technique=technique, predicted=predicted, weight=weight)
        self.record([change], provenance)

    def observe(
        self,
        state: str,
        technique: str,
        result: Result,
        provenance: Provenance = NOBODY,
        before: tuple[str, ...] = (),
    ) -> int:
        """Record the result of one attempt at `technique` in `state`, after the techniques `before`.
        `result` is the log speedup of a correct candidate, or the kind of failure. Returns the new
        version. Raises KnowledgeError if the technique is not known in that state."""
        try:
            change = Observed(state=state, technique=technique, result=result, before=before)
        except ValidationError as error:
            message = f"{state}, {technique}: {result!r} is neither a finite log speedup nor a failure."
            raise KnowledgeError(message) from error
        return self.record([change], provenance)

    def note(
        self, state: str, note: str, technique: str | None = None, provenance: Provenance = NOBODY
    ) -> None:
        """Add a note to a state, or to a technique in it."""
        self.record([Noted(state=state, technique=technique, note=note)], provenance)

    def match(self, state: State, provenance: Provenance = NOBODY, within: float = MATCH) -> str:
        """The name of the known state that this one stands for: the one of the same name, else the
        nearest within the distance `within` (see `distance`). If there is none, this state is added as
        discovered, and its name returned."""
        content = self.content()
        if state.name in content.states:
            return content.resolve(state.name)
        near = nearest(state, [entry.state for entry in content.living])
        if near is not None and near.distance <= within:
            return near.state.name
        self.add_state(state, provenance, discovered=True)
        return state.name

    def record(self, changes: Sequence[Change], provenance: Provenance = NOBODY) -> int:
        """Record all of these changes in one transaction or, on an error, none. Returns the new version."""
        return self._write(lambda *_: [(change, provenance, uuid4().hex) for change in changes])

    def merge(self, other: "KnowledgeBase") -> int:
        """Import the events of another knowledge base that this one does not have; returns how many. Its
        tidying (merged states, retired techniques, weights) is not imported."""
        theirs = [event for event in effective(other.log()) if isinstance(event.change, KNOWLEDGE)]
        return self.take_over([(event.change, event.provenance, event.uid) for event in theirs])

    def take_over(self, known: Sequence[Fresh]) -> int:
        """Record those changes whose identity is not among the events that count here; returns how many.
        One that was recorded and reverted is recorded again."""
        taken: list[Fresh] = []

        def unknown(connection: Connection, _: Content) -> list[Fresh]:
            taken.extend(self._uncounted(connection, known))
            return taken

        self._write(unknown)
        return len(taken)

    # Looking after it

    def consolidate(self, seed: int, limits: KnowledgeLimits | None = None) -> list[Change]:
        """Merge near-equal states, retire techniques that do not pay, re-weigh evidence; returns the
        changes made. `seed` chooses what is re-weighed."""
        done: list[Change] = []

        def tidy(_: Connection, content: Content) -> list[Fresh]:
            done.extend(consolidation(content, seed, limits or KnowledgeLimits()))
            return [(change, NOBODY, uuid4().hex) for change in done]

        self._write(tidy)
        return done

    def rollback(self, version: int) -> int:
        """Disregard all events after `version`. They stay recorded: rolling back to a later version
        brings them back. Returns the new version."""
        return self._select_events(RolledBack(version=version))

    def revert(self, version: int) -> int:
        """Disregard the one event of this version and keep later ones. Returns the new version. Raises
        KnowledgeError if later events build on it."""
        return self._select_events(Reverted(version=version))

    def rebuild(self) -> None:
        """Rewrite the tables of states and optimizations from the events."""
        self.refill([])

    def refill(self, events: Sequence[Values]) -> None:
        """Add these rows to the table of events, then rewrite the other tables from all events."""
        with self._database.writing() as connection:
            if events:
                connection.execute(tables.events.insert(), list(events))
            content = content_of(self._events(connection))
            self._rewrite(connection, content)
        self._keep(content)

    def rebuilt(self) -> Content:
        """The latest content as it follows from the events; the other tables are not read."""
        with self._database.reading() as connection:
            return content_of(self._events(connection))

    # Storage

    def _write(self, fresh: Callable[[Connection, Content], list[Fresh]]) -> int:
        """Record and apply, in one transaction, the changes that `fresh` returns for the connection and
        the latest content. Returns the new version."""
        with self._database.writing() as connection:
            rebuilt = self._about(connection).rebuilt
            content = self._refreshed(connection).copy()
            touched: set[Key] = set()
            recorded = []
            for change, provenance, uid in fresh(connection, content):
                touched |= content.apply(change, provenance)
                content.version += 1
                recorded.append(event_row(content.version, change, provenance, uid))
            if recorded:
                connection.execute(tables.events.insert(), recorded)
                _save(connection, content, touched, rebuilt)
        return self._keep(content)

    def _select_events(self, change: RolledBack | Reverted) -> int:
        """Record a rollback or revert and recompute everything from the events that then count. Returns
        the new version."""
        with self._database.writing() as connection:
            latest = self._check_version(connection, change.version)
            if isinstance(change, Reverted):
                self._check_revertible(connection, change.version)
            row = event_row(latest + 1, change, NOBODY, uuid4().hex)
            connection.execute(tables.events.insert(), [row])
            try:
                content = content_of(self._events(connection))
            except KnowledgeError as error:
                raise KnowledgeError(
                    f"{self.name}: later changes build on version {change.version}, so it cannot be "
                    f"taken out alone; roll back to version {change.version - 1} instead."
                ) from error
            self._rewrite(connection, content)
        return self._keep(content)

    def _keep(self, content: Content) -> int:
        """Hold this content, just written, in memory as the latest; returns its version."""
        self._content = content
        self._database.reached(content.version)
        return content.version

    def _uncounted(self, connection: Connection, known: Sequence[Fresh]) -> list[Fresh]:
        """The changes whose identity is not among the events that count here. All events are read only if
        one of them was recorded before: it may have been reverted since."""
        uids = [uid for _, _, uid in known]
        recorded: set[str] = set()
        for start in range(0, len(uids), AT_ONCE):
            some = tables.events.c.uid.in_(uids[start : start + AT_ONCE])
            recorded |= set(connection.execute(select(tables.events.c.uid).where(some)).scalars())
        if not recorded:
            return list(known)
        here = {event.uid for event in effective(self._events(connection))}
        return [fresh for fresh in known if fresh[2] not in here]

    def _check_version(self, connection: Connection, version: int) -> int:
        """The latest version. Raises KnowledgeError if `version` does not exist."""
        latest: int = self._about(connection).version
        if not 0 <= version <= latest:
            raise KnowledgeError(f"{self.name}: has no version {version}; the latest is {latest}.")
        return latest

    def _check_revertible(self, connection: Connection, version: int) -> None:
        """Raise KnowledgeError if there is no such event or it is a rollback."""
        events = self._events(connection, version - 1, version)
        if not events or isinstance(events[0].change, RolledBack):
            raise KnowledgeError(
                f"{self.name}: version {version} is no single change; roll back to a version instead."
            )

    def _events(
        self, connection: Connection, since: int = 0, until: int | None = None
    ) -> list[KnowledgeEvent]:
        """The events after `since` up to and including `until`. Raises KnowledgeError if some are
        missing."""
        events = [event_of(row) for row in self._event_rows(connection, since, until)]
        expected = range(since + 1, since + 1 + len(events))
        if [event.version for event in events] != list(expected):
            raise self._database.damaged(f"events are missing after version {since}")
        return events

    def _event_rows(self, connection: Connection, since: int, until: int | None) -> Sequence[Row[Any]]:
        """The rows of the events after `since` up to and including `until` (None: the latest), in order."""
        table = tables.events
        query = select(table).where(table.c.version > since).order_by(table.c.version)
        if until is not None:
            query = query.where(table.c.version <= until)
        return connection.execute(query).all()

    def _about(self, connection: Connection) -> Any:
        """The row with version, format and counts of the other tables."""
        row = connection.execute(select(tables.about)).first()
        if row is None:
            raise self._database.damaged("kb_about is empty")
        return checked(tables.about, row)

    def _refreshed(self, connection: Connection) -> Content:
        """The latest content: the one in memory, updated with the rows that changed since."""
        about = self._about(connection)
        if about.version == self._content.version:
            return self._content
        changes = changed_rows(connection, about, self._content.version)
        try:
            return updated(self._content, changes)
        except MissingRows as error:
            raise self._database.damaged(str(error)) from error

    def _rewrite(self, connection: Connection, content: Content) -> None:
        """Replace all rows of states and optimizations by those of `content`."""
        connection.execute(tables.states.delete())
        connection.execute(tables.optimizations.delete())
        keys: set[Key] = {(name, None) for name in content.states}
        keys |= {(name, technique) for name, row in content.entries.items() for technique in row}
        _save(connection, content, keys, rebuilt=content.version)


def _save(connection: Connection, content: Content, keys: set[Key], rebuilt: int) -> None:
    """Write the rows of these keys, replacing older ones, and update the row about all tables. `rebuilt`
    is the version at which all rows were last written anew."""
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
