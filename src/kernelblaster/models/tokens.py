"""Estimates the number of tokens of a text without asking a server."""

import re

PIECE = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\sA-Za-z0-9]{1,2}|\n+[ ]*")


def tokens_of(text: str) -> int:
    """Returns an estimate of the number of tokens of a text in English or C++: one for every six letters of a
    word, every three digits, every two punctuation characters, and every line break with the indent after it.
    Servers count about a tenth less."""
    return len(PIECE.findall(text))
