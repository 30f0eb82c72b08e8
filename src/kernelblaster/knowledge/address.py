"""Addresses of knowledge bases (a file's path or a database URL), as the user gives them and as runs record
them, without a password."""

from pathlib import Path

from kernelblaster.errors import KnowledgeError
from kernelblaster.passwords import HIDDEN, is_url, shown
from kernelblaster.settings import settings


def knowledge_at(given: str | Path | None) -> str:
    """Returns the address (a path or a database URL) of the knowledge base that the user gave; a path is made
    absolute. If `given` is None, returns that of the user's default knowledge base: knowledge.db in the data
    folder."""
    where = str(given or settings().data / "knowledge.db")
    return where if is_url(where) else str(Path(where).absolute())


def lacks_password(recorded: str) -> bool:
    """True if `recorded` is a database URL that has *** in place of its password, as runs record it."""
    return is_url(recorded) and HIDDEN in recorded


def opened(recorded: str, given: str | None = None) -> str:
    """Returns the address by which a knowledge base can be opened. `recorded` is the address that a run
    recorded, in which *** stands for a password. `given` is the address with its password, if the user gives
    it again. If `given` is None, the result has no password; libpq, which opens the database, takes the
    password from PGPASSWORD or ~/.pgpass. Raises KnowledgeError if `given` is the address of another
    knowledge base than `recorded`."""
    if given is not None:
        if shown(given) != recorded:
            raise KnowledgeError(f"the run was begun with the knowledge base {recorded}, not {shown(given)}.")
        return given
    if not lacks_password(recorded):
        return recorded
    base, mark, query = recorded.partition("?")
    kept = [part for part in query.split("&") if not part.endswith(f"={HIDDEN}")]
    return base.replace(f":{HIDDEN}@", "@") + (mark if query and kept else "") + "&".join(kept)
