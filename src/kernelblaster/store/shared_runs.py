"""Registers runs in a shared store (database), and makes folders on this machine for runs that are in one."""

import secrets
from pathlib import Path

from sqlalchemy import Connection, select

from kernelblaster.errors import StoreError
from kernelblaster.knowledge.address import lacks_password
from kernelblaster.passwords import shown
from kernelblaster.store import tables
from kernelblaster.store.database import StoreDatabase, open_store
from kernelblaster.store.files import write_whole
from kernelblaster.store.pointer import POINTER, StorePointer, pointer_of


def point_to(folder: Path, store: str, parent: str | None = None) -> StorePointer:
    """Registers the run in `folder` in the shared store (database) at the address `store`. Writes a pointer
    into the folder (the store's address and the run's id there) and returns it. `parent` is the id of the
    bench that the run is part of, None if it is part of none. If an earlier call was interrupted, this one
    completes it. Raises StoreError for an address with a password."""
    database = _open(store)
    pointer = pointer_of(folder)
    if pointer is None:
        pointer = StorePointer(store=shown(store), id=secrets.token_hex(16))
        write_whole(folder / POINTER, pointer.model_dump_json() + "\n")
    values = {"id": pointer.id, "name": folder.name, "parent": parent}
    database.transact(lambda connection: database.add(connection, tables.runs, **values))
    return pointer


def _open(store: str) -> StoreDatabase:
    """The store at an address that a person gave. Raises StoreError if that has a password, which pointers
    do not keep."""
    if shown(store) != store or lacks_password(store):
        raise StoreError(
            f"{shown(store)}: a run does not keep the password of its store: leave it out of the address, "
            "and put it into PGPASSWORD or a line of ~/.pgpass."
        )
    return open_store(store)


def fetch_run(store: str, name: str, folder: Path) -> Path:
    """Makes a folder for a run or bench that is in the shared store at `store`, so that it can be read and
    continued on this machine. Returns the folder, which lies in `folder`. The folder has a pointer to the
    run's events (the store's address and the run's id); for a bench, it also has pointers to the events of
    its runs. `name` is the id or the name of the run or bench. Raises StoreError if there is none, or several
    have the name."""
    database = _open(store)
    runs = tables.runs

    def find(connection: Connection) -> list[tuple[str, str]]:
        named = (runs.c.id == name) | (runs.c.name == name)
        return [(row.id, row.name) for row in connection.execute(select(runs).where(named))]

    found = database.transact(find)
    if len(found) != 1:
        count = "several runs" if found else "no run"
        raise StoreError(f"{database.name}: has {count} named {name}.")
    [(id, title)] = found
    parts = select(runs).where(runs.c.parent == id)
    target = folder / title
    children = database.transact(lambda connection: connection.execute(parts).all())
    _write(target, store, id)
    for child in children:
        _write(target / "runs" / child.name, store, child.id)
    return target


def _write(folder: Path, store: str, id: str) -> None:
    """Write a pointer to the run `id` of a store into a folder, which is made if needed; does nothing if it
    is there. Raises StoreError if the folder holds anything else."""
    known = pointer_of(folder) if folder.exists() else None
    if folder.exists() and any(folder.iterdir()) and (known is None or known.id != id):
        raise StoreError(f"{folder}: holds something else already; name another folder.")
    if known is not None:
        return  # it may be locked by a process that works on it
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(folder / POINTER, StorePointer(store=shown(store), id=id).model_dump_json() + "\n")
