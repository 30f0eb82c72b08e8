"""Keeps in a database which work each device is doing (a lease), and how often a device's process was lost
with the same work. So both survive the end of the process that recorded them."""

import time

from sqlalchemy import Connection, Executable, and_, bindparam, select

from kernelblaster.databases.inserting import insert_into
from kernelblaster.records.record import Record
from kernelblaster.store.database import StoreDatabase
from kernelblaster.store.pointer import pointer_of
from kernelblaster.store.run import LEASES, Run
from kernelblaster.store.tables import leases


class LostWork(Record):
    """Work during which the process of a device was lost. `about` says in words what it is, `losses` how
    often this happened, `why` the reason of the last time."""

    about: str
    losses: int
    why: str


class StoredLeases:
    """The records of work in progress (`Leases`) of one run or bench, kept in the database `store` under
    `scope`, the id of the run or bench. One process at a time works on it. If that process is killed while
    devices are at work, their work counts as lost when the next process opens the leases."""

    def __init__(self, store: StoreDatabase, scope: str) -> None:
        self._store = store
        self._scope = scope
        self._begin = _begin(store)
        self._lost: set[str] = set()  # work that has losses
        self._end = leases.delete().where(
            leases.c.scope == bindparam("its_scope"), leases.c.work == bindparam("its_work")
        )
        store.transact(self._recover)

    def begin(self, work: str, about: str, owner: str) -> int:
        values = {"scope": self._scope, "work": work, "about": about, "owner": owner, "since": time.time()}
        losses = int(self._store.note(self._begin, {**values, "held": True, "losses": 0, "why": ""}))
        if losses:
            self._lost.add(work)
        return losses

    def end(self, work: str) -> None:
        values = {"its_scope": self._scope, "its_work": work}
        if work in self._lost:  # on the disk: a server that crashes must not bring its losses back
            self._store.transact(lambda connection: connection.execute(self._end, values))
            self._lost.remove(work)
        else:
            self._store.note(self._end, values)

    def release(self, work: str) -> None:
        free = leases.update().where(self._is(work)).values(held=False)
        self._store.transact(lambda connection: connection.execute(free))

    def lose(self, work: str, why: str) -> int:
        def record(connection: Connection) -> int:
            held = connection.execute(select(leases.c.held).where(self._is(work))).scalar()
            changed = {"held": False, "why": why}
            if held:  # else it was recorded before the connection broke
                changed["losses"] = leases.c.losses + 1  # type: ignore[assignment]
            connection.execute(leases.update().where(self._is(work)).values(**changed))
            return connection.execute(select(leases.c.losses).where(self._is(work))).scalar() or 0

        self._lost.add(work)
        return self._store.transact(record)

    def lost_works(self) -> list[LostWork]:
        """Returns the work that was begun and lost, and has not been done since, each with the number of
        losses and the last reason."""
        query = select(leases).where(leases.c.scope == self._scope, leases.c.losses > 0)
        rows = self._store.transact(lambda connection: connection.execute(query).all())
        return [LostWork(about=row.about, losses=row.losses, why=row.why) for row in rows]

    def _recover(self, connection: Connection) -> None:
        """Counts work that is still marked as held as lost, since the process that held it has ended. Called
        when leases are opened, in the transaction of this connection."""
        held = and_(leases.c.scope == self._scope, leases.c.held)
        why = "the process that led the search has ended"
        connection.execute(
            leases.update().where(held).values(held=False, why=why, losses=leases.c.losses + 1)
        )

    def _is(self, work: str):  # type: ignore[no-untyped-def]
        return and_(leases.c.scope == self._scope, leases.c.work == work)


def _begin(store: StoreDatabase) -> Executable:
    """The statement that enters work as held, or marks it as held where it is known; its row has the number
    of losses."""
    insert = insert_into(store.engine, leases)
    changed = {name: insert.excluded[name] for name in ("about", "owner", "held", "since")}
    entered = insert.on_conflict_do_update(index_elements=["scope", "work"], set_=changed)
    return entered.returning(leases.c.losses)  # type: ignore[no-any-return]


def leases_of(run: Run) -> StoredLeases:
    """Returns the records of which work each device is doing (leases) for a run or bench. This process must
    be the one that works on the run or bench. The records are kept in the shared database that has its
    events, else in a file of its folder."""
    pointer = pointer_of(run.folder)
    store = StoreDatabase(run.folder / LEASES[0]) if pointer is None else pointer.open()
    return StoredLeases(store, run.id)
