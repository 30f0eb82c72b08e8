"""A knowledge base as a page that a person can read: what was seen in which state, and how sure it is."""

from collections.abc import Sequence
from html import escape
from math import exp, log, sqrt, tau
from pathlib import Path

from kernelblaster.bench.tables import percent, times
from kernelblaster.knowledge.content import Content, OptimizationEntry, StateEntry
from kernelblaster.knowledge.differences import score
from kernelblaster.knowledge.events import Event, Observed, OptimizationAdded, StateAdded, effective
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.recipes import is_recipe, told
from kernelblaster.knowledge.summary import summarize
from kernelblaster.knowledge.tally import total
from kernelblaster.report.chart import TONES, Axis, Chart, Line, Lines, Stack
from kernelblaster.report.page import framed
from kernelblaster.report.svg import drawn

NOTES_SHOWN = 3
LOW, HIGH = log(0.4), log(6.0)  # of the small plots, in log speedup
COLUMNS = (
    ("technique", ""),
    ("expected", "number"),
    ("", ""),
    ("valid", "number"),
    ("attempts", "number"),
    ("where", ""),
    ("what was noted", ""),
)
POINTS = 250  # of the curves over time


def knowledge_page(knowledge: KnowledgeBase, made: str = "") -> str:
    """The page of a knowledge base as it is now."""
    content, events = knowledge.content(), effective(knowledge.log())
    states = sorted(content.living, key=lambda entry: (-_attempts(content, entry), entry.state.name))
    visited = [_state(content, entry) for entry in states if _attempts(content, entry)]
    others = [_state(content, entry) for entry in states if not _attempts(content, entry)]
    charts = [chart for chart in (growth_chart(events), used_chart(content)) if chart is not None]
    figures = "".join(
        f'<figure class="card"><h3>{escape(chart.title)}</h3>{drawn(chart)}'
        f"<figcaption>{escape(chart.caption)}</figcaption></figure>"
        for chart in charts
    )
    nav = '<a href="#growth">Growth</a><a href="#payoffs">What prepares what</a><a href="#states">States</a>'
    body = (
        f'{_tiles(content)}<section id="growth"><h2>Growth</h2><div class="figures">{figures}</div></section>'
        f'<section id="payoffs"><h2>What prepares what</h2>{_payoffs(content)}</section>'
        f'<section id="states"><h2>States</h2>{_legend()}{"".join(visited)}'
        f"{_folded(f'{len(others)} states that no kernel was in yet', ''.join(others))}</section>"
    )
    return framed(Path(knowledge.name).stem, _lead(content, events), nav, body, {}, (), made)


def growth_chart(events: Sequence[Event]) -> Chart | None:
    """Attempts, techniques and states by the number of events."""
    counts = {"attempts": 0, "techniques in states": 0, "states": 0}
    points: dict[str, list[tuple[float, float]]] = {name: [] for name in counts}
    every = max(1, len(events) // POINTS)
    for place, event in enumerate(events, 1):
        match event.change:
            case Observed():
                counts["attempts"] += 1
            case OptimizationAdded():
                counts["techniques in states"] += 1
            case StateAdded():
                counts["states"] += 1
        if place % every == 0 or place == len(events):
            for name, count in counts.items():
                points[name].append((float(place), float(count)))
    if not events:
        return None
    most = max(counts.values()) or 1
    lines = [Line(name, tuple(points[name]), tone) for name, tone in zip(counts, TONES, strict=False)]
    since, until = events[0].time, events[-1].time
    return Lines(
        name="growth",
        title="Growth",
        x=Axis("changes", 0.0, float(len(events)), format="si"),
        y=Axis("known", 0.0, most * 1.08, format="si"),
        lines=tuple(lines),
        caption=f"From {since:%Y-%m-%d} to {until:%Y-%m-%d}; what was taken back does not count.",
    )


def used_chart(content: Content) -> Chart | None:
    """Attempts by technique over all states."""
    seen: dict[str, list[float]] = {}
    for state in content.living:
        for entry in content.entries.get(state.state.name, {}).values():
            tally = entry.evidence.total
            counts = seen.setdefault(entry.technique, [0.0, 0.0])
            counts[0] += tally.seen
            counts[1] += tally.failed
    most = sorted(((n, c) for n, c in seen.items() if sum(c)), key=lambda item: -sum(item[1]))[:20]
    if not most:
        return None
    return Stack(
        name="attempts",
        title="Attempts by technique",
        label="attempts",
        kinds=(("valid", "c1"), ("failed", "bad")),
        rows=tuple((name, tuple(counts)) for name, counts in most),
    )


def _lead(content: Content, events: Sequence[Event]) -> str:
    runs = {event.provenance.run for event in events if event.provenance.run}
    gpus = sorted({event.provenance.gpu for event in events if event.provenance.gpu})
    where = f" on {', '.join(gpus)}" if gpus else ""
    return escape(f"Version {content.version}: what {len(runs)} runs{where} taught.")


def _tiles(content: Content) -> str:
    found = summarize(content)
    failed = sum(found.failures.values())
    tiles = [
        (f"{found.states}", f"states, {found.discovered} of them discovered"),
        (f"{found.optimizations}", f"techniques in states, {found.untried} untried, {found.retired} retired"),
        (f"{found.attempts:,.0f}", "attempts" + _listed(found.evidence)),
        (percent(failed / found.attempts) if found.attempts else "0%", "failed" + _listed(found.failures)),
    ]
    shown = "".join(
        f'<div class="card tile"><b>{escape(number)}</b><span>{escape(words)}</span></div>'
        for number, words in tiles
    )
    return f'<div class="tiles">{shown}</div>'


def _payoffs(content: Content) -> str:
    found = summarize(content, payoffs=12).payoffs
    if not found:
        return "<p class=note>No technique was tried often enough after another.</p>"
    rows = "".join(
        f"<tr><td>{escape(p.after)}</td><td>{escape(p.technique)}</td>"
        f"<td class=number><b>{times(p.speedup)}</b></td>"
        f"<td class=number>{times(p.speedup_without) or 'never tried'}</td>"
        f"<td class=number>{p.count:g}</td><td>{escape(p.state)}</td></tr>"
        for p in found
    )
    head = "<th>after</th><th>technique</th><th class=number>speedup</th><th class=number>without</th>"
    head += "<th class=number>seen</th><th>in state</th>"
    return (
        f'<div class="card scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _state(content: Content, entry: StateEntry) -> str:
    state = entry.state
    entries = content.entries.get(state.name, {}).values()
    order = sorted(
        entries, key=lambda e: (-e.evidence.total.attempts, e.retired is not None, -e.prediction(None).gain)
    )
    tried = sum(one.evidence.total.attempts > 0 for one in order)
    rows = [_technique(one) for one in order]
    shown = tried or len(rows)
    body = _table(rows[:shown]) + _folded(f"{len(rows) - shown} untried", _table(rows[shown:]))
    tags = "".join(f'<span class="tag">{escape(tag)}</span>' for tag in (state.primary, *state.secondary))
    found = '<span class="tag idle">discovered</span>' if entry.discovered else ""
    metrics = ", ".join(f"{escape(name)} {value:.3g}" for name, value in sorted(state.metrics.items()))
    described = f"<p class=note>{escape(state.description)}</p>" if state.description else ""
    recognized = f"<p class=note>recognized by {metrics}</p>" if metrics else ""
    return (
        f'<div class="card state" id="{_anchor(entry)}"><header><h3>{escape(state.name)}</h3>{tags}{found}'
        f"</header>{described}{recognized}{_notes(entry.notes)}{body}</div>"
    )


def _folded(title: str, inside: str) -> str:
    """What a reader may want to see, but not at once."""
    if title.startswith("0 "):
        return ""
    return f"<details><summary class=note>{escape(title)}</summary>{inside}</details>"


def _table(rows: Sequence[str]) -> str:
    if not rows:
        return "<p class=note>No technique is known here.</p>"
    head = "".join(f'<th class="{kind}">{title}</th>' for title, kind in COLUMNS)
    inside = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<div class="scroll"><table>{inside}</table></div>'


def _technique(entry: OptimizationEntry) -> str:
    found = score(entry)
    recipe = is_recipe(entry.technique)
    slower = "" if recipe else "slower"
    tone = "faster" if found.speedup > 1.005 else slower if found.speedup < 0.995 else ""
    value = told(entry.technique, found.speedup) if recipe else times(found.speedup)
    name = escape(entry.technique).replace("_", "_<wbr>")
    tip = f' data-tip="{escape(entry.description, quote=True)}"' if entry.description else ""
    retired = f'<br><span class="tag bad">retired: {escape(entry.retired)}</span>' if entry.retired else ""
    where = ", ".join(
        f"{architecture} {times(exp(tally.mean)) if tally.seen else 'failed'}"
        for architecture, tally in sorted(entry.evidence.by_architecture.items())
    )
    failures = "".join(f", {kind} {count:g}" for kind, count in sorted(entry.evidence.failures.items()))
    return (
        f'<tr><td class="name"><span{tip}>{name}</span>{retired}</td>'
        f'<td class="number"><b class="{tone}">{value}</b></td><td>{"" if recipe else _posterior(entry)}</td>'
        f'<td class="number">{percent(found.valid_chance)}</td><td class="number">{found.attempts:g}</td>'
        f'<td class="techniques">{escape(where + failures)}{_prepared(entry)}</td>'
        f'<td class="wide">{_notes(entry.notes[-NOTES_SHOWN:])}</td></tr>'
    )


def _prepared(entry: OptimizationEntry) -> str:
    """With and without the technique that decides whether this one pays."""
    preparation = entry.evidence.preparation
    if preparation is None:
        return ""
    with_, without = (total(side.by_architecture.values()) for side in entry.evidence.sides[::-1])
    after, alone = (times(exp(t.mean)) if t.seen else "never valid" for t in (with_, without))
    return f"<br>after {escape(preparation)} {after}, without {alone}"


def _posterior(entry: OptimizationEntry) -> str:
    """The belief about the speedup as a small curve; the prior is the thin one, and 1x the upright line."""
    prediction = entry.prediction(None)
    before = entry.untried().prediction(None)
    tone = "good" if prediction.mean > 0 else "bad"
    parts = [f'<path class="grid" d="M{_x(0.0):.1f} 2V25"/>']
    if entry.evidence.total.attempts:
        parts.append(f'<path class="mark" d="{_bell(before.mean, before.spread)}"/>')
    curve = _bell(prediction.mean, prediction.spread)
    parts.append(f'<path class="band f-{tone}" d="{curve}V25H0Z"/>')
    parts.append(f'<path class="line s-{tone}" d="{curve}"/>')
    low, high = prediction.interval
    tip = f"{times(prediction.speedup)}, likely {times(low)} to {times(high)}; before {times(before.speedup)}"
    return f'<svg class="spark" viewBox="0 0 130 26" data-tip="{tip}">{"".join(parts)}</svg>'


def _bell(mean: float, spread: float) -> str:
    """A normal density, scaled so that what is certain is high and narrow but stays inside."""
    peak = min(21.0, 6.0 / (spread * sqrt(tau)))
    mean = min(HIGH - 0.06, max(LOW + 0.06, mean))  # what lies outside is drawn at the edge
    points = []
    for place in range(53):
        at = LOW + (HIGH - LOW) * place / 52
        height = peak * exp(-0.5 * ((at - mean) / spread) ** 2)
        points.append(f"{_x(at):.1f} {25 - height:.1f}")
    return "M" + "L".join(points)


def _x(value: float) -> float:
    return 130 * (min(HIGH, max(LOW, value)) - LOW) / (HIGH - LOW)


def _legend() -> str:
    return (
        '<p class="note">The curves are beliefs about the speedup from 0.4x to 6x: the filled one as it is, '
        "the dashed one before the first attempt; the upright line is 1x. Expected and valid are over all "
        "architectures; searches shrink towards the one at hand.</p>"
    )


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    return '<ul class="notes">' + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>"


def _listed(counts: dict[str, float]) -> str:
    most = sorted(counts.items(), key=lambda pair: -pair[1])[:3]
    return f" ({', '.join(f'{name} {count:g}' for name, count in most)})" if most else ""


def _attempts(content: Content, entry: StateEntry) -> float:
    rows = content.entries.get(entry.state.name, {}).values()
    return sum(row.evidence.total.attempts for row in rows)


def _anchor(entry: StateEntry) -> str:
    return "state-" + escape(entry.state.name, quote=True).replace(" ", "-")
