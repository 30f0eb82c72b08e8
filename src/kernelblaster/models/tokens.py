"""Estimates the number of tokens of a text, without asking a server."""

import re

PIECE = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\sA-Za-z0-9]{1,2}|\n+[ ]*")


def tokens_of(text: str) -> int:
    """An estimated number of tokens, for English and C++: words count per six letters, numbers per three
    digits, punctuation in pairs, a newline with the indent after it. Servers count about a tenth less."""
    return len(PIECE.findall(text))
