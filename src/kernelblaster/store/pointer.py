"""The file in a run's folder that says in which shared store (database) its events are; reading it needs no
SQL."""

from pathlib import Path
from typing import TYPE_CHECKING

from kernelblaster.errors import StoreError
from kernelblaster.records.record import Record

if TYPE_CHECKING:
    from kernelblaster.store.database import StoreDatabase

POINTER = "store.json"


class StorePointer(Record):
    """Where the events of a run are: the address of the store, without a password, and the run's `id`."""

    store: str
    id: str

    def open(self) -> "StoreDatabase":
        """Opens the store. If a PostgreSQL server asks for a password, its client library takes it from
        PGPASSWORD or ~/.pgpass."""
        from kernelblaster.knowledge.address import opened
        from kernelblaster.store.database import open_store

        return open_store(opened(self.store))


def pointer_of(folder: Path) -> StorePointer | None:
    """Returns the pointer in a run's folder: the address of the shared store that has the run's events, and
    the run's id there. None if the events are in the folder itself. Raises StoreError if the pointer cannot
    be read."""
    path = folder / POINTER
    try:
        return StorePointer.model_validate_json(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read: {error}") from error
