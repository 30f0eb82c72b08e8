"""Addresses of knowledge bases (a file or a database URL), as they may be shown and recorded: without
passwords."""

import re
from pathlib import Path

from kernelblaster.errors import KnowledgeError
from kernelblaster.settings import settings

HIDDEN = "***"
IN_FRONT = re.compile(r"(://[^/:@]*):.*@", re.DOTALL)  # up to the last @: a password may have one
IN_QUERY = re.compile(r"\b((?:ssl)?password)=[^&]*", re.IGNORECASE)


def is_url(where: str) -> bool:
    """Whether the address is a database URL; else it is a file's path."""
    return "://" in where


def shown(where: str) -> str:
    """The address with its passwords replaced by ***. A file's path is unchanged."""
    if not is_url(where):
        return where
    base, mark, query = where.partition("?")
    return IN_FRONT.sub(rf"\1:{HIDDEN}@", base) + mark + IN_QUERY.sub(rf"\1={HIDDEN}", query)


def knowledge_at(given: str | Path | None) -> str:
    """The address of the knowledge base that the user gave, with a file's path made absolute; of the
    user's default one (knowledge.db in the data folder) if None."""
    where = str(given or settings().data / "knowledge.db")
    return where if is_url(where) else str(Path(where).absolute())


def lacks_password(recorded: str) -> bool:
    """Whether an address was recorded with a password that is now replaced by ***."""
    return is_url(recorded) and HIDDEN in recorded


def opened(recorded: str, given: str | None = None) -> str:
    """The address to open, given what a run recorded. `given` is the address with its password, if the user
    gives it again; without it the password is left out, and libpq takes it from PGPASSWORD or ~/.pgpass.
    Raises KnowledgeError if `given` is another knowledge base."""
    if given is not None:
        if shown(given) != recorded:
            raise KnowledgeError(f"the run was begun with the knowledge base {recorded}, not {shown(given)}.")
        return given
    if not lacks_password(recorded):
        return recorded
    base, mark, query = recorded.partition("?")
    kept = [part for part in query.split("&") if not part.endswith(f"={HIDDEN}")]
    return base.replace(f":{HIDDEN}@", "@") + (mark if query and kept else "") + "&".join(kept)
