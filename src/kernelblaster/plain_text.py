"""Escape untrusted text for a terminal, a source comment, Markdown or CSV. (For HTML and SVG there is
`html.escape`.)"""

from typing import Any

LONGEST_COMMENT = 500
CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029]
DIRECTIONS = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_VISIBLE = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in (*CONTROLS, *DIRECTIONS)}
_IN_LINES = {code: shown for code, shown in _VISIBLE.items() if chr(code) not in "\n\t"}
_MARKDOWN = str.maketrans({"<": "&lt;", "[": "\\[", "|": "/", "`": "'"})


def printable(text: str) -> str:
    """Makes untrusted text safe for a terminal: control characters, and characters that change the direction
    of text, become visible escapes; newlines and tabs are kept."""
    return text.translate(_IN_LINES)


def one_line(text: str) -> str:
    """Makes untrusted text safe for one line of a terminal: control characters become visible escapes, and
    every run of white space, newlines included, becomes one space."""
    return printable(" ".join(text.split()))


def comment(text: str) -> str:
    """Makes untrusted text safe after `//` or `#`: one line of at most 500 characters (LONGEST_COMMENT) that
    cannot continue on the next line (no trailing backslash or trigraph)."""
    line = one_line(text)[:LONGEST_COMMENT]
    return line + " ." if line.endswith(("\\", "??/")) else line


def markdown(text: str) -> str:
    """Makes untrusted text safe in a line or table cell of Markdown: it cannot start HTML, a link, code or
    another cell."""
    return one_line(text).translate(_MARKDOWN)


def csv_cell(value: Any) -> Any:
    """A value that is safe in a CSV cell: text that a spreadsheet would run as a formula gets a leading
    apostrophe; anything else is returned unchanged."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t")) else value
