"""The contents of two pages. The page of a bench shows, while the bench runs, its table and how many workers
and devices were busy over time. Another page lists all benches."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from pydantic import ValidationError

from kernelblaster.bench.metrics import geometric_mean_interval
from kernelblaster.bench.record import KIND, KNOWLEDGE, BenchPlan, BenchRecord, Row
from kernelblaster.quantities import kind_text, percent, times
from kernelblaster.serve.catalog import Catalog, ListedRun
from kernelblaster.serve.places import Place
from kernelblaster.serve.rendering import duration, render_macro
from kernelblaster.serve.topics import PagePart
from kernelblaster.serve.usage import use_chart, use_over_time
from kernelblaster.serve.views.runs import RunLine, line_of
from kernelblaster.store.follow import FollowedRun
from kernelblaster.store.writer import writer_of

ROWS, LINES = "bench-rows", "bench-lines"
TONES = {"valid": "good", "uncovered": "idle", "unfit": "idle", "waiting": "", "running": "busy"}
CHARTED_S = 5.0  # seconds between two drawings of the use over time


@dataclass(frozen=True)
class BenchLine:
    """A task of a bench, with one seed, as a line of the bench's table. `status` is that of its result, which
    `reason` explains. Without a result it is "measuring", the state of its run (like "running"), or "waiting"
    if there is no run yet. `run` is the line of its run, None if it has none. `speedup` is the best so far,
    over the baseline that the search times against. `against` are the final speedups over each baseline, None
    until they are measured. `us` is the best time in microseconds. `of_floor` is the least time that the
    GPU's bandwidth and peak rates allow, divided by `us`: 1 at the limit. `modelled`: times come from a model
    of the GPU. `judged` is how many candidates were judged, `applied` are the techniques of the best one."""

    id: str
    task: str
    seed: int
    status: str
    tone: str
    reason: str
    run: RunLine | None
    speedup: float | None
    against: tuple[tuple[str, float | None], ...]
    us: float | None
    of_floor: float | None
    judged: int
    applied: tuple[str, ...]
    modelled: bool


class BenchView:
    """The content of the page of the bench at `place`, while the bench runs: its table, figures and counts.
    They come from the bench's own log and from the runs of its searches, which `catalog` has."""

    def __init__(self, place: Place, catalog: Catalog) -> None:
        self.place = place
        self._catalog = catalog
        self.bench = FollowedRun(place.folder)
        self.plan: BenchPlan | None = None
        self.problem = ""
        self._seen: tuple[Any, ...] = ()
        self._lines: dict[BenchLine, Markup] = {}
        self._chart: tuple[float, Markup] | None = None
        self.writer: int | None = None

    def refresh(self) -> bool:
        changed = self.bench.update()
        self.writer = writer_of(self.place.folder)
        seen = (self.writer, self._catalog.version)
        if not changed and seen == self._seen:
            return False
        self._seen = seen
        if self.plan is None and self.bench.events:
            try:
                self.plan = BenchPlan.model_validate(self.bench.events[0].data[KIND])
            except (KeyError, ValidationError):
                self.problem = "its plan cannot be read; it may be of a newer version"
        return True

    def parts(self) -> list[PagePart]:
        runs = self._catalog.runs(self.place.id)
        if self.plan is None:
            return [PagePart("bench-head", self._part("head_without_plan", self._about()))]
        record = BenchRecord(self.plan, self.bench.events)
        rows = record.rows()
        by_job = {one.summary.job: one for one in runs if one.summary.job}
        lines = [self._line(row, by_job.get(row.result.job)) for row in rows]
        head = self._part("head", self._about() | {"device": record.device, "tiles": self._tiles(rows, runs)})
        made = {line: self._lines.get(line) or self._part("line", line) for line in lines}
        self._lines = made
        return [
            PagePart("bench-head", head),
            PagePart("bench-use", self._use(runs)),
            PagePart(
                "bench-now", self._part("now", [line_of(one) for one in runs if one.writer is not None])
            ),
            *(PagePart(line.id, html, ROWS) for line, html in made.items()),
        ]

    @property
    def baselines(self) -> tuple[str, ...]:
        return tuple(self.plan.baselines) if self.plan else ()

    def _line(self, row: Row, listed: ListedRun | None) -> BenchLine:
        """What the bench's table shows of one search: status, times, speedups. `row` is its result so far,
        `listed` its run, None if it has none yet."""
        result = row.result
        status = result.status
        run = line_of(listed) if listed else None
        if status == "unfinished":
            status = "measuring" if result.best_us else "waiting"  # type: ignore[assignment]
            if run is not None and not result.best_us:
                status = run.state  # type: ignore[assignment]
        best_us = result.best_us or (run.best_us if run else None)
        floor_us = result.floor_us or (listed.summary.floor_us if listed else None)
        return BenchLine(
            id=f"job:{result.job}",
            task=result.task,
            seed=result.seed,
            status=status,
            tone=TONES.get(status, "bad" if row.result.status not in ("unfinished",) else ""),
            reason=result.reason,
            run=run,
            speedup=_speedup(row, run),
            against=tuple((name, row.speedup(name)) for name in self.baselines),
            us=best_us,
            of_floor=floor_us / best_us if best_us and floor_us else None,
            judged=result.spent.evaluations or (run.judged if run else 0),
            applied=result.applied,
            modelled=result.modelled or (run.modelled if run else False),
        )

    def _about(self) -> dict[str, Any]:
        return {
            "id": self.place.id,
            "name": self.place.folder.name,
            "suites": ", ".join(self.plan.suites) if self.plan else "",
            "running": self.writer is not None,
            "problem": self.problem or self.bench.damage,
            "knowledge": (self.place.folder / KNOWLEDGE).is_file(),
        }

    def _tiles(self, rows: list[Row], runs: list[ListedRun]) -> list[tuple[str, str]]:
        """The numbers shown large at the top of a bench's page, each as (number, caption): tasks done, share
        valid, mean speedup."""
        ended = [row for row in rows if row.result.status != "unfinished"]
        valid = [row for row in ended if row.result.status == "valid"]
        modelled = kind_text(any(row.result.modelled for row in ended))
        tiles = [(f"{len(ended)} of {len(rows)}", "tasks are done")]
        if ended:
            tiles.append((percent(len(valid) / len(ended)), f"valid: {len(valid)} of {len(ended)}"))
        name = self.baselines[0] if self.baselines else ""
        by_task: dict[str, list[float]] = {}
        for row in valid:
            speedup = row.speedup(name)
            if speedup is not None:
                by_task.setdefault(row.result.task, []).append(speedup)
        mean = geometric_mean_interval(list(by_task.values()))
        if mean:
            tiles.append((times(mean.estimate), f"against {name}, geometric mean{modelled}"))
        judged = sum(one.summary.judged for one in runs)
        working = sum(one.writer is not None for one in runs)
        tiles.append((f"{judged:,}", "candidates judged"))
        tiles.append((str(working), "searches at work" if working != 1 else "search at work"))
        left = self._left_s(rows, runs)
        if left is not None and self.writer is not None:
            tiles.append((duration(left), "left, at the pace so far"))
        return tiles

    def _left_s(self, rows: list[Row], runs: list[ListedRun]) -> float | None:
        """How many seconds the searches that are left will take, if they go on as fast as so far; None if
        none has ended."""
        ended = sum(row.result.status != "unfinished" or bool(row.result.best_us) for row in rows)
        spans = [span for one in runs for span in one.summary.spans]
        if not ended or not spans:
            return None
        took = max(end for _, end in spans) - min(start for start, _ in spans)
        return took / ended * (len(rows) - ended)

    def _use(self, runs: list[ListedRun]) -> Markup:
        """The figure of busy workers and devices as HTML. It is drawn anew only if the last one is older than
        CHARTED_S seconds."""
        if self._chart is not None and time.monotonic() - self._chart[0] < CHARTED_S:
            return self._chart[1]
        use = use_over_time([one.summary for one in runs])
        html = self._part("empty", "bench-use")
        if use is not None:
            html = render_macro("components.html", "figure", use_chart(use), id="bench-use")
        self._chart = (time.monotonic(), html)
        return html

    def _part(self, macro: str, *values: Any) -> Markup:
        return render_macro("bench_parts.html", macro, *values)


class BenchesView:
    """The content of the page that lists all benches of `catalog`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._version = -1

    def refresh(self) -> bool:
        changed = self._version != self._catalog.version
        self._version = self._catalog.version
        return changed

    def parts(self) -> list[PagePart]:
        lines = []
        for place in self._catalog.benches():
            runs = self._catalog.runs(place.id)
            about = {
                "id": place.id,
                "name": place.folder.name,
                "runs": len(runs),
                "running": sum(one.writer is not None for one in runs),
                "finished": sum(one.state == "finished" for one in runs),
                "judged": sum(one.summary.judged for one in runs),
                "last": max((one.summary.last or 0.0 for one in runs), default=None),
            }
            html = render_macro("bench_parts.html", "bench_line", about)
            lines.append(PagePart(f"bench:{place.id}", html, LINES))
        if not lines:
            lines = [PagePart("no-bench", render_macro("bench_parts.html", "no_bench"), LINES)]
        return lines


def knowledge_of(place: Place) -> Path | None:
    """Returns the file of the knowledge base that the bench at `place` teaches; None if there is none yet."""
    file = place.folder / KNOWLEDGE
    return file if file.is_file() else None


def _speedup(row: Row, run: RunLine | None) -> float | None:
    """The speedup of a search of a bench over the first baseline: from its result's times, else as the search
    judged it so far; None if there is none."""
    result = row.result
    if result.best_us and result.baseline_us:
        return result.baseline_us / result.best_us
    return run.speedup if run else None
