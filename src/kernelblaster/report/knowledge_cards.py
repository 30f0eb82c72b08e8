"""What the page of a knowledge base shows of each performance state and of each technique in it: attempts,
results, and how certain these are."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, log, sqrt, tau

from kernelblaster.knowledge.content import Content, OptimizationEntry, StateEntry
from kernelblaster.knowledge.differences import score
from kernelblaster.knowledge.recipes import format_prediction
from kernelblaster.knowledge.tally import total
from kernelblaster.quantities import times
from kernelblaster.records.recipe import is_recipe
from kernelblaster.report.anchors import anchor

NOTES_SHOWN = 3
LOW, HIGH = log(0.4), log(6.0)  # of the small plots, in log speedup


@dataclass(frozen=True)
class Curve:
    """A small plot of a technique in one performance state: how likely which speedup is, as a bell-shaped
    curve. `now` is that curve as an SVG path. `before` is the one from before the first attempt, empty if
    nothing was tried. `one` is a vertical line at a speedup of 1. `tone` is a CSS class, `tip` the
    tooltip."""

    now: str
    before: str
    one: str
    tone: str
    tip: str


@dataclass(frozen=True)
class TechniqueRow:
    """What the page of a knowledge base shows of one technique in one performance state, mostly as texts.

    `name` has the words of the technique's name, since a line may break between them. `expected` is the
    speedup that is expected; `modelled`: no measured time is behind it. `tone` is the CSS class that colours
    it, and `curve` shows how certain it is (None: not drawn). `valid` is the chance (0 to 1) that an attempt
    gives a correct candidate. `attempts` says how many there were; `where` lists the results by GPU
    architecture, and the failures. `prepared` compares the speedup with and without the technique that must
    come before it. `retired` says why it is no longer tried; empty if it is tried. `description` and `notes`
    are the knowledge base's texts. `anchor` is the row's HTML id.
    """

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
    """What the page of a knowledge base shows of one performance state. `name` and `tags` say what bounds a
    kernel in it; `description`, `metrics` and `notes` are texts; `anchor` is its HTML id. `discovered`: a
    search found this state; it is not one of those shipped. `tried` are the techniques with attempts, or all
    if none has any. `untried` are the others; the page shows them only when the reader unfolds them."""

    anchor: str
    name: str
    tags: Sequence[str]
    discovered: bool
    description: str
    metrics: str
    notes: Sequence[str]
    tried: list[TechniqueRow]
    untried: list[TechniqueRow]


def cards_of(content: Content) -> tuple[list[StateCard], list[StateCard]]:
    """Returns (performance states in which something was tried, all other states), each as the page of the
    knowledge base with this `content` shows it. States with the most attempts come first."""
    states = sorted(content.living, key=lambda entry: (-_attempts(content, entry), entry.state.name))
    visited = [_state(content, entry) for entry in states if _attempts(content, entry)]
    return visited, [_state(content, entry) for entry in states if not _attempts(content, entry)]


def _state(content: Content, entry: StateEntry) -> StateCard:
    """What the page shows of one performance state: its description, and a row for each technique known in
    it, the most tried first."""
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
    """What the page shows of one technique in a state, as texts: expected speedup, attempts, results by GPU,
    notes. `entry` is what the knowledge base has about it."""
    scored = score(entry)
    recipe = is_recipe(entry.technique)
    slower = "" if recipe else "slower"
    told = partial(format_prediction, entry.technique) if recipe else times
    where = ", ".join(
        f"{architecture} {told(exp(tally.mean)) if tally.seen else 'failed'}"
        for architecture, tally in sorted(entry.evidence.by_architecture.items())
    )
    failures = "".join(f", {kind} {count:g}" for kind, count in sorted(entry.evidence.failures.items()))
    return TechniqueRow(
        anchor=anchor(state, entry.technique),
        name=entry.technique.split("_"),
        description=entry.description,
        retired=entry.retired or "",
        expected=told(scored.speedup),
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
    """How much a technique (`entry`) gained with and without the earlier technique on which it depends, as
    text; empty if it depends on none."""
    evidence = entry.evidence.of_one_clock
    preparation = evidence.preparation
    if preparation is None:
        return ""
    with_, without = (total(side.by_architecture.values()) for side in evidence.sides[::-1])
    after, alone = (times(exp(t.mean)) if t.seen else "never valid" for t in (with_, without))
    clock = ", modelled" if evidence.modelled else ""
    return f"after {preparation} {after}, without {alone}{clock}"


def _posterior(entry: OptimizationEntry) -> Curve:
    """The small plot of the speedup that the knowledge base predicts for a technique (`entry`): now, and
    before the first attempt."""
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
    """Where a log speedup lies in the small plot, in its units from the left; values beyond its range are put
    at the edge."""
    return 130 * (min(HIGH, max(LOW, value)) - LOW) / (HIGH - LOW)


def _attempts(content: Content, entry: StateEntry) -> float:
    """How many attempts at any technique were made in a state, to sort states by."""
    rows = content.entries.get(entry.state.name, {}).values()
    return sum(row.evidence.total.attempts for row in rows)
