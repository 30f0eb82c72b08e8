"""The HTML page of a knowledge base: what was tried in which performance state, with what result, and how
certain that is."""

from pathlib import Path

from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.events import (
    effective,
)
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.summary import summarize
from kernelblaster.quantities import percent
from kernelblaster.report.chart import Chart, Stack
from kernelblaster.report.knowledge_cards import cards_of
from kernelblaster.report.knowledge_growth import Growth
from kernelblaster.report.rendering import render_page


def knowledge_page(knowledge: KnowledgeBase, made: str = "") -> str:
    """The HTML page of a knowledge base as it is now, in one file that needs nothing else. `made` is a text
    on when or how it was made."""
    content, growth = knowledge.content(), Growth()
    for event in effective(knowledge.log()):
        growth.add(event)
    visited, others = cards_of(content)
    return render_page(
        "knowledge.html",
        title=Path(knowledge.name).stem,
        made=made,
        lead=growth.lead(content.version),
        tiles=tiles_of(content),
        charts=[chart for chart in (growth.chart(), used_chart(content)) if chart is not None],
        payoffs=summarize(content, payoffs=12).payoffs,
        visited=visited,
        others=others,
    )


def used_chart(content: Content) -> Chart | None:
    """Returns the chart of the 20 most tried techniques of a knowledge base: attempts over all performance
    states, valid and failed; None if there are none."""
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


def tiles_of(content: Content) -> list[tuple[str, str]]:
    """Returns the numbers shown large at the top of a knowledge base's page, each as (number, caption)."""
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


def _listed(counts: dict[str, float]) -> str:
    """The three largest of these counts in parentheses, with their names, to follow a number in a caption;
    empty if there are none."""
    most = sorted(counts.items(), key=lambda pair: -pair[1])[:3]
    return f" ({', '.join(f'{name} {count:g}' for name, count in most)})" if most else ""
