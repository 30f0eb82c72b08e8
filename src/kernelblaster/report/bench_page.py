"""The HTML page of a bench, or of several subjects compared: one self-contained file.

Figures are inline SVG; tables are built by the page's script from embedded data. Each run is embedded as
compressed JSON and unpacked when it is opened: the sources of a run are similar, so thousands compress well.
"""

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from kernelblaster.bench.tables import percent, times
from kernelblaster.quantities import kind_text
from kernelblaster.report.compare import comparison_chart, comparison_rows
from kernelblaster.report.contents import Contents, summary_dict
from kernelblaster.report.figures import named
from kernelblaster.report.rendering import render_page
from kernelblaster.report.step_tree import step_tree
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
    """The page of one subject (a bench or a group of runs), or of several side by side; `made` says when or
    how it was made."""
    subjects = []
    runs: list[tuple[str, str]] = []
    for index, one in enumerate(contents):
        jobs = {job: number for number, job in enumerate(one.details)}
        subjects.append(summary_dict(one) | {"runs": jobs})
        runs += [(f"run-{index}-{jobs[job]}", _packed(detail)) for job, detail in one.details.items()]
    return render_page(
        "bench.html",
        title=" and ".join(one.title for one in contents),
        made=made,
        lead=_lead(contents),
        parts=PARTS,
        contents=[
            _article(one, subject["settings"]) for one, subject in zip(contents, subjects, strict=True)
        ],
        compared=_compared(contents) if len(contents) > 1 else None,
        subjects=subjects,
        kept=runs,
    )


def _lead(contents: Sequence[Contents]) -> str:
    """The sentence below the title: suites, devices, and whether times are modelled or measured."""
    one = contents[0]
    how = "times modelled, not measured" if one.subject.modelled else "times measured"
    devices = ", ".join(sorted({other.subject.device for other in contents}))
    suites = ", ".join(sorted({suite for other in contents for suite in other.subject.plan.suites}))
    return f"{suites} on {devices}; {how}."


def _article(one: Contents, settings: dict[str, Any]) -> dict[str, Any]:
    """A subject's part of the page, by the names that the template uses; `settings` are shown as a table."""
    return {
        "title": one.title,
        "modelled": one.subject.modelled,
        "unfinished": _unfinished(one),
        "has_ended": any(row.result.status != "unfinished" for row in one.subject.rows),
        "tiles": list(_tiles(one)),
        "charts": one.charts,
        "has_runs": bool(one.details),
        "opened": _opened(one),
        "has_learned": bool(one.learned),
        "pace": one.subject.pace,
        "settings": settings,
    }


def _unfinished(one: Contents) -> str:
    """How many searches have ended; empty if all have."""
    rows = one.subject.rows
    ended = sum(row.result.status != "unfinished" for row in rows)
    if ended == len(rows):
        return ""
    return f"{ended} of {len(rows)} searches have ended" + ("; all figures are of these." if ended else ".")


def _tiles(one: Contents) -> Iterator[tuple[str, str]]:
    """The headline numbers, each as (number, caption), from the searches that have ended."""
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


def _opened(one: Contents) -> dict[str, Any] | None:
    """The run that the page shows at first, that of the largest speedup: its task, its tree and its number of
    steps; None if there is none. The page's script opens the same one, and others on request."""
    rows = [row for row in one.subject.rows if row.result.job in one.details]
    if not rows:
        return None
    row = max(rows, key=lambda row: row.speedup(one.main) or 0.0)
    detail = one.details[row.result.job]
    return {
        "task": row.result.task,
        "tree": step_tree(detail, modelled=one.subject.modelled),
        "steps": len(detail.steps),
    }


def _compared(contents: Sequence[Contents]) -> dict[str, Any]:
    """The comparison of several subjects: table and figure, by the names that the template uses."""
    head, rows = comparison_rows(contents)
    return {"head": head, "rows": rows, "chart": comparison_chart(contents)}


def _packed(detail: Detail) -> str:
    """A run's details as compressed JSON in base64, which the page's script unpacks."""
    packed = zlib.compress(json.dumps(detail.page, separators=(",", ":")).encode(), 6)
    return base64.b64encode(packed).decode()
