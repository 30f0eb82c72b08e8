"""Addresses of knowledge bases, a file or a database URL: as the user gave them, and as a run recorded
them."""

from pathlib import Path

from kernelblaster.errors import KnowledgeError
from kernelblaster.passwords import HIDDEN, is_url, shown
from kernelblaster.settings import settings


def knowledge_at(given: str | Path | None) -> str:
    """The address (a path or a database URL) of the knowledge base that the user gave, with a file's path
    made absolute; if `given` is None, that of the user's default one, knowledge.db in the data folder."""
    where = str(given or settings().data / "knowledge.db")
    return where if is_url(where) else str(Path(where).absolute())


def lacks_password(recorded: str) -> bool:
    """Whether a run recorded this address with the password left out: a database URL that has *** in its
    place."""
    return is_url(recorded) and HIDDEN in recorded


def opened(recorded: str, given: str | None = None) -> str:
    """The address to open a knowledge base by, from the one that a run recorded, where *** stands for a
    password. `given` is the address with its password, if the user gives it again; without it the password is
    left out, and libpq takes it from PGPASSWORD or ~/.pgpass. Raises KnowledgeError if `given` is another
    knowledge base."""
    if given is not None:
        if shown(given) != recorded:
            raise KnowledgeError(f"the run was begun with the knowledge base {recorded}, not {shown(given)}.")
        return given
    if not lacks_password(recorded):
        return recorded
    base, mark, query = recorded.partition("?")
    kept = [part for part in query.split("&") if not part.endswith(f"={HIDDEN}")]
    return base.replace(f":{HIDDEN}@", "@") + (mark if query and kept else "") + "&".join(kept)
