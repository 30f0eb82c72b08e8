"""Draw figures as PNG with matplotlib, an optional dependency that is imported only here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelblaster.errors import KernelBlasterError
from kernelblaster.report.chart import Bars, Chart, ChartAxis, LineChart, Stack, shown

COLOURS = {
    "c1": "#2f6fd0",
    "c2": "#d9730d",
    "c3": "#178a5e",
    "c4": "#8250df",
    "c5": "#c2347a",
    "c6": "#6b7280",
    "good": "#178a5e",
    "idle": "#a67c00",
    "bad": "#cf3f3f",
}
INCHES = (6.4, 4.0)
DPI = 160


def save_png(chart: Chart, path: Path) -> None:
    """Draw a figure into a PNG file. Raises KernelBlasterError if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise KernelBlasterError(
            "PNG figures need matplotlib: pip install 'kernelblaster[figures]'. SVG figures need nothing."
        ) from error
    tall = {Bars: 0.22, Stack: 0.22}.get(type(chart), 0.0) * _rows(chart)
    figure = Figure(figsize=(INCHES[0], max(INCHES[1], tall + 1.2)), layout="constrained")
    axes = figure.subplots()
    match chart:
        case LineChart():
            _lines(axes, chart)
        case Bars():
            _bars(axes, chart)
        case Stack():
            _stack(axes, chart)
    axes.set_title(chart.title, fontsize=10)
    axes.grid(alpha=0.25)
    figure.savefig(path, dpi=DPI)


def _rows(chart: Chart) -> int:
    """The number of labelled rows, which decide the figure's height; 0 for line charts."""
    return len(chart.bars) if isinstance(chart, Bars) else len(chart.rows) if isinstance(chart, Stack) else 0


def _lines(axes: Any, chart: LineChart) -> None:
    _set_axis(axes, "x", chart.x)
    _set_axis(axes, "y", chart.y)
    for line in chart.lines:
        x, y = zip(*line.points, strict=True) if line.points else ((), ())
        style = {
            "color": COLOURS[line.tone],
            "marker": "o" if line.dots else None,
            "markersize": 3,
            "linestyle": "-" if line.joined else "none",
            "drawstyle": "steps-post" if line.steps else "default",
        }
        axes.plot(x, y, label=line.name or None, **style)
        if line.band:
            at, low, high = zip(*line.band, strict=True)
            axes.fill_between(at, low, high, color=COLOURS[line.tone], alpha=0.15, linewidth=0)
    for reference in chart.references:
        axes.plot(*zip(*reference, strict=True), color="#667085", linewidth=1.6)
    for value in chart.uprights:
        axes.axvline(value, color="#667085", linestyle="--", linewidth=0.8)
    for value in chart.levels:
        axes.axhline(value, color="#667085", linestyle="--", linewidth=0.8)
    if len({line.name for line in chart.lines if line.name}) > 1:
        axes.legend(fontsize=8)


def _bars(axes: Any, chart: Bars) -> None:
    rows = range(len(chart.bars))
    _set_axis(axes, "x", chart.axis)
    axes.barh(
        rows,
        [bar.value - chart.origin for bar in chart.bars],
        left=chart.origin,
        color=[COLOURS[bar.tone] for bar in chart.bars],
    )
    _set_labels(axes, [bar.label for bar in chart.bars])
    axes.axvline(chart.origin, color="#667085", linestyle="--", linewidth=0.8)


def _stack(axes: Any, chart: Stack) -> None:
    start = [0.0] * len(chart.rows)
    for number, (kind, tone) in enumerate(chart.kinds):
        counts = [row[1][number] for row in chart.rows]
        axes.barh(range(len(start)), counts, left=start, color=COLOURS[tone], label=kind)
        start = [one + other for one, other in zip(start, counts, strict=True)]
    _set_labels(axes, [label for label, _ in chart.rows])
    axes.set_xlabel(chart.label)
    axes.legend(fontsize=8)


def _set_labels(axes: Any, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.invert_yaxis()


def _set_axis(axes: Any, name: str, axis: ChartAxis) -> None:
    """Set label, scale, limits and ticks of the axis `name` (`x` or `y`) of a matplotlib plot."""
    getattr(axes, f"set_{name}label")(axis.label)
    if axis.log:
        getattr(axes, f"set_{name}scale")("log")
    getattr(axes, f"set_{name}lim")(axis.low, axis.high)
    marks = axis.marks
    getattr(axes, f"set_{name}ticks")(marks, [shown(mark, axis.format) for mark in marks])
    getattr(axes, f"{name}axis").minorticks_off()
