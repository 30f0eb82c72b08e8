"""Database URLs as they may be shown and recorded: without passwords."""

import re
from urllib.parse import unquote

HIDDEN = "***"
IN_FRONT = re.compile(r"(://[^/:@]*):(.*)@", re.DOTALL)  # up to the last @: a password may have one
IN_QUERY = re.compile(r"\b((?:ssl)?password)=([^&]*)", re.IGNORECASE)


def is_url(where: str) -> bool:
    """True if `where` is a database URL (it has "://" in it), False if it is the path of a file."""
    return "://" in where


def shown(where: str) -> str:
    """Returns the address `where` as it may be printed: passwords in a database URL are replaced by ***, a
    file's path is unchanged."""
    if not is_url(where):
        return where
    base, mark, query = where.partition("?")
    return IN_FRONT.sub(rf"\1:{HIDDEN}@", base) + mark + IN_QUERY.sub(rf"\1={HIDDEN}", query)


def without_passwords(text: str, where: str) -> str:
    """Returns `text`, a database driver's message, with *** in place of the password in the address `where`.
    Parts of a password that contains @, : or / are replaced too: the driver may take what stands behind an @
    for the name of the host, and quote it in its message."""
    base, _, query = where.partition("?")
    found = [one[-1] for one in (*IN_FRONT.findall(base), *IN_QUERY.findall(query))]
    parts = {part for one in found for part in (one, *re.split("[@:/]", one)) if part}
    for part in sorted({*parts, *map(unquote, parts)}, key=len, reverse=True):
        text = text.replace(part, HIDDEN)
    return text
