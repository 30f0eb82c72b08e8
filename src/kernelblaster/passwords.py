"""Database URLs as they may be shown and recorded: without passwords."""

import re

HIDDEN = "***"
IN_FRONT = re.compile(r"(://[^/:@]*):.*@", re.DOTALL)  # up to the last @: a password may have one
IN_QUERY = re.compile(r"\b((?:ssl)?password)=[^&]*", re.IGNORECASE)


def is_url(where: str) -> bool:
    """Whether an address is a database URL; else it is a file's path."""
    return "://" in where


def shown(where: str) -> str:
    """The address with its passwords replaced by ***. A file's path is unchanged."""
    if not is_url(where):
        return where
    base, mark, query = where.partition("?")
    return IN_FRONT.sub(rf"\1:{HIDDEN}@", base) + mark + IN_QUERY.sub(rf"\1={HIDDEN}", query)
