"""Where commands print: what others have written, a model or a task, stays text."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from kernelblaster.plain_text import printable


class Terminal(Console):
    """A console without markup, unless it is asked for, that shows control characters as escapes."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(printable(text), style)


def plain(text: Any) -> str:
    """A text within markup."""
    return escape(str(text))
