"""The HTML page of a bench, or of several subjects compared: one self-contained file.

Figures are inline SVG. Each run is embedded compressed, with its steps as HTML and its sources, and unpacked
when the reader opens it. The sources of a run are similar, so thousands compress well.
"""

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from kernelblaster.quantities import kind_text, percent, times
from kernelblaster.report.bench_tables import (
    cost_table,
    learned_table,
    summary_table,
    task_table,
    used_tables,
)
from kernelblaster.report.compare import comparison_chart, comparison_table
from kernelblaster.report.contents import Contents, settings_of
from kernelblaster.report.figures import named
from kernelblaster.report.rendering import render_page
from kernelblaster.report.trajectory import Detail

PARTS = {
    "summary": "Summary",
    "figures": "Figures",
    "tasks": "Tasks",
    "runs": "Trajectories",
    "used": "What was used",
    "learned": "Knowledge",
    "costs": "Costs",
}


def bench_page(contents: Sequence[Contents], made: str = "") -> str:
    """Returns the HTML page of a report on one bench (or group of runs), or on several side by side; `made`
    is a text on when or how it was made."""
    runs: list[tuple[str, str]] = []
    for index, one in enumerate(contents):
        numbered = enumerate(one.details.values())
        runs += [(f"run-{index}-{number}", _packed(detail, one)) for number, detail in numbered]
    return render_page(
        "bench.html",
        title=" and ".join(one.title for one in contents),
        made=made,
        lead=_lead(contents),
        parts=PARTS,
        contents=[_article(one) for one in contents],
        compared=_compared(contents) if len(contents) > 1 else None,
        kept=runs,
    )


def _lead(contents: Sequence[Contents]) -> str:
    """One sentence for below the title: which suites on which devices, and whether times were measured or
    modelled."""
    one = contents[0]
    how = "times modelled, not measured" if one.subject.modelled else "times measured"
    devices = ", ".join(sorted({other.subject.device for other in contents}))
    suites = ", ".join(sorted({suite for other in contents for suite in other.subject.plan.suites}))
    return f"{suites} on {devices}; {how}."


def _article(one: Contents) -> dict[str, Any]:
    """One bench (or group of runs) prepared for the HTML template: figures, tables and settings, by the names
    that the template uses."""
    return {
        "title": one.title,
        "modelled": one.subject.modelled,
        "unfinished": _unfinished(one),
        "has_ended": any(row.result.status != "unfinished" for row in one.subject.rows),
        "tiles": list(_tiles(one)),
        "charts": one.charts,
        "summary": summary_table(one),
        "tasks": task_table(one),
        "runs": _run_choices(one),
        "opened": _opened(one),
        "used": used_tables(one),
        "visited": one.usage.as_dict()["states_a_task"],
        "learned": learned_table(one) if one.learned else None,
        "costs": cost_table(one),
        "pace": one.subject.pace,
        "settings": settings_of(one).items(),
    }


def _unfinished(one: Contents) -> str:
    """One sentence on how many of the searches have ended, for a bench that is not finished; empty if all
    have."""
    rows = one.subject.rows
    ended = sum(row.result.status != "unfinished" for row in rows)
    if ended == len(rows):
        return ""
    return f"{ended} of {len(rows)} searches have ended" + ("; all figures are of these." if ended else ".")


def _tiles(one: Contents) -> Iterator[tuple[str, str]]:
    """Yields the numbers shown large at the top of the page, each as (number, caption), from the searches
    that have ended."""
    kind, rows = kind_text(one.subject.modelled), one.subject.rows
    tasks = {row.result.task for row in rows}
    ended = tasks - {row.result.task for row in rows if row.result.status == "unfinished"}
    if ended:
        valid = ended - {row.result.task for row in rows if row.speedup(one.main) is None}
        yield percent(len(valid) / len(ended)), f"valid: {len(valid)} of {len(ended)} tasks"
    if one.overall:
        mean = one.overall
        words = f"against {named(one.main)}, geometric mean{kind} ({mean.low:.2f} to {mean.high:.2f})"
        yield times(mean.estimate), words
    if ended:
        faster = ended - {row.result.task for row in rows if not row.faster(one.main)}
        which = "all" if ended == tasks else "these"
        yield percent(len(faster) / len(ended)), f"of {which} tasks judged faster than {named(one.main)}"
    if one.gained:
        yield times(one.gained.estimate), f"over the first CUDA candidate, geometric mean{kind}"
    if one.light:
        yield percent(one.light[1]), "of the speed of light at the median"
    cost = one.costs[-1].cost
    yield f"{cost.evaluations:,}", f"candidates judged, {cost.device_seconds:,.0f} s on the device"


def _run_choices(one: Contents) -> list[tuple[str, str]]:
    """The runs of the bench that can be opened on its page, each as (its job's key, the text in the list of
    choices), in the order in which they are embedded."""
    rows = {row.result.job: row for row in one.subject.rows}
    choices = []
    for job in one.details:
        row = rows[job]
        seed = f" #{row.result.seed}" if row.result.seed else ""
        choices.append((job, f"{row.result.task}{seed}, {times(row.speedup(one.main)) or row.result.status}"))
    return choices


def _opened(one: Contents) -> tuple[str, Markup] | None:
    """The run that the page shows at first, the one with the largest speedup: its job's key, and its steps as
    HTML; None if there is no run."""
    rows = [row for row in one.subject.rows if row.result.job in one.details]
    if not rows:
        return None
    best = max(rows, key=lambda row: row.speedup(one.main) or 0.0)
    return best.result.job, _steps(one.details[best.result.job], one)


def _compared(contents: Sequence[Contents]) -> dict[str, Any]:
    """The comparison of several benches prepared for the HTML template: its table and its figure, by the
    names that the template uses."""
    return {"table": comparison_table(contents), "chart": comparison_chart(contents)}


def _steps(detail: Detail, one: Contents) -> Markup:
    """A run's tree of steps as HTML: what was tried on which candidate, and what came of it. `one` is the
    bench that the run belongs to."""
    reasons = (detail.learned or {}).get("reasons", ())
    return Markup(
        render_page("run_steps.html", detail=detail, reasons=reasons, modelled=one.subject.modelled)
    )


def _packed(detail: Detail, one: Contents) -> str:
    """A run's steps (as HTML) and sources, compressed: JSON, deflated, in base64. The page's script unpacks
    it when a reader opens the run."""
    data = {"html": _steps(detail, one), "sources": detail.sources}
    packed = zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 6)
    return base64.b64encode(packed).decode()
