"""The HTML page of one run: the verdict, the source, and every step with the reasons for it."""

import re
from itertools import accumulate
from pathlib import Path
from typing import Any

from kernelblaster.errors import StoreError
from kernelblaster.knowledge.recipes import format_prediction
from kernelblaster.quantities import time_text
from kernelblaster.report.anchors import KnowledgeLinks, links_beside
from kernelblaster.report.chart import Chart, ChartAxis, ChartLine, LineChart, log_range
from kernelblaster.report.rendering import render_page
from kernelblaster.report.run.command import repeat_command
from kernelblaster.report.run.exchanges import exchanges_of
from kernelblaster.report.run.facts import device_of, facts_of
from kernelblaster.report.run.steps import StepDetail, StepRow, Tree, linked
from kernelblaster.report.run.verdict import baseline_name, has_ended, verdict_of
from kernelblaster.report.source import ShownSource, embedded_source
from kernelblaster.store.history import History
from kernelblaster.store.run import ReadableRun, Run


def run_page(folder: Path, beside: Path, made: str = "") -> str:
    """Returns the HTML page of the run in `folder`. `beside` is the folder that the page will be written to:
    if it has the page of the run's knowledge base, links lead there. `made` is a text on when or how the page
    was made."""
    with Run(folder, writing=False) as run:
        history = History(run)
        tree = Tree(run, history, exchanges_of(run.events))
        links = links_beside(beside, str(history.about.get("kb") or ""))
        return render_page(
            "run.html",
            title=history.task,
            made=made,
            run=run.name,
            ended=has_ended(history),
            modelled=history.modelled,
            device=device_of(run, history),
            verdict=verdict_of(history),
            facts=facts_of(run, history),
            command=repeat_command(history.about),
            resume=f"kernelblaster resume {run.name}",
            best=best_source(history),
            best_number=best_number(history),
            reference=reference_source(run),
            chart=progress_chart(history),
            steps=steps_with_details(tree, knowledge_name(history), links),
            others=tree.others,
            sources=sources_of(run, history),
            learned=learned_rows(history),
            knowledge=knowledge_name(history),
            links=links,
        )


def steps_with_details(tree: Tree, knowledge: str, links: KnowledgeLinks) -> list[tuple[StepRow, StepDetail]]:
    """Returns every line of a run's `tree` of steps, with the details that are shown when it is unfolded.
    `knowledge` is the name of the run's knowledge base, `links` lead to its page."""
    found = []
    for row in tree.rows:
        href = links.to(row.state, row.title) if row.state else ""
        found.append((row, linked(tree.detail(row.id), knowledge, href)))
    return found


def sources_of(run: ReadableRun, history: History) -> dict[str, str]:
    """Returns the sources of a run's candidates, by the names of the files that the run keeps them in, so
    that the page can show differences between them. Candidates whose file is lost are left out."""
    sources = {}
    for judged in history.judged:
        try:
            sources[judged.source] = run.files.get(judged.source)
        except StoreError:
            continue
    return sources


def progress_chart(history: History) -> Chart | None:
    """Returns the chart of a search: the time of every correct candidate in the order of judging, and the
    best so far; None if there are fewer than two."""
    timed = [(n, one) for n, one in enumerate(history.judged, 1) if one.speedup and one.verdict["timing"]]
    if len(timed) < 2:
        return None
    us = [(float(n), float(one.verdict["timing"]["candidate_us"])) for n, one in timed]
    best = list(zip((n for n, _ in us), accumulate((time for _, time in us), min), strict=True))
    timing = timed[0][1].verdict["timing"]
    limits = (float(timing["baseline_us"]), float(timing["floor_us"]))
    low, high = log_range([time for _, time in us], *sorted(limits))
    modelled = history.modelled
    how = "modelled" if modelled else "measured"
    tips = tuple(f"candidate {n:.0f}: {time_text(time, modelled)}" for n, time in us)
    return LineChart(
        name="progress",
        title="Time of each candidate",
        x=ChartAxis("candidate", 1.0, float(max(2, len(history.judged))), ticks=_ticks(len(history.judged))),
        y=ChartAxis(f"us, {how}", low, high, log=True, format="si"),
        lines=(
            ChartLine("best so far", tuple(best), "good", steps=True),
            ChartLine("candidate", tuple(us), "c1", dots=True, joined=False, tips=tips),
        ),
        levels=limits,
        caption=f"Dashed: {baseline_name(timed[0][1])} at {limits[0]:.4g} us, and the floor, below which no "
        f"implementation can be, at {limits[1]:.4g} us.",
    )


def _ticks(count: int) -> tuple[float, ...]:
    """About eight whole numbers from 1 to `count`, evenly spaced, to label an axis with."""
    every = max(1, -(-count // 8))
    return tuple(float(n) for n in range(1, max(2, count) + 1, every))


def best_source(history: History) -> ShownSource | None:
    """Returns the source of the run's best candidate, ready to be shown and downloaded; None if there is none
    or its file is missing."""
    best = history.best
    if best is None:
        return None
    try:
        text = history.source_of(best)
    except StoreError:
        return None
    name = re.sub(r"[^\w.-]", "_", Path(history.task).stem[:80])
    return embedded_source(f"{name}.cu", text, "cuda")


def best_number(history: History) -> int | None:
    """Returns the number of the best candidate, counted from 1 in the order of judging; None if none is
    correct."""
    codes = [judged.code for judged in history.judged]
    return codes.index(history.best.code) + 1 if history.best else None


def reference_source(run: ReadableRun) -> ShownSource | None:
    """The source of the task that was optimized, ready to be shown; None if the run did not keep it."""
    kept = next((event.data for event in run.events if event.kind == "task"), None)
    if kept is None:
        return None
    try:
        text = run.files.get(kept["source"])
    except StoreError:
        return None
    suffix = str(kept["suffix"])
    return embedded_source(f"task{suffix}", text, "cuda" if suffix == ".cu" else "python")


def _expected(technique: str, score: dict[str, Any] | None) -> str:
    """The speedup that the knowledge base expected of a technique, as text; `score` is its recorded
    prediction (JSON data), "unknown" for None."""
    if score is None:
        return "unknown"
    return format_prediction(technique, score["speedup"], modelled=score.get("modelled", False))


def learned_rows(history: History) -> list[dict[str, Any]]:
    """Returns what a run taught its knowledge base, as texts for the page: for each technique that was tried
    in a performance state, the speedup expected before and after the run, and the number of attempts."""
    techniques = (history.learned or {}).get("techniques", ())
    tried = [one for one in techniques if one["after"] and one["after"]["attempts"]]
    return [
        {
            "state": one["state"],
            "technique": one["technique"],
            "before": _expected(one["technique"], one["before"]),
            "after": _expected(one["technique"], one["after"]),
            "attempts": f"{one['after']['attempts']:g}",
        }
        for one in techniques
        if one in tried
    ]


def knowledge_name(history: History) -> str:
    """Returns the name of the run's knowledge base for display: the file's name, or that of the database,
    without folder, host and password."""
    return Path(str(history.about.get("kb") or "")).name.rpartition("@")[2]
