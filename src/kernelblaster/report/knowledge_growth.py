"""`Growth`: how a knowledge base grew, counted over its events one by one, in bounded memory."""

from datetime import datetime

from kernelblaster.knowledge.events import (
    KnowledgeEvent,
    Observed,
    OptimizationAdded,
    Provenance,
    StateAdded,
)
from kernelblaster.knowledge.evidence import MODELLED
from kernelblaster.report.chart import TONES, Chart, ChartAxis, ChartLine, LineChart

POINTS = 250  # of the curves, at most twice as many


class Growth:
    """Counts the events of a knowledge base, which are added one by one, in order. It knows how many
    attempts, techniques and performance states there were after each event, and from which runs on which GPUs
    they come."""

    def __init__(self) -> None:
        self._counts = {"attempts": 0, "techniques in states": 0, "states": 0}
        self._points: list[tuple[int, ...]] = []
        self._each = 1
        self._events = 0
        self._runs: set[str] = set()
        self._gpus: set[str] = set()
        self._first: datetime | None = None
        self._last: datetime | None = None

    def add(self, event: KnowledgeEvent) -> None:
        """Counts one more event. Events that were undone later must not be added;
        `knowledge.events.effective` leaves them out."""
        match event.change:
            case Observed():
                self._counts["attempts"] += 1
            case OptimizationAdded():
                self._counts["techniques in states"] += 1
            case StateAdded():
                self._counts["states"] += 1
        self._events += 1
        self._first = self._first or event.time
        self._last = event.time
        if event.provenance.run:
            self._runs.add(event.provenance.run)
        if event.provenance.gpu:
            self._gpus.add(_gpu(event.provenance))
        if self._events % self._each == 0:
            self._points.append((self._events, *self._counts.values()))
        if len(self._points) >= 2 * POINTS:
            self._points = self._points[1::2]
            self._each *= 2

    def lead(self, version: int) -> str:
        """Returns one sentence for the top of a knowledge base's page, with its version, and how many runs on
        which GPUs it has learned from. `version` is the number of its latest event."""
        where = f" on {', '.join(sorted(self._gpus))}" if self._gpus else ""
        many = "1 run" if len(self._runs) == 1 else f"{len(self._runs)} runs"
        return f"Version {version}: what {many}{where} taught."

    def chart(self) -> Chart | None:
        """The figure of how many attempts, techniques and performance states there were after each change;
        None if there were no changes."""
        if self._first is None or self._last is None:
            return None
        points = [*self._points, (self._events, *self._counts.values())]
        lines = [
            ChartLine(name, tuple((float(one[0]), float(one[at])) for one in points), tone)
            for at, (name, tone) in enumerate(zip(self._counts, TONES, strict=False), 1)
        ]
        return LineChart(
            name="growth",
            title="Growth",
            x=ChartAxis("changes", 0.0, float(self._events), format="si"),
            y=ChartAxis("known", 0.0, (max(self._counts.values()) or 1) * 1.08, format="si"),
            lines=tuple(lines),
            caption=f"From {self._first:%Y-%m-%d} to {self._last:%Y-%m-%d}; what was taken back "
            "does not count.",
        )


def _gpu(provenance: Provenance) -> str:
    """The name of the GPU on which a change was learned, with ` (modelled)` if its times come from a
    model."""
    return f"{provenance.gpu}{MODELLED if (provenance.architecture or '').endswith(MODELLED) else ''}"
