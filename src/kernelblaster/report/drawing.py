"""The layout of figures: where each line, bar and label of a chart lies. `templates/figure.svg` draws it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernelblaster.report.chart import Bar, Bars, Chart, ChartAxis, ChartLine, LineChart, Stack, Tone, shown

WIDTH = 480
TOP, RIGHT, BOTTOM, LEFT = 12, 14, 40, 58
HEIGHT = 300
ROW = 18
LEGEND_ROW = 18
NAMED_BARS = 40  # more than so many bars are drawn upright, without names


@dataclass(frozen=True)
class Mark:
    """One SVG element of a figure: its name (`tag`, like "path"), its CSS class (`kind`), its other
    attributes by name (`at`), the text inside it, and its tooltip (`tip`)."""

    tag: str
    kind: str = ""
    at: Mapping[str, str | float] = field(default_factory=dict)
    text: str = ""
    tip: str = ""


@dataclass(frozen=True)
class Drawing:
    """A figure with a `name` and a `title`, in which everything has its place: `marks` are its SVG elements,
    with positions in units of its `width` and `height`."""

    name: str
    title: str
    width: int
    height: int
    marks: list[Mark]


def draw(chart: Chart) -> Drawing:
    """Returns the layout of a figure: its size, and its SVG elements (lines, bars, labels, grid lines), each
    with its position. A template writes them as SVG."""
    match chart:
        case LineChart():
            height, marks = _lines(chart)
        case Bars():
            height, marks = _columns(chart) if len(chart.bars) > NAMED_BARS else _bars(chart)
        case Stack():
            height, marks = _stack(chart)
    return Drawing(chart.name, chart.title, WIDTH, height, marks)


def _lines(chart: LineChart) -> tuple[int, list[Mark]]:
    """Lays out a chart of lines over two axes. Returns its height and its SVG elements."""
    names = [(line.name, line.tone) for line in chart.lines if line.name]
    legend = _legend(list(dict.fromkeys(names)), HEIGHT)
    frame = _Frame(chart.x, chart.y)
    body = list(frame.axes())
    for value in chart.uprights:
        x = frame.x(value)
        body.append(_path("mark", f"M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"))
    for value in chart.levels:
        y = frame.y(value)
        body.append(_path("mark", f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}"))
    for reference in chart.references:
        body.append(_path("roof", frame.path(reference)))
    for line in chart.lines:
        body += _line(line, frame)
    return HEIGHT + legend[0], [*body, *legend[1]]


def _line(line: ChartLine, frame: "_Frame") -> Iterator[Mark]:
    """Yields the SVG elements of one data series: the shaded band, the line through its points, and the
    dots."""
    if line.band:
        upper = [(x, high) for x, _, high in line.band]
        lower = [(x, low) for x, low, _ in reversed(line.band)]
        yield _path(f"band f-{line.tone}", f"{frame.path([*upper, *lower])}Z")
    if line.joined and len(line.points) > 1:
        yield _path(f"line s-{line.tone}", frame.path(line.points, line.steps))
    if line.dots:
        tips = line.tips or ("",) * len(line.points)
        last = len(line.points) - 1
        for index, ((x, y), tip) in enumerate(zip(line.points, tips, strict=True)):
            radius = 3.2 if not line.joined else 4 if index == last else 2.4
            at = {"cx": f"{frame.x(x):.1f}", "cy": f"{frame.y(y):.1f}", "r": radius}
            yield Mark("circle", f"f-{line.tone}", at, tip=tip)


class _Frame:
    """The drawing area of a line chart: converts values on its two axes to positions in the SVG."""

    def __init__(self, x: ChartAxis, y: ChartAxis) -> None:
        self._x = x
        self._y = y

    def x(self, value: float) -> float:
        """The horizontal position in the SVG of a value on the x axis."""
        return LEFT + self._x.fraction(value) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """The vertical position in the SVG of a value on the y axis; larger values are further up."""
        return HEIGHT - BOTTOM - self._y.fraction(value) * (HEIGHT - TOP - BOTTOM)

    def path(self, points: Sequence[tuple[float, float]], steps: bool = False) -> str:
        """The `d` attribute of an SVG path through these points, given as values on the axes; with `steps`,
        as a staircase."""
        parts: list[str] = []
        for x, y in points:
            at = f"{self.x(x):.1f} {self.y(y):.1f}"
            parts.append(
                f"M{at}" if not parts else f"H{self.x(x):.1f}V{self.y(y):.1f}" if steps else f"L{at}"
            )
        return "".join(parts)

    def axes(self) -> Iterator[Mark]:
        """Yields the SVG elements of both axes: grid lines, labels at round values, and titles."""
        bottom = HEIGHT - BOTTOM
        for mark in self._y.marks:
            y = self.y(mark)
            yield _path("grid", f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}")
            yield _text(LEFT - 6, y + 4, shown(mark, self._y.format), "end", "soft")
        for mark in self._x.marks:
            x = self.x(mark)
            yield _path("grid", f"M{x:.1f} {TOP}V{bottom}")
            yield _text(x, bottom + 15, shown(mark, self._x.format), "middle", "soft")
        yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, self._x.label, "middle", "")
        middle = (TOP + bottom) / 2
        turned = {"transform": f"translate(11 {middle:.0f}) rotate(-90)", "text-anchor": "middle"}
        yield Mark("text", at=turned, text=self._y.label)


def _bars(chart: Bars) -> tuple[int, list[Mark]]:
    """Lays out a chart with one horizontal bar for each label. Returns its height and its SVG elements."""
    left = _label_width([bar.label for bar in chart.bars])
    height = TOP + ROW * len(chart.bars) + BOTTOM
    span = WIDTH - RIGHT - left - 34
    body: list[Mark] = []
    for mark in chart.axis.marks:
        x = left + chart.axis.fraction(mark) * span
        body.append(_path("grid", f"M{x:.1f} {TOP}V{height - BOTTOM}"))
        body.append(_text(x, height - BOTTOM + 15, shown(mark, chart.axis.format), "middle", "soft"))
    for index, bar in enumerate(chart.bars):
        body += _bar(chart, bar, TOP + ROW * index, left, span)
    x = left + chart.axis.fraction(chart.origin) * span
    body.append(_path("mark", f"M{x:.1f} {TOP}V{height - BOTTOM}"))
    body.append(_text(left + span / 2, height - 6, chart.axis.label, "middle", ""))
    legend = _legend(chart.legend, height)
    return height + legend[0], body + legend[1]


def _bar(chart: Bars, bar: Bar, y: float, left: float, span: float) -> Iterator[Mark]:
    """Yields the SVG elements of one horizontal bar of a chart; `y` is the top of its row, `left` and `span`
    the beginning and the width of the axis."""
    start, end = (left + chart.axis.fraction(value) * span for value in (chart.origin, bar.value))
    x, width = min(start, end), max(1.0, abs(end - start))
    middle = y + ROW / 2
    yield _text(left - 6, middle + 4, _short(bar.label, left), "end", "")
    yield _rect(bar.tone, (x, y + 3, width, ROW - 6), bar.tip or bar.label, rounded=True)
    edge = max(start, end)
    if bar.low is not None and bar.high is not None:
        low, high = (left + chart.axis.fraction(value) * span for value in (bar.low, bar.high))
        yield _path("whisker", f"M{low:.1f} {middle}H{high:.1f}")
        edge = max(edge, high)
    yield _text(edge + 4, middle + 4, shown(bar.value, chart.axis.format), "start", "soft")


def _columns(chart: Bars) -> tuple[int, list[Mark]]:
    """Height and SVG elements of a chart of more than NAMED_BARS bars: vertical, without names, the longest
    first."""
    bars = sorted(chart.bars, key=lambda bar: -bar.value)
    rank = ChartAxis(f"{len(bars)} tasks, the fastest first", 0, len(bars), ticks=(0,))
    frame = _Frame(rank, chart.axis)
    body = [mark for mark in frame.axes() if mark.text != "0"]
    wide = (WIDTH - LEFT - RIGHT) / len(bars)
    base = frame.y(chart.origin)
    for index, bar in enumerate(bars):
        top = frame.y(bar.value)
        box = (LEFT + index * wide, min(top, base), max(0.6, wide * 0.85), max(1.0, abs(top - base)))
        body.append(_rect(bar.tone, box, bar.tip or bar.label))
    body.append(_path("mark", f"M{LEFT} {base:.1f}H{WIDTH - RIGHT}"))
    legend = _legend(chart.legend, HEIGHT)
    return HEIGHT + legend[0], body + legend[1]


def _stack(chart: Stack) -> tuple[int, list[Mark]]:
    """Lays out a chart with one horizontal bar for each label that is stacked of counts by kind. Returns its
    height and its SVG elements."""
    left = _label_width([label for label, _ in chart.rows])
    height = TOP + ROW * len(chart.rows) + BOTTOM
    most = max((sum(counts) for _, counts in chart.rows), default=1.0) or 1.0
    axis = ChartAxis(chart.label, 0, most)
    span = WIDTH - RIGHT - left - 30
    body: list[Mark] = []
    for mark in axis.marks:
        x = left + axis.fraction(mark) * span
        body.append(_path("grid", f"M{x:.1f} {TOP}V{height - BOTTOM}"))
        body.append(_text(x, height - BOTTOM + 15, shown(mark, "number"), "middle", "soft"))
    for index, (label, counts) in enumerate(chart.rows):
        y, x = TOP + ROW * index, float(left)
        body.append(_text(left - 6, y + ROW / 2 + 4, _short(label, left), "end", ""))
        for (kind, tone), count in zip(chart.kinds, counts, strict=True):
            wide = axis.fraction(count) * span
            if count:
                body.append(_rect(tone, (x, y + 3, wide, ROW - 6), f"{label}: {count:g} {kind}"))
            x += wide
        body.append(_text(x + 4, y + ROW / 2 + 4, f"{sum(counts):g}", "start", "soft"))
    body.append(_text(left + span / 2, height - 6, chart.label, "middle", ""))
    legend = _legend(chart.kinds, height)
    return height + legend[0], body + legend[1]


def _legend(names: Sequence[tuple[str, Tone]], top: int) -> tuple[int, list[Mark]]:
    """The legend below a figure of height `top`, in as many rows as needed: (its height, SVG elements); empty
    for fewer than two names."""
    if len(names) < 2:
        return 0, []
    body: list[Mark] = []
    x, row = float(LEFT), 0
    for name, tone in names:
        wide = 32 + 6.6 * len(name)
        if x + wide > WIDTH and x > LEFT:
            x, row = float(LEFT), row + 1
        y = top + 4 + row * LEGEND_ROW
        body.append(_rect(tone, (x, y, 11, 11), rounded=True))
        body.append(_text(x + 16, y + 10, name, "start", ""))
        x += wide
    return LEGEND_ROW * (row + 1) + 6, body


def _label_width(labels: Sequence[str]) -> int:
    """How wide the column of bar labels must be for the longest of them, in SVG units; at most 210."""
    return min(210, 14 + int(6.5 * max((len(label) for label in labels), default=0)))


def _short(label: str, width: float) -> str:
    """A label cut to a width in SVG units, with an ellipsis. Its beginning is cut, since the end of a task's
    name is the most specific."""
    most = int((width - 12) / 6.4)
    return label if len(label) <= most else "…" + label[-(most - 1) :]


def _path(kind: str, data: str) -> Mark:
    """An SVG path element; `data` is its path data, `kind` its CSS class."""
    return Mark("path", kind, {"d": data})


def _rect(
    tone: Tone, box: tuple[float, float, float, float], tip: str = "", *, rounded: bool = False
) -> Mark:
    """A rectangle of the colour `tone`; `box` is (x, y, width, height) in the SVG, `tip` the tooltip,
    `rounded` rounds its corners."""
    named = zip(("x", "y", "width", "height"), box, strict=True)
    at: dict[str, str | float] = {name: f"{value:.2f}" for name, value in named}
    return Mark("rect", f"f-{tone}", at | ({"rx": 2} if rounded else {}), tip=tip)


def _text(x: float, y: float, text: str, anchor: str, kind: str) -> Mark:
    """A text at (x, y) in the SVG. `anchor` says which end of it lies there ("start", "middle", "end");
    `kind` is a CSS class, or empty."""
    return Mark("text", kind, {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}, text)
