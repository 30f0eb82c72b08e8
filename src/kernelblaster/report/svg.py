"""Draw figures as SVG, without a library, coloured by the page's theme.

Colours are CSS classes. A page defines them in its style sheet; a standalone file includes `STYLE`.
"""

from collections.abc import Iterator, Sequence
from html import escape

from kernelblaster.report.chart import Bar, Bars, Chart, ChartAxis, ChartLine, LineChart, Stack, Tone, shown

WIDTH = 480
TOP, RIGHT, BOTTOM, LEFT = 12, 14, 40, 58
HEIGHT = 300
ROW = 18
LEGEND_ROW = 18
NAMED_BARS = 40  # more than so many bars are drawn upright, without names

STYLE = """
svg{font:12px system-ui,sans-serif;--ink:#1d2430;--soft:#667085;--line:#dfe3ea;--c1:#2f6fd0;--c2:#d9730d;
--c3:#178a5e;--c4:#8250df;--c5:#c2347a;--c6:#6b7280;--good:#178a5e;--idle:#a67c00;--bad:#cf3f3f;background:#fff}
@media(prefers-color-scheme:dark){svg{--ink:#e8ebf1;--soft:#9aa4b5;--line:#2f3746;--c1:#6ea8ff;--c2:#f2a154;
--c3:#4fc794;--c4:#b794f6;--c5:#f07ab0;--c6:#9aa4b5;--good:#4fc794;--idle:#e0c04f;--bad:#f07a7a;background:#151a23}}
"""
PAINT = """
svg text{fill:var(--ink)} svg .soft{fill:var(--soft)} svg .grid{stroke:var(--line);stroke-width:1}
svg .mark{stroke:var(--soft);stroke-width:1;stroke-dasharray:4 3;fill:none} svg .roof{stroke:var(--soft);
stroke-width:2;fill:none} svg .line{fill:none;stroke-width:2;stroke-linejoin:round} svg .band{opacity:.16}
svg .whisker{stroke:var(--ink);stroke-width:1;opacity:.55}
""" + "".join(
    f"svg .s-{tone}{{stroke:var(--{tone})}} svg .f-{tone}{{fill:var(--{tone})}}\n"
    for tone in ("c1", "c2", "c3", "c4", "c5", "c6", "good", "idle", "bad")
)


def draw_svg(chart: Chart, *, alone: bool = False) -> str:
    """The figure as an `<svg>` element for a page whose style sheet has PAINT; with `alone`, as the content
    of a standalone file."""
    match chart:
        case LineChart():
            height, body = _lines(chart)
        case Bars():
            height, body = _columns(chart) if len(chart.bars) > NAMED_BARS else _bars(chart)
        case Stack():
            height, body = _stack(chart)
    inside = "".join(body)
    style = f"<style>{STYLE}{PAINT}</style>" if alone else ""
    space = ' xmlns="http://www.w3.org/2000/svg"' if alone else ""
    title = escape(chart.title)
    return (
        f'<svg{space} viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}" '
        f'data-figure="{escape(chart.name)}">{style}{inside}</svg>'
    )


def _lines(chart: LineChart) -> tuple[int, list[str]]:
    """Height and SVG elements of a line chart."""
    names = [(line.name, line.tone) for line in chart.lines if line.name]
    legend = _legend(list(dict.fromkeys(names)), HEIGHT)
    frame = _Frame(chart.x, chart.y)
    body = list(frame.axes())
    for value in chart.uprights:
        x = frame.x(value)
        body.append(f'<path class="mark" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
    for value in chart.levels:
        y = frame.y(value)
        body.append(f'<path class="mark" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
    for reference in chart.references:
        body.append(f'<path class="roof" d="{frame.path(reference)}"/>')
    for line in chart.lines:
        body += _line(line, frame)
    return HEIGHT + legend[0], [*body, *legend[1]]


def _line(line: ChartLine, frame: "_Frame") -> Iterator[str]:
    """The elements of one data series: band, line and dots."""
    if line.band:
        upper = [(x, high) for x, _, high in line.band]
        lower = [(x, low) for x, low, _ in reversed(line.band)]
        yield f'<path class="band f-{line.tone}" d="{frame.path([*upper, *lower])}Z"/>'
    if line.joined and len(line.points) > 1:
        yield f'<path class="line s-{line.tone}" d="{frame.path(line.points, line.steps)}"/>'
    if line.dots:
        tips = line.tips or ("",) * len(line.points)
        last = len(line.points) - 1
        for index, ((x, y), tip) in enumerate(zip(line.points, tips, strict=True)):
            radius = 3.2 if not line.joined else 4 if index == last else 2.4
            yield (
                f'<circle class="f-{line.tone}" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" '
                f'r="{radius}"{_tip(tip)}/>'
            )


class _Frame:
    """The drawing area between two axes: maps axis values to positions in the SVG."""

    def __init__(self, x: ChartAxis, y: ChartAxis) -> None:
        self._x = x
        self._y = y

    def x(self, value: float) -> float:
        """The horizontal SVG position of an x value."""
        return LEFT + self._x.fraction(value) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """The vertical SVG position of a y value."""
        return HEIGHT - BOTTOM - self._y.fraction(value) * (HEIGHT - TOP - BOTTOM)

    def path(self, points: Sequence[tuple[float, float]], steps: bool = False) -> str:
        """The path data through points in axis units; with `steps` as a staircase."""
        parts: list[str] = []
        for x, y in points:
            at = f"{self.x(x):.1f} {self.y(y):.1f}"
            parts.append(
                f"M{at}" if not parts else f"H{self.x(x):.1f}V{self.y(y):.1f}" if steps else f"L{at}"
            )
        return "".join(parts)

    def axes(self) -> Iterator[str]:
        """The elements of both axes: grid lines, labels and titles."""
        bottom = HEIGHT - BOTTOM
        for mark in self._y.marks:
            y = self.y(mark)
            yield f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
            yield _text(LEFT - 6, y + 4, shown(mark, self._y.format), "end", "soft")
        for mark in self._x.marks:
            x = self.x(mark)
            yield f'<path class="grid" d="M{x:.1f} {TOP}V{bottom}"/>'
            yield _text(x, bottom + 15, shown(mark, self._x.format), "middle", "soft")
        yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, self._x.label, "middle", "")
        middle = (TOP + bottom) / 2
        yield (
            f'<text transform="translate(11 {middle:.0f}) rotate(-90)" text-anchor="middle">'
            f"{escape(self._y.label)}</text>"
        )


def _bars(chart: Bars) -> tuple[int, list[str]]:
    """Height and SVG elements of a chart with horizontal bars."""
    left = _label_width([bar.label for bar in chart.bars])
    height = TOP + ROW * len(chart.bars) + BOTTOM
    span = WIDTH - RIGHT - left - 34
    body: list[str] = []
    for mark in chart.axis.marks:
        x = left + chart.axis.fraction(mark) * span
        body.append(f'<path class="grid" d="M{x:.1f} {TOP}V{height - BOTTOM}"/>')
        body.append(_text(x, height - BOTTOM + 15, shown(mark, chart.axis.format), "middle", "soft"))
    for index, bar in enumerate(chart.bars):
        body += _bar(chart, bar, TOP + ROW * index, left, span)
    x = left + chart.axis.fraction(chart.origin) * span
    body.append(f'<path class="mark" d="M{x:.1f} {TOP}V{height - BOTTOM}"/>')
    body.append(_text(left + span / 2, height - 6, chart.axis.label, "middle", ""))
    legend = _legend(chart.legend, height)
    return height + legend[0], body + legend[1]


def _bar(chart: Bars, bar: Bar, y: float, left: float, span: float) -> Iterator[str]:
    """The elements of one bar; `y` is the top of its row, `left` and `span` the beginning and the width of
    the axis."""
    start, end = (left + chart.axis.fraction(value) * span for value in (chart.origin, bar.value))
    x, width = min(start, end), max(1.0, abs(end - start))
    middle = y + ROW / 2
    yield _text(left - 6, middle + 4, _short(bar.label, left), "end", "")
    yield (
        f'<rect class="f-{bar.tone}" x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{ROW - 6}" rx="2"'
        f"{_tip(bar.tip or bar.label)}/>"
    )
    edge = max(start, end)
    if bar.low is not None and bar.high is not None:
        low, high = (left + chart.axis.fraction(value) * span for value in (bar.low, bar.high))
        yield f'<path class="whisker" d="M{low:.1f} {middle}H{high:.1f}"/>'
        edge = max(edge, high)
    yield _text(edge + 4, middle + 4, shown(bar.value, chart.axis.format), "start", "soft")


def _columns(chart: Bars) -> tuple[int, list[str]]:
    """Height and SVG elements of a chart of more than NAMED_BARS bars: vertical, without names, the longest
    first."""
    bars = sorted(chart.bars, key=lambda bar: -bar.value)
    rank = ChartAxis(f"{len(bars)} tasks, the fastest first", 0, len(bars), ticks=(0,))
    frame = _Frame(rank, chart.axis)
    body = [part for part in frame.axes() if ">0<" not in part]
    wide = (WIDTH - LEFT - RIGHT) / len(bars)
    base = frame.y(chart.origin)
    for index, bar in enumerate(bars):
        top = frame.y(bar.value)
        body.append(
            f'<rect class="f-{bar.tone}" x="{LEFT + index * wide:.2f}" y="{min(top, base):.1f}" '
            f'width="{max(0.6, wide * 0.85):.2f}" height="{max(1.0, abs(top - base)):.1f}"'
            f"{_tip(bar.tip or bar.label)}/>"
        )
    body.append(f'<path class="mark" d="M{LEFT} {base:.1f}H{WIDTH - RIGHT}"/>')
    legend = _legend(chart.legend, HEIGHT)
    return HEIGHT + legend[0], body + legend[1]


def _stack(chart: Stack) -> tuple[int, list[str]]:
    """Height and SVG elements of a chart with stacked bars."""
    left = _label_width([label for label, _ in chart.rows])
    height = TOP + ROW * len(chart.rows) + BOTTOM
    most = max((sum(counts) for _, counts in chart.rows), default=1.0) or 1.0
    axis = ChartAxis(chart.label, 0, most)
    span = WIDTH - RIGHT - left - 30
    body: list[str] = []
    for mark in axis.marks:
        x = left + axis.fraction(mark) * span
        body.append(f'<path class="grid" d="M{x:.1f} {TOP}V{height - BOTTOM}"/>')
        body.append(_text(x, height - BOTTOM + 15, shown(mark, "number"), "middle", "soft"))
    for index, (label, counts) in enumerate(chart.rows):
        y, x = TOP + ROW * index, float(left)
        body.append(_text(left - 6, y + ROW / 2 + 4, _short(label, left), "end", ""))
        for (kind, tone), count in zip(chart.kinds, counts, strict=True):
            wide = axis.fraction(count) * span
            if count:
                body.append(
                    f'<rect class="f-{tone}" x="{x:.1f}" y="{y + 3}" width="{wide:.1f}" height="{ROW - 6}"'
                    f"{_tip(f'{label}: {count:g} {kind}')}/>"
                )
            x += wide
        body.append(_text(x + 4, y + ROW / 2 + 4, f"{sum(counts):g}", "start", "soft"))
    body.append(_text(left + span / 2, height - 6, chart.label, "middle", ""))
    legend = _legend(chart.kinds, height)
    return height + legend[0], body + legend[1]


def _legend(names: Sequence[tuple[str, Tone]], top: int) -> tuple[int, list[str]]:
    """The legend below a figure of height `top`, in as many rows as needed: (its height, SVG elements); empty
    for fewer than two names."""
    if len(names) < 2:
        return 0, []
    body: list[str] = []
    x, row = float(LEFT), 0
    for name, tone in names:
        wide = 32 + 6.6 * len(name)
        if x + wide > WIDTH and x > LEFT:
            x, row = float(LEFT), row + 1
        y = top + 4 + row * LEGEND_ROW
        body.append(f'<rect class="f-{tone}" x="{x:.0f}" y="{y}" width="11" height="11" rx="2"/>')
        body.append(_text(x + 16, y + 10, name, "start", ""))
        x += wide
    return LEGEND_ROW * (row + 1) + 6, body


def _label_width(labels: Sequence[str]) -> int:
    """The width for the longest label in SVG units, at most 210."""
    return min(210, 14 + int(6.5 * max((len(label) for label in labels), default=0)))


def _short(label: str, width: float) -> str:
    """A label cut to a width in SVG units; the end of a task's name is the most specific, so its beginning is
    cut."""
    most = int((width - 12) / 6.4)
    return label if len(label) <= most else "…" + label[-(most - 1) :]


def _text(x: float, y: float, text: str, anchor: str, kind: str) -> str:
    """A text element; `anchor` is SVG's text-anchor, `kind` a CSS class or empty."""
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _tip(text: str) -> str:
    """The attribute for a tooltip, which the page's script shows; empty without text."""
    return f' data-tip="{escape(text, quote=True)}"' if text else ""
