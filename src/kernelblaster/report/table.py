"""Tables as data (columns, rows, cells); the macro `table` of `templates/components.html` draws them,
`tables.js` sorts them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from kernelblaster.quantities import percent, times

ColumnKind = Literal["", "number", "name", "wide"]


@dataclass(frozen=True)
class Column:
    """A column of a table, with a `title`. `kind` says how it is shown: "number" is aligned to the right,
    "name" may break within words, "wide" is for sentences."""

    title: str
    kind: ColumnKind = ""


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its `text`, and the `value` that the table is sorted by (None: the text). `tone` is
    a CSS class that colours it, `tip` a tooltip. It is drawn as a label if `tag`, bold if `strong`, as a link
    to `href` if that is not empty, and cut to two lines if `clamped`."""

    text: str
    value: float | None = None
    tone: str = ""
    tip: str = ""
    tag: bool = False
    strong: bool = False
    href: str = ""
    clamped: bool = False


@dataclass(frozen=True)
class TableLine:
    """A row of a table, with its `cells`. `key` says what a click on it opens, such as a run; empty: nothing.
    `facets` are pairs of (name, value) by which rows can be filtered: ("status", "valid")."""

    cells: tuple[Cell, ...]
    key: str = ""
    facets: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class SortedTable:
    """A table with these `columns` and `lines`, which are in any order. A script sorts it when the page is
    opened: by the column with the index `by` (from 0), the largest value first if `down`, else the smallest.
    If `by` is None, the lines stay as given."""

    columns: tuple[Column, ...]
    lines: tuple[TableLine, ...]
    by: int | None = None
    down: bool = True

    def facets(self, name: str) -> list[str]:
        """The values by which the table can be filtered under this name (like "status"), in alphabetical
        order."""
        return sorted({value for line in self.lines for key, value in line.facets if key == name})


def text_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> SortedTable:
    """Returns a table of plain texts. `titles` are those of the columns; each of `rows` has one text for each
    column. The rows stay in the given order until a reader sorts them."""
    return SortedTable(
        tuple(Column(title) for title in titles),
        tuple(TableLine(tuple(Cell(text) for text in row)) for row in rows),
    )


def speedup_cell(speedup: float | None, *, strong: bool = False, tip: str = "") -> Cell:
    """A table cell with a speedup, green if faster than 1 and red if slower; empty for None. `strong`: in
    bold; `tip` is the tooltip."""
    return Cell(times(speedup), speedup, tone_of(speedup), tip, strong=strong)


def share_cell(share: float | None, tip: str = "") -> Cell:
    """A table cell with a share (0 to 1) as percent; empty for None. `tip` is the tooltip."""
    return Cell(percent(share), share, tip=tip)


def number_cell(number: float | None, digits: int = 4) -> Cell:
    """A table cell with a number of `digits` significant digits, sorted by its value; empty for None."""
    return Cell("" if number is None else f"{float(f'{number:.{digits}g}'):,.10g}", number)


def tone_of(speedup: float | None) -> str:
    """The CSS class that colours a speedup: `faster`, `slower`, or empty where it is within half a percent of
    1."""
    if speedup is None:
        return ""
    return "faster" if speedup > 1.005 else "slower" if speedup < 0.995 else ""
