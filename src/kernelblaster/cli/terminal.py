"""Prints text on the console, also text of others (tasks, candidates, models): what looks like markup is
printed as it is, and control characters are shown as escapes."""

import re
from collections.abc import Iterable
from textwrap import wrap
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from kernelblaster.plain_text import printable

NARROWEST = 20  # columns: narrower texts are not wrapped
PIPED = 200  # columns of a table without a terminal, so that nothing is cut


class Terminal(Console):
    """A rich console that shows control characters as escapes, and takes nothing for markup unless asked to.
    It prints on standard output or, with `stderr`, on standard error."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(printable(text), style)

    def show(self, table: Table) -> None:
        """Prints a table. On a terminal, the table has the terminal's width at most. In a pipe or file, which
        has no width of its own, it may take 200 columns (PIPED), so that hardly any cell is cut or
        wrapped."""
        kept = self._width
        if not self.is_terminal:
            self.width = PIPED
        try:
            self.print(table, highlight=False)
        finally:
            self._width = kept


def plain(text: Any) -> str:
    """Returns the text with its square brackets escaped, so that rich prints them instead of taking them for
    markup."""
    return escape(str(text))


def wrap_hanging(console: Console, text: str, at: int) -> str:
    """Returns the text wrapped to the width of `console`, if it will be printed behind `at` columns of other
    text: further lines are indented by `at` spaces. Unchanged if `console` is no terminal, or too narrow."""
    if not console.is_terminal or console.width < at + NARROWEST:
        return text
    lines = wrap(text, console.width - at, break_long_words=False, break_on_hyphens=False)
    return f"\n{'':{at}}".join(lines)


def break_name(console: Console, name: str, most: int) -> str:
    """Returns a name such as "core/level1/softmax" broken for a table column: after `/` or `+`, into lines of
    at most `most` columns where that is possible. Unchanged if `console` is no terminal."""
    if not console.is_terminal:
        return name
    lines = [""]
    for part in re.split(r"(?<=[/+])", name):
        if lines[-1] and len(lines[-1]) + len(part) > most:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
