"""A source file as a page shows it. The script `templates/source.js` colours it, and computes the differences
of two sources."""

import base64
from dataclasses import dataclass
from typing import Literal

Language = Literal["cuda", "python", "text"]


@dataclass(frozen=True)
class ShownSource:
    """A source file on a page, as its `text`, with the `language` by which it is coloured. `name` is the file
    name under which the reader can download it, `href` the address of the download."""

    name: str
    text: str
    language: Language
    href: str

    @property
    def lines(self) -> int:
        return self.text.count("\n") + (not self.text.endswith("\n"))


def embedded_source(name: str, text: str, language: Language) -> ShownSource:
    """Returns a source for a page, whose download link contains the text itself, so that the page needs no
    other file. `name` is the file name to download it as, `language` that by which it is coloured."""
    data = base64.b64encode(text.encode()).decode()
    return ShownSource(name, text, language, f"data:text/plain;charset=utf-8;base64,{data}")
