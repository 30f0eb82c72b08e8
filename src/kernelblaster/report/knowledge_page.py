"""The HTML page of a knowledge base: what was tried in which state, with what result, and how certain that
is."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt, tau
from pathlib import Path

from kernelblaster.bench.tables import percent, times
from kernelblaster.knowledge.content import Content, OptimizationEntry, StateEntry
from kernelblaster.knowledge.differences import score
from kernelblaster.knowledge.events import (
    KnowledgeEvent,
    Observed,
    OptimizationAdded,
    Provenance,
    StateAdded,
    effective,
)
from kernelblaster.knowledge.evidence import MODELLED
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.recipes import format_prediction
from kernelblaster.knowledge.summary import summarize
from kernelblaster.knowledge.tally import total
from kernelblaster.records.recipe import is_recipe
from kernelblaster.report.anchors import anchor
from kernelblaster.report.chart import TONES, Chart, ChartAxis, ChartLine, LineChart, Stack
from kernelblaster.report.rendering import render_page

NOTES_SHOWN = 3
LOW, HIGH = log(0.4), log(6.0)  # of the small plots, in log speedup
POINTS = 250  # of the curves over time


@dataclass(frozen=True)
class Curve:
    """A small plot of the predicted distribution of a speedup, as SVG paths: `now`, `before` the first
    attempt (empty if there was none), and a vertical line at 1x (`one`). `tone` is a CSS class, `tip` the
    tooltip."""

    now: str
    before: str
    one: str
    tone: str
    tip: str


@dataclass(frozen=True)
class TechniqueRow:
    """The table row of a technique in a state, as text for the page. `name` is split at underscores, where a
    line may break; `modelled`: nothing behind `expected` was measured; `valid` is the chance (0 to 1) that an
    attempt is valid; `where` is the result on each architecture with the failures; `prepared` the speedup
    with and without a preceding technique; `retired` why it is no longer tried, empty if it is."""

    anchor: str
    name: list[str]
    description: str
    retired: str
    expected: str
    modelled: bool
    tone: str
    curve: Curve | None
    valid: float
    attempts: str
    where: str
    prepared: str
    notes: Sequence[str]


@dataclass(frozen=True)
class StateCard:
    """A state's part of the page. `discovered`: found by a search, not shipped. `untried` techniques are
    collapsed; if none was tried, all are in `tried`."""

    anchor: str
    name: str
    tags: Sequence[str]
    discovered: bool
    description: str
    metrics: str
    notes: Sequence[str]
    tried: list[TechniqueRow]
    untried: list[TechniqueRow]


def knowledge_page(knowledge: KnowledgeBase, made: str = "") -> str:
    """The page of the knowledge base as it is now; `made` says when or how it was made."""
    content, events = knowledge.content(), effective(knowledge.log())
    states = sorted(content.living, key=lambda entry: (-_attempts(content, entry), entry.state.name))
    return render_page(
        "knowledge.html",
        title=Path(knowledge.name).stem,
        made=made,
        lead=_lead(content, events),
        tiles=_tiles(content),
        charts=[chart for chart in (growth_chart(events), used_chart(content)) if chart is not None],
        payoffs=summarize(content, payoffs=12).payoffs,
        visited=[_state(content, entry) for entry in states if _attempts(content, entry)],
        others=[_state(content, entry) for entry in states if not _attempts(content, entry)],
    )


def growth_chart(events: Sequence[KnowledgeEvent]) -> Chart | None:
    """Numbers of attempts, techniques and states over the events; None without events."""
    counts = {"attempts": 0, "techniques in states": 0, "states": 0}
    points: dict[str, list[tuple[float, float]]] = {name: [] for name in counts}
    every = max(1, len(events) // POINTS)
    for number, event in enumerate(events, 1):
        match event.change:
            case Observed():
                counts["attempts"] += 1
            case OptimizationAdded():
                counts["techniques in states"] += 1
            case StateAdded():
                counts["states"] += 1
        if number % every == 0 or number == len(events):
            for name, count in counts.items():
                points[name].append((float(number), float(count)))
    if not events:
        return None
    most = max(counts.values()) or 1
    lines = [ChartLine(name, tuple(points[name]), tone) for name, tone in zip(counts, TONES, strict=False)]
    since, until = events[0].time, events[-1].time
    return LineChart(
        name="growth",
        title="Growth",
        x=ChartAxis("changes", 0.0, float(len(events)), format="si"),
        y=ChartAxis("known", 0.0, most * 1.08, format="si"),
        lines=tuple(lines),
        caption=f"From {since:%Y-%m-%d} to {until:%Y-%m-%d}; what was taken back does not count.",
    )


def used_chart(content: Content) -> Chart | None:
    """Attempts by technique over all states, valid and failed, of the 20 most tried; None if there are
    none."""
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


def _lead(content: Content, events: Sequence[KnowledgeEvent]) -> str:
    """The sentence below the title: version, number of runs, GPUs."""
    runs = {event.provenance.run for event in events if event.provenance.run}
    gpus = sorted({_gpu(event.provenance) for event in events if event.provenance.gpu})
    where = f" on {', '.join(gpus)}" if gpus else ""
    many = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    return f"Version {content.version}: what {many}{where} taught."


def _gpu(provenance: Provenance) -> str:
    """The name of the GPU that a change comes from, marked if it was modelled."""
    return f"{provenance.gpu}{MODELLED if (provenance.architecture or '').endswith(MODELLED) else ''}"


def _tiles(content: Content) -> list[tuple[str, str]]:
    """The headline numbers, each as (number, caption)."""
    known = summarize(content)
    failed = sum(known.failures.values())
    return [
        (f"{known.states}", f"states, {known.discovered} of them discovered"),
        (
            f"{known.optimizations}",
            f"techniques in states, {known.untried} untried, {known.retired} retired",
        ),
        (f"{known.attempts:,.0f}", "attempts" + _listed(known.evidence)),
        (
            percent(failed / known.attempts) if known.attempts else "0%",
            "failed" + _listed(known.failures),
        ),
    ]


def _state(content: Content, entry: StateEntry) -> StateCard:
    """The card of a state, its techniques ordered by attempts."""
    state = entry.state
    entries = content.entries.get(state.name, {}).values()
    order = sorted(
        entries, key=lambda e: (-e.evidence.total.attempts, e.retired is not None, -e.prediction(None).gain)
    )
    tried = sum(one.evidence.total.attempts > 0 for one in order)
    rows = [_technique(state.name, one) for one in order]
    shown = tried or len(rows)
    return StateCard(
        anchor=anchor(state.name),
        name=state.name,
        tags=(state.primary, *state.secondary),
        discovered=entry.discovered,
        description=state.description,
        metrics=", ".join(f"{name} {value:.3g}" for name, value in sorted(state.metrics.items())),
        notes=entry.notes,
        tried=rows[:shown],
        untried=rows[shown:],
    )


def _technique(state: str, entry: OptimizationEntry) -> TechniqueRow:
    """The row of a technique in the state named `state`."""
    scored = score(entry)
    recipe = is_recipe(entry.technique)
    slower = "" if recipe else "slower"
    where = ", ".join(
        f"{architecture} {times(exp(tally.mean)) if tally.seen else 'failed'}"
        for architecture, tally in sorted(entry.evidence.by_architecture.items())
    )
    failures = "".join(f", {kind} {count:g}" for kind, count in sorted(entry.evidence.failures.items()))
    return TechniqueRow(
        anchor=anchor(state, entry.technique),
        name=entry.technique.split("_"),
        description=entry.description,
        retired=entry.retired or "",
        expected=format_prediction(entry.technique, scored.speedup) if recipe else times(scored.speedup),
        modelled=scored.modelled,
        tone="faster" if scored.speedup > 1.005 else slower if scored.speedup < 0.995 else "",
        curve=None if recipe else _posterior(entry),
        valid=scored.valid_chance,
        attempts=entry.evidence.clocks or "none",
        where=where + failures,
        prepared=_prepared(entry),
        notes=entry.notes[-NOTES_SHOWN:],
    )


def _prepared(entry: OptimizationEntry) -> str:
    """The observed speedup with and without the preceding technique on which this one depends, as text; empty
    if it depends on none."""
    evidence = entry.evidence.of_one_clock
    preparation = evidence.preparation
    if preparation is None:
        return ""
    with_, without = (total(side.by_architecture.values()) for side in evidence.sides[::-1])
    after, alone = (times(exp(t.mean)) if t.seen else "never valid" for t in (with_, without))
    clock = ", modelled" if evidence.modelled else ""
    return f"after {preparation} {after}, without {alone}{clock}"


def _posterior(entry: OptimizationEntry) -> Curve:
    """The plot of what is predicted for a technique now and was before the first attempt."""
    prediction = entry.prediction(None)
    before = entry.untried().prediction(None)
    low, high = prediction.interval
    return Curve(
        now=_bell(prediction.mean, prediction.spread),
        before=_bell(before.mean, before.spread) if entry.evidence.total.attempts else "",
        one=f"M{_x(0.0):.1f} 2V25",
        tone="good" if prediction.mean > 0 else "bad",
        tip=f"{times(prediction.speedup)}, likely {times(low)} to {times(high)}; "
        f"before {times(before.speedup)}",
    )


def _bell(mean: float, spread: float) -> str:
    """The SVG path of a normal density over log speedups with this mean and standard deviation, scaled to the
    small plot: the more certain, the higher and narrower."""
    peak = min(21.0, 6.0 / (spread * sqrt(tau)))
    mean = min(HIGH - 0.06, max(LOW + 0.06, mean))  # what lies outside is drawn at the edge
    points = []
    for index in range(53):
        at = LOW + (HIGH - LOW) * index / 52
        height = peak * exp(-0.5 * ((at - mean) / spread) ** 2)
        points.append(f"{_x(at):.1f} {25 - height:.1f}")
    return "M" + "L".join(points)


def _x(value: float) -> float:
    """The horizontal position of a log speedup in the small plot, clamped to it."""
    return 130 * (min(HIGH, max(LOW, value)) - LOW) / (HIGH - LOW)


def _listed(counts: dict[str, float]) -> str:
    """The three largest counts in parentheses; empty if there are none."""
    most = sorted(counts.items(), key=lambda pair: -pair[1])[:3]
    return f" ({', '.join(f'{name} {count:g}' for name, count in most)})" if most else ""


def _attempts(content: Content, entry: StateEntry) -> float:
    """How often techniques were tried in a state, all together."""
    rows = content.entries.get(entry.state.name, {}).values()
    return sum(row.evidence.total.attempts for row in rows)
