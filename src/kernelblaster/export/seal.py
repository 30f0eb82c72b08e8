"""A line in exported files that tells their format, and whether somebody has edited them since."""

import re
from hashlib import sha256
from typing import Literal

MARK = "optimized by KernelBlaster"  # in the first lines of every export
LONGEST_HEAD = 2000  # characters at the beginning of a file in which it is looked for
LINE = re.compile(r"^(//|#) exported as (cu|kernelbench|module), sha256 of the rest ([0-9a-f]{64})\n", re.M)


def seal(text: str, form: str) -> str:
    """Returns the `text` of an export with one line added at its top, below the line that says "optimized by
    KernelBlaster". The new line has the format `form` ("cu", "kernelbench" or "module") and the SHA-256 of
    `text`."""
    before, mark, after = text.partition(MARK)
    rest_of_line, _, others = after.partition("\n")
    sign = "//" if form == "cu" else "#"
    line = f"{sign} exported as {form}, sha256 of the rest {sha256(text.encode()).hexdigest()}\n"
    return f"{before}{mark}{rest_of_line}\n{line}{others}"


def format_of(text: str) -> str | Literal["edited"] | None:
    """The format of an export (`cu`, `kernelbench` or `module`); "edited" if it is not as it was written;
    None if the text is no export."""
    head = text[:LONGEST_HEAD]
    if MARK not in head:
        return None
    line = LINE.search(head)
    if line is None:
        return "edited"
    rest = text[: line.start()] + text[line.end() :]
    return line[2] if sha256(rest.encode()).hexdigest() == line[3] else "edited"
