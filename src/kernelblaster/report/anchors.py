"""HTML ids for the performance states and techniques on the page of a knowledge base, and links from other
pages to them."""

import re
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from urllib.parse import quote

KNOWLEDGE_PAGE = "knowledge.html"
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_ANCHOR = re.compile(r'<(?:div|tr)\b[^>]*? id="((?:state|technique)-[^"]*)"')


def anchor(state: str, technique: str | None = None) -> str:
    """The HTML id of a performance state on the page of a knowledge base or, if `technique` is given, of that
    technique's row below it. Not HTML-escaped."""
    name = f"state-{state}" if technique is None else f"technique-{state}--{technique}"
    return re.sub(r"\s+", "-", name)


@dataclass(frozen=True)
class KnowledgeLinks:
    """Links from a page to the page of a knowledge base in the same folder. `anchors` are the HTML ids that
    the latter contains; empty if there is no such page."""

    anchors: frozenset[str] = frozenset()

    def to(self, state: str, technique: str | None = None) -> str:
        """Returns a relative URL to `technique` in `state` on the page of the knowledge base; to the
        performance state alone if `technique` is None or not on the page; "" if the state is not on it
        either."""
        for name in (anchor(state, technique), anchor(state)):
            if name in self.anchors:
                return f"{KNOWLEDGE_PAGE}#{quote(name)}"
        return ""


def links_beside(folder: Path, knowledge: str) -> KnowledgeLinks:
    """Returns links to the page of the knowledge base `knowledge` (a path or URL), which is `knowledge.html`
    in `folder`. The page's title must be the knowledge base's file name without the ending. If there is no
    such page, the links are all empty."""
    try:
        page = (folder / KNOWLEDGE_PAGE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return KnowledgeLinks()
    title = _TITLE.search(page)
    if not knowledge or title is None or title[1].strip() != escape(Path(knowledge).stem):
        return KnowledgeLinks()
    return KnowledgeLinks(frozenset(unescape(name) for name in _ANCHOR.findall(page)))
