"""Techniques of the knowledge base as short JSON data for agents. The server imports this, and so it must not
import PyTorch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp
from typing import Any

from kernelblaster.knowledge.content import Content, OptimizationEntry, Scored
from kernelblaster.plain_text import printable

PREFERRED = 12  # techniques that are shown


def described(options: Sequence[Scored], content: Content) -> list[Scored]:
    """The same techniques, where those that were taken over from another state by name alone have the title,
    description and preconditions that are known there, so that whoever reads them can tell whether they
    apply."""
    known: dict[str, OptimizationEntry] = {}
    for entries in content.entries.values():
        known |= {name: one for name, one in entries.items() if one.description and name not in known}
    return [_described(one, known.get(one.optimization.technique)) for one in options]


def _described(scored: Scored, entry: OptimizationEntry | None) -> Scored:
    if scored.optimization.description or entry is None:
        return scored
    about = {"title": entry.title, "description": entry.description, "preconditions": entry.preconditions}
    return replace(scored, optimization=scored.optimization.model_copy(update=about))


def technique_data(
    scored: Scored, entry: OptimizationEntry | None, *, recipe: bool = False
) -> dict[str, Any]:
    """A technique as JSON data: its expected speedup (for a recipe, its share of the speed that the GPU
    allows), the likely range, and the attempts in `entry` by GPU architecture, with failures and notes."""
    optimization, prediction = scored.optimization, scored.prediction
    expected = "expected_share_of_floor_speed" if recipe else "expected_speedup"
    data: dict[str, Any] = {
        "technique": optimization.technique,
        "title": optimization.title,
        "description": optimization.description[:600],
        expected: round(exp(prediction.mean), 3),
        "likely_range": [round(value, 3) for value in prediction.interval],
        "chance_valid": round(prediction.valid_chance, 2),
    }
    if optimization.preconditions:
        data["needs"] = list(optimization.preconditions[:4])
    if entry is not None:
        tried = {name: round(t.attempts, 1) for name, t in entry.evidence.by_architecture.items()}
        data |= {"attempts": tried} if tried else {"attempts": "none: a guess"}
        failures = {kind: round(count, 1) for kind, count in entry.evidence.failures.items() if count >= 1}
        data |= {"failures": failures} if failures else {}
    if scored.notes:
        data["notes"] = [printable(note)[:300] for note in scored.notes[-3:]]
    return data


def ranked_data(
    options: Sequence[Scored], entries: Mapping[str, OptimizationEntry], most: int = PREFERRED
) -> list[dict[str, Any]]:
    """The first `most` of these techniques, which are ranked, as JSON data, with the measured outcomes of
    each from `entries`."""
    return [technique_data(one, entries.get(one.optimization.technique)) for one in options[:most]]
