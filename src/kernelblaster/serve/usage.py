"""How many workers and devices of a bench were busy over time, computed from the summaries of its runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelblaster.report.chart import Chart, ChartAxis, ChartLine, LineChart
from kernelblaster.serve.summary import RunSummary

POINTS = 90


@dataclass(frozen=True)
class UseOverTime:
    """How many workers and devices were busy, on average in each slice of time. A slice is `slice_s` seconds
    long; the first begins at `begun`, in seconds since 1970."""

    begun: float
    slice_s: float
    workers: tuple[float, ...]
    devices: tuple[float, ...]


def use_over_time(runs: Sequence[RunSummary], now: float | None = None) -> UseOverTime | None:
    """Returns how many workers and devices were busy over time: from the first event of any of the runs to
    the last, or to `now` (seconds since 1970). None if there are no events. A worker is a process that works
    on a run; it is busy from its start to the last event that it recorded. A device is busy for the device
    time of each verdict, just before the verdict was recorded."""
    spans = [span for run in runs for span in run.spans]
    if not spans:
        return None
    begun, ended = min(start for start, _ in spans), max(end for _, end in spans)
    ended = max(ended, now or ended)
    slice_s = max((ended - begun) / POINTS, 0.1)
    count = max(1, min(POINTS, int((ended - begun) / slice_s)))
    workers, devices = [0.0] * count, [0.0] * count
    for start, end in spans:
        _spread(workers, (start - begun) / slice_s, (end - begun) / slice_s)
    for run in runs:
        for until, seconds in run.busy:
            _spread(devices, (until - seconds - begun) / slice_s, (until - begun) / slice_s)
    return UseOverTime(begun, slice_s, tuple(workers), tuple(devices))


def use_chart(use: UseOverTime) -> Chart:
    """Returns the figure of how many workers and devices were busy (`use`), over the time since the bench
    began."""
    minutes = use.slice_s * len(use.workers) / 60
    unit, scale = ("minutes", 60.0) if minutes < 120 else ("hours", 3600.0)
    across = max(use.slice_s * len(use.workers) / scale, 0.05)

    def points(values: Sequence[float]) -> tuple[tuple[float, float], ...]:
        return tuple(((at + 0.5) * use.slice_s / scale, value) for at, value in enumerate(values))

    most = max(1.0, *use.workers, *use.devices)
    return LineChart(
        name="use",
        title="Workers and devices",
        x=ChartAxis(f"{unit} since the beginning", 0.0, across),
        y=ChartAxis("at work, on average", 0.0, most * 1.1),
        lines=(
            ChartLine("workers", points(use.workers), "c1"),
            ChartLine("devices in use", points(use.devices), "c3"),
        ),
        caption="A worker counts from its start to the last thing that it recorded; a device while a verdict "
        "needs it.",
    )


def _spread(slices: list[float], start: float, end: float) -> None:
    """Adds a span of time to a histogram: from `start` to `end`, in units of slices, each slice gets the
    fraction of itself that the span covers."""
    start, end = max(0.0, start), min(float(len(slices)), end)
    at = int(start)
    while at < end and at < len(slices):
        slices[at] += min(end, at + 1) - max(start, at)
        at += 1
