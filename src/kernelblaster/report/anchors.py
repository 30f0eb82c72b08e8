"""Where a state and a technique are on the page of a knowledge base, and links from other pages to it."""

import re
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from urllib.parse import quote

KNOWLEDGE_PAGE = "knowledge.html"
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_ANCHOR = re.compile(r'<(?:div|tr)\b[^>]*? id="((?:state|technique)-[^"]*)"')


def anchor(state: str, technique: str | None = None) -> str:
    """The name of a place on the page, not escaped."""
    place = f"state-{state}" if technique is None else f"technique-{state}--{technique}"
    return re.sub(r"\s+", "-", place)


@dataclass(frozen=True)
class KnowledgeLinks:
    """Links to what a page of a knowledge base has; none where there is no such page."""

    anchors: frozenset[str] = frozenset()

    def to(self, state: str, technique: str | None = None) -> str:
        """Empty where the page does not have it."""
        for place in (anchor(state, technique), anchor(state)):
            if place in self.anchors:
                return f"{KNOWLEDGE_PAGE}#{quote(place)}"
        return ""


def links_beside(folder: Path, knowledge: str) -> KnowledgeLinks:
    """To the page of this knowledge base, if it lies in that folder under its usual name."""
    try:
        page = (folder / KNOWLEDGE_PAGE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return KnowledgeLinks()
    title = _TITLE.search(page)
    if not knowledge or title is None or title[1].strip() != escape(Path(knowledge).stem):
        return KnowledgeLinks()
    return KnowledgeLinks(frozenset(unescape(found) for found in _ANCHOR.findall(page)))
