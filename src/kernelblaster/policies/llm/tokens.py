"""How many tokens a text takes, nearly: servers count differently, and none needs to be asked."""

import re

PIECE = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\sA-Za-z0-9]{1,2}|\n+[ ]*")


def tokens_of(text: str) -> int:
    """An estimate for English and C++: words in pieces of six letters, numbers in pieces of three digits,
    marks in pairs, a line's indent with its newline. Servers count about a tenth less."""
    return len(PIECE.findall(text))
