"""Breaks texts at random, to test that parsers survive any input."""

import random

WORDS = ("{", ";", "%r1", "ret;", ".reg .b32 %r<4>;", "@%p1 ", "-", "call.uni f;", "bar.sync 0;", "(", ",")
NUMBERS = (0, -1, 1 << 31, 1 << 63, 10**30)


def mangled(text: str, rng: random.Random) -> str:
    """Returns `text` after one to four random edits, drawn by `rng`: a part deleted, a character overwritten,
    a foreign word or number inserted, or the end cut off."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(text) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            text = text[:at] + text[at + rng.randrange(1, 30) :]
        elif kind == 1:
            text = text[:at] + chr(rng.randrange(32, 127)) + text[at + 1 :]
        elif kind == 2:
            text = text[:at] + rng.choice(WORDS) + text[at:]
        elif kind == 3:
            text = text[:at] + str(rng.choice(NUMBERS)) + text[at:]
        else:
            text = text[:at]
    return text
