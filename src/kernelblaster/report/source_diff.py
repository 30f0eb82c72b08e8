"""The highlighted diff of two sources."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from markupsafe import Markup

from kernelblaster.report.colours import Language, highlight

NEAR = 3  # equal lines that are shown before and after a change
MOST_LINES = 800  # of a difference that are shown
MOST_PAIRS = 4_000_000  # of lines to compare; with more, all old lines are shown as removed

Kind = Literal["same", "added", "removed", "gap"]
SIGNS = {"same": " ", "added": "+", "removed": "-", "gap": "⋯"}


@dataclass(frozen=True)
class DiffLine:
    """A line of a diff as highlighted HTML; the text of a `gap` says how many equal lines are left out."""

    kind: Kind
    text: Markup

    @property
    def sign(self) -> str:
        return SIGNS[self.kind]


def difference(before: str, after: str, language: Language = "cuda") -> list[DiffLine]:
    """The diff of two sources as highlighted lines, with NEAR lines of context and at most MOST_LINES; empty
    if they are equal."""
    if before == after:
        return []
    shown = list(_folded(list(_lines(before, after, language))))
    if len(shown) <= MOST_LINES:
        return shown
    rest = len(shown) - MOST_LINES
    return [*shown[:MOST_LINES], DiffLine("gap", Markup(f"{rest} lines more"))]


def _lines(before: str, after: str, language: Language) -> Iterator[DiffLine]:
    """All lines of the diff, equal ones included."""
    old, new = highlight(before, language), highlight(after, language)
    for equal, i, j, k, m in _blocks(before.split("\n"), after.split("\n")):
        if equal:
            yield from (DiffLine("same", line) for line in new[k:m])
        else:
            yield from (DiffLine("removed", line) for line in old[i:j])
            yield from (DiffLine("added", line) for line in new[k:m])


def _blocks(old: Sequence[str], new: Sequence[str]) -> list[tuple[bool, int, int, int, int]]:
    """Alternating equal and different blocks, each (equal, i, j, k, m): lines i to j (exclusive) of the old
    text and k to m of the new."""
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    i, j, k, m = start, len(old) - end, start, len(new) - end
    inside = [(False, i, j, k, m)]
    if (j - i) * (m - k) <= MOST_PAIRS:
        matcher = SequenceMatcher(None, old[i:j], new[k:m], autojunk=False)
        inside = [(tag == "equal", i + a, i + b, k + c, k + d) for tag, a, b, c, d in matcher.get_opcodes()]
    return [(True, 0, start, 0, start), *inside, (True, j, len(old), m, len(new))]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """The number of equal lines at the beginning of both."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _folded(lines: Sequence[DiffLine]) -> Iterator[DiffLine]:
    """The lines with a gap in place of equal ones that are more than NEAR lines from a change."""
    changed = [at for at, line in enumerate(lines) if line.kind != "same"]
    near = {at for index in changed for at in range(index - NEAR, index + NEAR + 1)}
    skipped = 0
    for at, line in enumerate(lines):
        if at not in near:
            skipped += 1
            continue
        if skipped:
            yield DiffLine("gap", Markup(f"{skipped} equal lines"))
            skipped = 0
        yield line
    if skipped:
        yield DiffLine("gap", Markup(f"{skipped} equal lines"))
