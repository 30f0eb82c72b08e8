"""Charts as data: axes, lines, bars. drawing.py computes where each part of them is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Literal

Format = Literal["times", "percent", "number", "si"]
Tone = Literal["c1", "c2", "c3", "c4", "c5", "c6", "good", "idle", "bad"]
TONES: tuple[Tone, ...] = ("c1", "c2", "c3", "c4", "c5", "c6")


@dataclass(frozen=True)
class ChartAxis:
    """An axis of a figure from `low` to `high`. If `log`, it is logarithmic, and both must be positive.
    `label` is its title. `ticks` are the values with a label, chosen automatically if empty. `format` says
    how their numbers are written: "number" (1.5), "times" (1.5x), "percent" (50%) or "si" (2k)."""

    label: str
    low: float
    high: float
    log: bool = False
    format: Format = "number"
    ticks: tuple[float, ...] = ()

    def fraction(self, value: float) -> float:
        """Returns where `value` lies on the axis: 0 at `low`, 1 at `high`. For values outside of the range of
        the axis, it is 0 or 1."""
        if self.log:
            part = (log10(max(value, self.low)) - log10(self.low)) / (log10(self.high) - log10(self.low))
        else:
            part = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, part))

    @property
    def marks(self) -> list[float]:
        """The values at which the axis has labels: `ticks` if these were given, else round numbers in its
        range."""
        return list(self.ticks) or (_log_marks if self.log else _linear_marks)(self.low, self.high)


@dataclass(frozen=True)
class ChartLine:
    """One data series of a chart. `points` are (x, y) in axis units. `joined` draws lines between them, as a
    staircase with `steps`; `dots` draws the points. `band` is a shaded area, given by its edges at some x as
    (x, low, high). `tone` names a colour of the page, such as "good". `tips` are tooltips, one for each
    point. `name` stands in the legend; a line with an empty name is not in it."""

    name: str
    points: tuple[tuple[float, float], ...]
    tone: Tone = "c1"
    band: tuple[tuple[float, float, float], ...] = ()
    steps: bool = False
    dots: bool = False
    joined: bool = True
    tips: tuple[str, ...] = ()


@dataclass(frozen=True)
class LineChart:
    """A figure with lines over two axes (`x`, `y`), a `title`, and a `caption` below. `references` are thick
    polylines of (x, y) that mark a limit, such as a roofline. `uprights` are dashed vertical lines at these
    values of x, `levels` dashed horizontal ones at these values of y. `name` identifies the figure in file
    names."""

    name: str
    title: str
    x: ChartAxis
    y: ChartAxis
    lines: tuple[ChartLine, ...]
    references: tuple[tuple[tuple[float, float], ...], ...] = ()
    uprights: tuple[float, ...] = ()
    levels: tuple[float, ...] = ()
    caption: str = ""


@dataclass(frozen=True)
class Bar:
    """One bar of a figure, with a `label`. It ends at `value`. `low` and `high` are the ends of its error
    bar, None if it has none. `tone` names a colour of the page, such as "good"; `tip` is a tooltip."""

    label: str
    value: float
    tone: Tone = "c1"
    low: float | None = None
    high: float | None = None
    tip: str = ""


@dataclass(frozen=True)
class Bars:
    """A figure with one horizontal bar for each label, a `title`, an `axis`, and a `caption` below. All bars
    begin at the value `origin` (1 for speedups) and end at their own. `legend` has pairs of (text, tone),
    which say what the colours mean. `name` identifies the figure in file names."""

    name: str
    title: str
    axis: ChartAxis
    bars: tuple[Bar, ...]
    origin: float
    legend: tuple[tuple[str, Tone], ...] = ()
    caption: str = ""


@dataclass(frozen=True)
class Stack:
    """A figure of stacked bars, with a `title`, and a `caption` below. An example: for each technique, how
    often it paid and how often it failed. `rows` are the bars: (name of the bar, one count for each of
    `kinds`, in their order). `kinds` are what is counted, as (name, tone), where the tone names a colour.
    `label` is the title of the axis of the counts; `name` identifies the figure in file names."""

    name: str
    title: str
    label: str
    kinds: tuple[tuple[str, Tone], ...]
    rows: tuple[tuple[str, tuple[float, ...]], ...]
    caption: str = ""


Chart = LineChart | Bars | Stack


def shown(value: float, format_: Format) -> str:
    """Returns `value` as the text of an axis label. By `format_`: "times" gives "1.5x"; "percent" gives "50%"
    for 0.5; "si" gives "2k" for 2000, and G or M for larger numbers; otherwise "1.5". Three significant
    digits."""
    if format_ == "percent":
        return f"{100 * value:.3g}%"
    if format_ == "times":
        return f"{value:.3g}x" if value < 999.5 else f"{value:.0f}x"
    if format_ == "si" and abs(value) >= 1000:
        for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= unit:
                return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def log_range(values: Sequence[float], least: float, most: float) -> tuple[float, float]:
    """Returns (lower end, upper end) of a logarithmic axis on which all of `values`, and also `least` and
    `most`, lie with a margin of 10 % at either end."""
    return min([least, *values]) / 1.1, max([most, *values]) * 1.1


def _linear_marks(low: float, high: float) -> list[float]:
    """About five round numbers between `low` and `high`, equally spaced, to label a linear axis with."""
    rough = (high - low) / 5
    unit = 10.0 ** floor(log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * 0.999)
    first = ceil(low / step - 1e-9)
    return [step * index for index in range(first, floor(high / step + 1e-9) + 1)]


def _log_marks(low: float, high: float) -> list[float]:
    """Numbers to label a logarithmic axis from `low` to `high` with: powers of ten, and 2 and 5 (or 3) times
    these if the range is small."""
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    spread = log10(high / low)
    factors = (1, 2, 5) if spread < 2.2 else (1, 3) if spread < 3.2 else (1,)
    marks = [factor * 10.0**decade for decade in decades for factor in factors]
    if spread < 1.1:
        marks = sorted({*marks, *(factor * 10.0**d for d in decades for factor in (1.5, 3, 4, 7))})
    return [mark for mark in marks if low * 0.999 <= mark <= high * 1.001]
