"""The content of the page that lists runs: a line for each, with its state and a small plot of how its best
time nears the floor (the least time that the GPU allows)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from markupsafe import Markup

from kernelblaster.report.sparkline import Sparkline, sparkline
from kernelblaster.serve.catalog import STATES, Catalog, ListedRun
from kernelblaster.serve.rendering import render_macro
from kernelblaster.serve.topics import PagePart

SHOWN = 200  # lines of a list, unless all are asked for
FOLLOWED = (
    SHOWN + 60
)  # lines that come and go by themselves; those after them only change where they are shown
SORTS = ("latest", "speedup", "floor", "judged", "task")
LINES = "list-lines"


@dataclass(frozen=True)
class RunLine:
    """A run as a line of the list of runs; `speedup`, `best_us` and `modelled` (from a model of the GPU) are
    those of its best candidate so far. `read`: its log was read to the end, so the line is complete. `state`
    is like "running", `spark` is a small plot, `note` a remark. `damage` says what is wrong with the log.
    `of_floor` is the floor (the least time that the GPU allows) divided by the best time: 1 at the limit.
    `judged` is how many candidates were judged, of at most `limit`; `failed` of them are not correct. `begun`
    is when the run began, `last` when its last event was recorded, in seconds since 1970. `with_model`: a
    language model takes part. What is not known is None or empty."""

    id: str
    name: str
    task: str
    state: str
    read: bool
    damage: str
    device: str
    modelled: bool
    speedup: float | None
    best_us: float | None
    of_floor: float | None
    judged: int
    limit: int | None
    failed: int
    spark: Sparkline | None
    begun: float | None
    last: float | None
    note: str
    with_model: bool


def line_of(one: ListedRun) -> RunLine:
    """Returns the run `one` as a line of the list of runs, for the template: its name, task and state, its
    best time and speedup, and a small plot."""
    s = one.summary
    known = s.best_us is not None and s.floor_us is not None and s.best_us > 0 and isfinite(s.floor_us)
    note = s.stopped
    if one.writer is not None and s.asking:
        note = f"asking the {s.asking}"
    return RunLine(
        id=one.place.id,
        name=one.place.folder.name,
        task=s.task or "?",
        state=str(one.state),
        read=one.read,
        damage=one.tail.damage,
        device=s.device,
        modelled=s.modelled,
        speedup=s.best_speedup,
        best_us=s.best_us,
        of_floor=s.floor_us / s.best_us if known and s.floor_us and s.best_us else None,
        judged=s.judged,
        limit=s.limit,
        failed=s.failed,
        spark=sparkline(s.points, s.floor_us, s.baseline_us, s.points_allowed),
        begun=s.begun,
        last=s.last,
        note=note,
        with_model=s.with_model,
    )


class RunLines:
    """The lines of the list of runs as HTML. A line is made again only after its run has changed."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[int, Markup]] = {}

    def html(self, one: ListedRun) -> Markup:
        """Returns the line of the list for the run `one`, as HTML."""
        known = self._made.get(one.place.id)
        if known is None or known[0] != one.version:
            known = self._made[one.place.id] = (
                one.version,
                render_macro("lines.html", "run_line", line_of(one)),
            )
        return known[1]

    def forget(self, runs: Sequence[ListedRun]) -> None:
        """Drops the lines of all runs except `runs`; the others are not listed any more."""
        ids = {one.place.id for one in runs}
        for id_ in self._made.keys() - ids:
            del self._made[id_]


class RunsView:
    """The content of the page that lists the runs of `catalog` which belong to no bench: running ones first,
    then the latest. `lines` makes the line of each run."""

    def __init__(self, catalog: Catalog, lines: RunLines) -> None:
        self._catalog = catalog
        self._lines = lines
        self._version = -1

    def refresh(self) -> bool:
        changed = self._version != self._catalog.version
        self._version = self._catalog.version
        return changed

    def parts(self) -> list[PagePart]:
        runs = self._catalog.runs()
        self._lines.forget(runs)
        counts = count_states(runs)
        head = render_macro("lines.html", "run_counts", counts, len(runs), self._catalog.reading)
        lines = [PagePart(f"run:{one.place.id}", self._lines.html(one), LINES) for one in runs[:FOLLOWED]]
        others = [
            PagePart(f"run:{one.place.id}", self._lines.html(one)) for one in runs[FOLLOWED:] if one.grew
        ]
        return [PagePart("list-counts", head), *lines, *others]


def count_states(runs: Sequence[ListedRun]) -> dict[str, int]:
    """How many runs there are in each state (running, finished, ...); states without runs are left out."""
    counts = Counter(str(one.state) for one in runs)
    return {state: counts[state] for state in STATES if counts[state]}


def chosen(runs: Sequence[ListedRun], words: str, state: str, sort: str) -> list[ListedRun]:
    """Returns the runs that are in this `state` ("": any) and have all of `words` in their task, name,
    device, state or note. `sort` is one of SORTS: "speedup", "floor" (nearest to the least time first),
    "judged" (most candidates first) or "task"; with "latest", they stay as given."""
    wanted = words.lower().split()

    def fits(one: ListedRun) -> bool:
        if state and one.state != state:
            return False
        s = one.summary
        text = f"{s.task} {one.place.folder.name} {s.device} {one.state} {s.stopped}".lower()
        return all(word in text for word in wanted)

    found = [one for one in runs if fits(one)]
    match sort:
        case "speedup":
            found.sort(key=lambda one: -(one.summary.best_speedup or 0.0))
        case "floor":
            found.sort(key=lambda one: -(line_of(one).of_floor or 0.0))
        case "judged":
            found.sort(key=lambda one: -one.summary.judged)
        case "task":
            found.sort(key=lambda one: (one.summary.task, one.order))
    return found
