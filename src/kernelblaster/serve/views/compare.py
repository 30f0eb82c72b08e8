"""The content of the page that shows two runs side by side: their settings, best times and steps. It is kept
up to date while they run."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from kernelblaster.quantities import speedup_text
from kernelblaster.report.chart import Chart, ChartAxis, ChartLine, LineChart, Tone, log_range
from kernelblaster.serve.rendering import render_macro
from kernelblaster.serve.topics import PagePart
from kernelblaster.serve.views.run import RunView
from kernelblaster.store.comparison import compare
from kernelblaster.store.history import History

TONES: tuple[Tone, Tone] = ("c1", "c2")


class CompareView:
    """The content of the page that shows two runs, `one` and `other`, side by side. It is kept up to date
    while they run."""

    def __init__(self, one: RunView, other: RunView) -> None:
        self.views = (one, other)

    def refresh(self) -> bool:
        changed = [view.refresh() for view in self.views]
        return any(changed)

    def parts(self) -> list[PagePart]:
        one, other = self.views
        data = compare(one.history, other.history, sources=False)
        chart = both_chart([one.history, other.history])
        sources = [view.history.best.source if view.history.best else "" for view in self.views]
        heads = [
            {"name": view.run.name, "address": view.address, "task": view.history.task, "state": view.state}
            for view in self.views
        ]
        figure = self._part("empty", "compare-chart")
        if chart is not None:
            figure = render_macro("components.html", "figure", chart, id="compare-chart")
        return [
            PagePart("compare-head", self._part("head", heads, data["best"])),
            PagePart("compare-chart", figure),
            PagePart("compare-settings", self._part("settings", data["settings"])),
            PagePart("compare-steps", self._part("steps", _pairs(data["trajectory"], data["best"]))),
            PagePart("compare-learned", self._part("learned", data["learned"])),
            PagePart("compare-source", self._part("source", heads, sources)),
        ]

    def _part(self, macro: str, *values: Any) -> Markup:
        return render_macro("compare_parts.html", macro, *values)


def both_chart(histories: Sequence[History]) -> Chart | None:
    """Returns a chart of the best time so far of the two runs in `histories`, over the number of candidates
    that each has judged; None if neither has a time."""
    curves = [_best_so_far(history) for history in histories]
    times = [us for curve in curves for _, us in curve]
    if not times:
        return None
    floors = [
        one.verdict["timing"]["floor_us"] for h in histories for one in h.judged if one.verdict["timing"]
    ]
    low, high = log_range(times, min(floors), max(times))
    most = max(len(history.judged) for history in histories)
    modelled = "modelled" if any(history.modelled for history in histories) else "measured"
    lines = [
        ChartLine(f"{name}: {history.name}"[:40], tuple(curve), tone, steps=True)
        for name, history, curve, tone in zip("AB", histories, curves, TONES, strict=True)
        if curve
    ]
    return LineChart(
        name="both",
        title="Best time so far",
        x=ChartAxis("candidates judged", 1.0, float(max(2, most))),
        y=ChartAxis(f"us, {modelled}", low, high, log=True, format="si"),
        lines=tuple(lines),
        levels=tuple(sorted(set(floors)))[:2],
        caption="Dashed: the floor.",
    )


def _best_so_far(history: History) -> list[tuple[float, float]]:
    """How a run's best time fell: points (number of candidates judged, best time in us), one for each
    improvement and one at the end."""
    points: list[tuple[float, float]] = []
    best = None
    for number, one in enumerate(history.judged, 1):
        timing = one.verdict["timing"]
        if one.speedup and timing and (best is None or timing["candidate_us"] < best):
            best = float(timing["candidate_us"])
            points.append((float(number), best))
    if best is not None:
        points.append((float(len(history.judged)), best))
    return points


def _pairs(
    trajectory: Sequence[Sequence[dict[str, Any] | None]], bests: Sequence[dict[str, Any]]
) -> list[list[dict[str, Any] | None]]:
    """The steps of two runs side by side, as texts for the template. `trajectory` has them in pairs (None
    where one run has fewer), `bests` the runs' results."""
    modelled = [bool(best["modelled"]) for best in bests]
    return [[step and _step(step, modelled[side]) for side, step in enumerate(pair)] for pair in trajectory]


def _step(step: dict[str, Any], modelled: bool) -> dict[str, Any]:
    """One step of a run as texts for the template: technique, state, speedup or failure, prediction, whether
    the search went on from it."""
    failed = step["speedup"] is None
    gain = str(step["result"]) if failed else speedup_text(step["speedup"], modelled)
    tone = "slower" if failed or step["speedup"] < 0.995 else "faster" if step["speedup"] > 1.005 else ""
    about = {"technique": step["technique"], "state": step["state"], "gain": gain, "tone": tone}
    return about | {"predicted": f"{step['predicted']:.2f}x", "taken": bool(step["taken"])}
