"""The content of a knowledge base's page while searches teach it: its performance states, the speedup
expected of each technique in them, and what was learned today."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.differences import Changed, difference
from kernelblaster.knowledge.events import KnowledgeEvent, Observed, Reverted, RolledBack, effective
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.recipes import format_prediction
from kernelblaster.knowledge.summary import summarize
from kernelblaster.passwords import is_url
from kernelblaster.report.knowledge_cards import StateCard, cards_of
from kernelblaster.report.knowledge_filter import Choices, KnowledgeFilter, choices_of, filtered
from kernelblaster.report.knowledge_growth import Growth
from kernelblaster.report.knowledge_page import tiles_of, used_chart
from kernelblaster.serve.rendering import render_macro
from kernelblaster.serve.topics import PagePart

STATES, OTHERS = "states", "unvisited"
LOOKED_S = 1.0  # seconds between two looks at the database
TODAY_SHOWN = 60
PAYOFFS_SHOWN = 12


@dataclass(frozen=True)
class LearnedToday:
    """A technique in a performance state about which something was learned since midnight. `before` is the
    speedup that was expected at midnight, `after` the one expected now, both as texts; "unknown" where there
    was no expectation. `attempts` is how many there were today, `runs` in how many runs. `modelled`: `after`
    rests on times from a model of the GPU."""

    state: str
    technique: str
    before: str
    after: str
    attempts: int
    runs: int
    modelled: bool


class KnowledgeView:
    """The content of a knowledge base's page while searches teach it. `where` is its file or URL; `wanted`
    says which results to show. The knowledge base is opened when the page is first made, for reading only."""

    def __init__(self, where: str, wanted: KnowledgeFilter) -> None:
        self.where = where
        self.wanted = wanted
        self.problem = ""
        self.choices = Choices((), (), False, False)
        self._knowledge: KnowledgeBase | None = None
        self._content = Content()
        self._growth = Growth()
        self._today: list[KnowledgeEvent] = []
        self._stamp: tuple[Any, ...] = ()
        self._looked = float("-inf")
        self._cards: dict[str, tuple[StateCard, Markup]] = {}

    def refresh(self) -> bool:
        if time.monotonic() - self._looked < LOOKED_S:
            return False
        self._looked = time.monotonic()
        stamp = (self._stamp_of_file(), datetime.now().astimezone().date())
        if stamp == self._stamp:
            return False
        problem, version = self.problem, self._content.version
        try:
            self._read()
            self.problem = ""
        except KnowledgeError as error:
            self.problem = str(error)
        changed = stamp[1:] != self._stamp[1:] or self._content.version != version
        self._stamp = stamp
        return changed or self.problem != problem or not self._cards

    def close(self) -> None:
        if self._knowledge is not None:
            self._knowledge.close()
            self._knowledge = None

    def parts(self) -> list[PagePart]:
        if self.problem:
            return [PagePart("kb-head", self._part("problem", self.problem))]
        shown = filtered(self._content, self.wanted)
        visited, others = cards_of(shown)
        charts = [chart for chart in (self._growth.chart(), used_chart(shown)) if chart is not None]
        lead = self._growth.lead(self._content.version)
        head = self._part("head", lead, tiles_of(shown), self.wanted)
        payoffs = summarize(shown, payoffs=PAYOFFS_SHOWN).payoffs
        return [
            PagePart("kb-head", head),
            PagePart("kb-today", self._part("today", self._learned_today())),
            PagePart("kb-charts", self._part("charts", charts)),
            PagePart("kb-payoffs", self._part("payoffs", payoffs)),
            *self._card_parts(visited, STATES),
            *self._card_parts(others if self.wanted.empty else [], OTHERS),
        ]

    def _card_parts(self, cards: Sequence[StateCard], within: str) -> list[PagePart]:
        """The states of a knowledge base as parts of its page; a state's HTML is made again only if something
        about it has changed."""
        parts = []
        for card in cards:
            known = self._cards.get(card.anchor)
            if known is None or known[0] != card:
                html = render_macro("knowledge_parts.html", "state", card)
                known = self._cards[card.anchor] = (card, html)
            parts.append(PagePart(card.anchor, known[1], within))
        return parts

    def _read(self) -> None:
        """Reads from the database what was learned since the last call; everything again if changes were
        undone."""
        if self._knowledge is None:
            self._knowledge = KnowledgeBase(self.where, reading_only=True)
        content = self._knowledge.content()
        since = self._content.version
        new = self._knowledge.log(since=since) if content.version >= since else []
        undone = any(isinstance(event.change, RolledBack | Reverted) for event in new)
        if undone or content.version < since or not since:  # all of it counts anew
            new = effective(self._knowledge.log())
            self._growth, self._today = Growth(), []
        for event in new:
            self._growth.add(event)
        midnight = _midnight()
        self._today = [event for event in (*self._today, *new) if _local(event.time) >= midnight]
        self._content = content
        self.choices = choices_of(content)

    def _learned_today(self) -> list[LearnedToday]:
        """For each technique that was tried since midnight, what was expected of it before and now; the most
        tried first."""
        fresh = [event for event in self._today if _local(event.time) >= _midnight()]
        observed = [event for event in fresh if isinstance(event.change, Observed)]
        observed = [event for event in observed if self.wanted.keeps(event.provenance.architecture or "")]
        if self.wanted.family:
            observed = [event for event in observed if event.provenance.family == self.wanted.family]
        if not observed or self._knowledge is None:
            return []
        try:
            before = self._knowledge.at(fresh[0].version - 1)
        except KnowledgeError:
            return []
        changes = {(one.state, one.technique): one for one in difference(before, self._content).techniques}
        attempts: dict[tuple[str, str], list[KnowledgeEvent]] = {}
        for event in observed:
            assert isinstance(event.change, Observed)
            attempts.setdefault((event.change.state, event.change.technique), []).append(event)
        most = sorted(attempts.items(), key=lambda item: -len(item[1]))[:TODAY_SHOWN]
        return [_learned(key, tried, changes.get(key)) for key, tried in most]

    def _stamp_of_file(self) -> tuple[Any, ...]:
        """A value that changes when the database does: of a file its size and time, with those of its
        write-ahead log; of a server the present time, since there only a query tells."""
        if is_url(self.where):
            return (time.monotonic(),)
        stamps = []
        for path in (Path(self.where), Path(f"{self.where}-wal")):
            try:
                about = path.stat()
                stamps.append((about.st_ino, about.st_size, about.st_mtime_ns))
            except OSError:
                stamps.append((0, 0, 0))
        return tuple(stamps)

    def _part(self, macro: str, *values: Any) -> Markup:
        return render_macro("knowledge_live.html", macro, *values)


def _learned(key: tuple[str, str], tried: Sequence[KnowledgeEvent], changed: Changed | None) -> LearnedToday:
    """What the attempts of today (`tried`) taught about a technique in a state, which `key` names; `changed`
    has the expectations before and after, None if they did not change."""
    state, technique = key
    before, after = (changed.before, changed.after) if changed else (None, None)

    def expected(score: Any) -> str:
        return format_prediction(technique, score.speedup, modelled=score.modelled) if score else "unknown"

    runs = {event.provenance.run for event in tried}
    modelled = bool(after and after.modelled)
    return LearnedToday(state, technique, expected(before), expected(after), len(tried), len(runs), modelled)


def _local(at: datetime) -> datetime:
    """Gives a recorded time its time zone: one without is taken as UTC."""
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _midnight() -> datetime:
    """The beginning of this day, where this machine is."""
    return datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
