"""The dashboard's state: what is served, which pages are open, and the thread that looks for changes."""

import logging
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from kernelblaster.errors import KernelBlasterError
from kernelblaster.report.knowledge_filter import KnowledgeFilter
from kernelblaster.serve.catalog import Catalog
from kernelblaster.serve.rendering import load_templates, render_macro
from kernelblaster.serve.resuming import ResumedRuns
from kernelblaster.serve.topics import Hub, PagePart, View
from kernelblaster.serve.views.bench import BenchesView, BenchView, knowledge_of
from kernelblaster.serve.views.compare import CompareView
from kernelblaster.serve.views.knowledge import KnowledgeView
from kernelblaster.serve.views.run import RunView
from kernelblaster.serve.views.runs import RunLines, RunsView

LEAST_PAUSE_S, MOST_PAUSE_S, IDLE_PAUSE_S = 0.2, 2.0, 0.5
SHARE = 0.1  # of a core that looking for changes may take
NICENESS = 10  # of the thread that looks, once it has read everything: a search on the machine goes before
DAMAGE = (KernelBlasterError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What reading a record that is not as expected may raise."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Served:
    """What a dashboard shows: runs and benches in `folders`, and knowledge bases. `knowledge` has the file or
    URL of each of these, by its name. `read_only`: visitors can ask nothing of a search."""

    folders: Sequence[Path]
    knowledge: dict[str, str]
    read_only: bool = False


class Dashboard:
    """The state of a dashboard: all that is served (`served`), and the topics (pages) that are open in
    browsers. After `start`, a thread looks for changes."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.catalog = Catalog(list(served.folders))
        self.lines = RunLines()
        self.resumed = ResumedRuns()
        self.hub = Hub(self._view)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)

    def start(self) -> None:
        """Reads the state of all runs once, then starts the thread that keeps looking for changes."""
        self.catalog.poll(now=True)
        load_templates()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def knowledge_at(self, name: str) -> str | None:
        """Returns the file or URL of the knowledge base with this name on the dashboard. The name is one of
        those served, or "bench~ID" for the knowledge base of the bench with that id. None if there is
        none."""
        if name in self.served.knowledge:
            return self.served.knowledge[name]
        place = self.catalog.bench(name.removeprefix("bench~")) if name.startswith("bench~") else None
        file = knowledge_of(place) if place else None
        return str(file) if file else None

    def _view(self, topic: str) -> View | None:
        """The content of the page that a name like `run/ID` stands for; None if there is no such thing."""
        kind, _, rest = topic.partition("/")
        view: View | None = None
        match kind:
            case "runs":
                view = RunsView(self.catalog, self.lines)
            case "benches":
                view = BenchesView(self.catalog)
            case "run":
                view = self._run_view(rest)
            case "bench":
                place = self.catalog.bench(rest)
                view = BenchView(place, self.catalog) if place else None
            case "compare":
                one, _, other = rest.partition("/")
                views = self._run_view(one), self._run_view(other)
                view = CompareView(views[0], views[1]) if views[0] and views[1] else None
            case "knowledge":
                name, _, query = rest.partition("?")
                where = self.knowledge_at(name)
                view = KnowledgeView(where, filter_of(query)) if where else None
        return SafeView(view) if view else None

    def _run_view(self, id_: str) -> RunView | None:
        listed = self.catalog.run(id_)
        if listed is None:
            return None
        folder = listed.place.folder
        return RunView(
            folder, f"/runs/{id_}", lambda: self.resumed.notice(folder), read_only=self.served.read_only
        )

    def _watch(self) -> None:
        """Body of a thread: look for changes in the pages that somebody looks at, until `stop`. It pauses so
        that it takes no more than SHARE of a core."""
        pause, nice = 0.0, False
        while not self._stop.wait(pause):
            begun = time.thread_time()  # not the clock: waiting for a core is no work
            topics = self.hub.watched()
            more = self.catalog.reading
            if not more and not nice:
                nice = True
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
            if more or any(topic.name.startswith(("runs", "bench")) for topic in topics):
                more = self.catalog.poll()
            for topic in topics:
                try:
                    topic.refresh()
                except Exception:  # of this program: said in the log, and the others go on
                    _log.exception("%s could not be shown", topic.name)
            took = time.thread_time() - begun
            pause = 0.01 if more else max(LEAST_PAUSE_S, min(MOST_PAUSE_S, took / SHARE))
            if not topics and not more:
                pause = IDLE_PAUSE_S


class SafeView:
    """A view (the content of a page) that shows what `view` shows. If `view` raises an error because a record
    is damaged, the page shows a sentence about it, and the server goes on."""

    def __init__(self, view: View) -> None:
        self.inner: Any = view
        self.problem = ""

    def refresh(self) -> bool:
        try:
            return bool(self.inner.refresh())
        except DAMAGE as error:
            return self._failed(error)

    def parts(self) -> Sequence[PagePart]:
        try:
            parts = list(self.inner.parts())
            self.problem = ""
        except DAMAGE as error:
            self._failed(error)
            parts = []
        return [PagePart("problem", render_macro("lines.html", "problem", self.problem)), *parts]

    def close(self) -> None:
        close = getattr(self.inner, "close", None)
        if close is not None:
            close()

    def _failed(self, error: Exception) -> bool:
        """Record the error as `problem`, a sentence for the page; returns whether that is another one than
        before."""
        problem = f"This cannot be shown: something in its record is not as expected ({error!r:.300})."
        new = problem != self.problem
        if new:
            _log.warning("%s", problem, exc_info=error)
        self.problem = problem
        return new


def filter_of(query: str) -> KnowledgeFilter:
    """Returns the filter for a knowledge base that the query of a web address asks for: "gpu" is an
    architecture, "family" a family of kernels (kind of computation), "clock" is "measured" or "modelled"."""
    values = dict(parse_qsl(query[:500]))
    clock = values.get("clock", "")
    return KnowledgeFilter(
        architecture=values.get("gpu", "")[:100],
        family=values.get("family", "")[:100],
        clock=clock if clock in ("measured", "modelled") else "",  # type: ignore[arg-type]
    )
