"""One HTML file that holds everything, works offline, and needs nothing from elsewhere.

Figures are drawn into it; tables are made by its script from the data in it. Each run lies in it as one
compressed text, which is unpacked when it is looked at: sources of one run are much alike, so thousands of
them take little room.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from kernelblaster.bench.tables import percent, times
from kernelblaster.quantities import kind_text
from kernelblaster.report.compare import compared_chart, compared_rows
from kernelblaster.report.contents import Contents, told
from kernelblaster.report.figures import named
from kernelblaster.report.svg import PAINT, drawn
from kernelblaster.report.trajectory import Detail

HERE = Path(__file__).parent
PARTS = {
    "summary": "Summary",
    "figures": "Figures",
    "tasks": "Tasks",
    "runs": "Trajectories",
    "used": "What was used",
    "learned": "Knowledge",
    "costs": "Costs",
}


def page_of(contents: Sequence[Contents], made: str = "") -> str:
    """The page of one or several subjects; `made` says when, or by which command."""
    subjects = []
    runs: list[str] = []
    for place, one in enumerate(contents):
        jobs = {job: number for number, job in enumerate(one.details)}
        subjects.append(told(one) | {"runs": jobs})
        runs += [_kept(place, jobs[job], detail) for job, detail in one.details.items()]
    title = " and ".join(one.title for one in contents)
    body = [_compared(contents) if len(contents) > 1 else ""]
    body += [_article(one, place) for place, one in enumerate(contents)]
    return framed(title, _lead(contents), _nav(contents), "".join(body), {"subjects": subjects}, runs, made)


def framed(
    title: str, lead: str, nav: str, body: str, data: dict[str, Any], kept: Sequence[str], made: str
) -> str:
    """A whole page: its head, its own style and script, its data."""
    style = (HERE / "page.css").read_text() + PAINT
    script = (HERE / "page.js").read_text()
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{style}</style></head><body>'
        f"<header><div><h1>{escape(title)}</h1><p class=lead>{lead}</p></div></header>"
        f"<nav><div>{nav}</div></nav><main>{body}</main>"
        f"<footer>Made by KernelBlaster{escape(made and ' ' + made)}.</footer>"
        f'<script type="application/json" id="data">{_json(data)}</script>{"".join(kept)}'
        f"<script>{script}</script></body></html>\n"
    )


def _lead(contents: Sequence[Contents]) -> str:
    one = contents[0]
    subject = one.subject
    how = "times modelled, not measured" if subject.modelled else "times measured"
    devices = ", ".join(sorted({other.subject.device for other in contents}))
    suites = ", ".join(sorted({suite for other in contents for suite in other.subject.plan.suites}))
    return escape(f"{suites} on {devices}; {how}.")


def _nav(contents: Sequence[Contents]) -> str:
    links = "".join(
        f'<a data-part="{part}" href="#s0-{part}-part">{title}</a>' for part, title in PARTS.items()
    )
    if len(contents) < 2:
        return links
    chosen = "".join(
        f'<button type="button" data-subject="{place}" aria-pressed="false">{escape(one.title)}</button>'
        for place, one in enumerate(contents)
    )
    return f"{chosen}<span></span>{links}"


def _article(one: Contents, place: int) -> str:
    figures = "".join(
        f'<figure class="card"><h3>{escape(chart.title)}</h3>{drawn(chart)}'
        f"<figcaption>{escape(chart.caption)}</figcaption></figure>"
        for chart in one.charts
    )
    note = (
        "Average to max are over the valid tasks. Shares are of all tasks: one that failed, is unfit or is "
        "not covered is in every denominator. Kept: the geometric mean where such a task keeps its baseline."
    )
    chosen = (
        f'<div class="card"><div class="controls"><select id="s{place}-choice" aria-label="run">'
        "</select></div>"
        f'<div id="s{place}-tree"></div></div>'
        if one.details
        else "<p class=note>There are no runs to look at.</p>"
    )
    learned = "" if one.learned else "<p class=note>Nothing was learned.</p>"
    host = f'<div class="card" id="s{place}-{{}}"></div>'
    pace = f"<p class=note>{escape(one.subject.pace)}</p>" if one.subject.pace else ""
    return (
        f'<article id="s{place}"{" hidden" if place else ""}>{_tiles(one)}'
        + _section("summary", place, f"{host.format('summary')}<p class=note>{note}</p>")
        + _section("figures", place, f'<div class="figures">{figures}</div>')
        + _section("tasks", place, host.format("tasks"))
        + _section("runs", place, chosen)
        + _section("used", place, f'<div id="s{place}-used"></div>')
        + _section("learned", place, learned or host.format("learned"))
        + _section("costs", place, host.format("costs") + pace)
        + f"<section><h2>Settings</h2><div class=card><dl>{_settings(one)}</dl></div></section></article>"
    )


def _section(part: str, place: int, inside: str) -> str:
    return f'<section id="s{place}-{part}-part"><h2>{PARTS[part]}</h2>{inside}</section>'


def _tiles(one: Contents) -> str:
    found = one.headline
    kind = kind_text(one.subject.modelled)
    tiles = [(percent(found.valid_rate), f"valid: {found.valid} of {found.tasks} tasks")]
    if one.overall:
        mean = one.overall
        words = f"against {named(one.main)}, geometric mean{kind} ({mean.low:.2f} to {mean.high:.2f})"
        tiles.append((times(mean.estimate), words))
    slow = {row.result.task for row in one.subject.rows if not row.faster(one.main)}
    share = 1 - len(slow) / found.tasks if found.tasks else None
    tiles.append((percent(share), f"of all tasks judged faster than {named(one.main)}"))
    if one.gained:
        tiles.append((times(one.gained.estimate), f"over the first CUDA candidate, geometric mean{kind}"))
    if one.light:
        tiles.append((percent(one.light[1]), "of the speed of light at the median"))
    cost = one.costs[-1].cost
    tiles.append((f"{cost.evaluations:,}", f"candidates judged, {cost.device_seconds:,.0f} s on the device"))
    shown = "".join(
        f'<div class="card tile"><b>{escape(number)}</b><span>{escape(words)}</span></div>'
        for number, words in tiles
    )
    return f'<div class="tiles">{shown}</div>'


def _settings(one: Contents) -> str:
    settings = told(one)["settings"]
    return "".join(f"<dt>{escape(str(k))}</dt><dd>{escape(str(v))}</dd>" for k, v in settings.items())


def _compared(contents: Sequence[Contents]) -> str:
    chart = compared_chart(contents)
    head, rows = compared_rows(contents)
    cells = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    figure = (
        f'<figure class="card"><h3>{escape(chart.title)}</h3>{drawn(chart)}'
        f"<figcaption>{escape(chart.caption)}</figcaption></figure>"
        if chart
        else ""
    )
    table = (
        f'<div class="card scroll"><table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table></div>'
    )
    return f'<section id="compared"><h2>Side by side</h2><div class="pair">{table}{figure}</div></section>'


def _kept(place: int, number: int, detail: Detail) -> str:
    packed = zlib.compress(json.dumps(detail.page, separators=(",", ":")).encode(), 6)
    text = base64.b64encode(packed).decode()
    return f'<script type="text/plain" id="run-{place}-{number}">{text}</script>'


def _json(data: dict[str, Any]) -> str:
    """As the content of a script element: what could end it is written otherwise."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
