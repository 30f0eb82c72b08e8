"""HTML ids of states and techniques on the page of a knowledge base, and links to them from other pages."""

import re
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from urllib.parse import quote

KNOWLEDGE_PAGE = "knowledge.html"
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_ANCHOR = re.compile(r'<(?:div|tr)\b[^>]*? id="((?:state|technique)-[^"]*)"')


def anchor(state: str, technique: str | None = None) -> str:
    """The HTML id of a state on the page of a knowledge base or, if `technique` is given, of that technique's
    row below it. Not HTML-escaped."""
    name = f"state-{state}" if technique is None else f"technique-{state}--{technique}"
    return re.sub(r"\s+", "-", name)


@dataclass(frozen=True)
class KnowledgeLinks:
    """The ids that the page of a knowledge base contains, to link to from another page in the same folder;
    without ids, `to` always returns an empty text."""

    anchors: frozenset[str] = frozenset()

    def to(self, state: str, technique: str | None = None) -> str:
        """A link to a technique in a state on the page of a knowledge base, as a relative URL; to the state
        if the page has no such technique; empty if it has neither."""
        for name in (anchor(state, technique), anchor(state)):
            if name in self.anchors:
                return f"{KNOWLEDGE_PAGE}#{quote(name)}"
        return ""


def links_beside(folder: Path, knowledge: str) -> KnowledgeLinks:
    """Links to `knowledge.html` in `folder`, if that is the page of `knowledge` (a path or URL; compared by
    its file name); else no links."""
    try:
        page = (folder / KNOWLEDGE_PAGE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return KnowledgeLinks()
    title = _TITLE.search(page)
    if not knowledge or title is None or title[1].strip() != escape(Path(knowledge).stem):
        return KnowledgeLinks()
    return KnowledgeLinks(frozenset(unescape(name) for name in _ANCHOR.findall(page)))
