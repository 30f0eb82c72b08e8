"""Where a knowledge base is, as it may be shown and recorded: without a password."""

import re
from pathlib import Path

from kernelblaster.errors import KnowledgeError
from kernelblaster.settings import settings

HIDDEN = "***"
IN_FRONT = re.compile(r"(://[^/:@]*):.*@", re.DOTALL)  # up to the last @: a password may have one
IN_QUERY = re.compile(r"\b((?:ssl)?password)=[^&]*", re.IGNORECASE)


def is_url(where: str) -> bool:
    return "://" in where


def shown(where: str) -> str:
    """The same place with its passwords replaced. A file is shown as it is."""
    if not is_url(where):
        return where
    place, mark, query = where.partition("?")
    return IN_FRONT.sub(rf"\1:{HIDDEN}@", place) + mark + IN_QUERY.sub(rf"\1={HIDDEN}", query)


def knowledge_at(given: str | Path | None) -> str:
    """A knowledge base by a name that means the same in every folder; the user's own if none is given."""
    where = str(given or settings().data / "knowledge.db")
    return where if is_url(where) else str(Path(where).absolute())


def lacks_password(recorded: str) -> bool:
    return is_url(recorded) and HIDDEN in recorded


def opened(recorded: str, given: str | None = None) -> str:
    """The place to open where `recorded` is what was kept of it: as it is given again, with its password;
    else without one, which libpq then takes from PGPASSWORD or ~/.pgpass."""
    if given is not None:
        if shown(given) != recorded:
            raise KnowledgeError(f"the run was begun with the knowledge base {recorded}, not {shown(given)}.")
        return given
    if not lacks_password(recorded):
        return recorded
    place, mark, query = recorded.partition("?")
    kept = [part for part in query.split("&") if not part.endswith(f"={HIDDEN}")]
    return place.replace(f":{HIDDEN}@", "@") + (mark if query and kept else "") + "&".join(kept)
