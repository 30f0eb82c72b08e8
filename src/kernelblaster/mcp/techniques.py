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
    """Returns `options` (techniques with their scores), completed so that readers can tell whether a
    technique applies. A technique that was taken over from another performance state has a name but no
    description. It gets the title, description and preconditions of the first state in `content` that
    describes it. All others are returned as they are."""
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
    """Returns a technique (`scored`) as JSON data: its expected speedup and the likely range. With `recipe`,
    "expected_share_of_floor_speed" takes the place of the speedup: the share of the speed that the GPU
    allows. Attempts are counted by GPU architecture, from `entry`, the knowledge base's entry for the
    technique (None: it has none); failures and notes are added."""
    optimization, prediction = scored.optimization, scored.prediction
    expected = "expected_share_of_floor_speed" if recipe else "expected_speedup"
    data: dict[str, Any] = {
        "technique": optimization.technique,
        "title": printable(optimization.title),
        "description": printable(optimization.description[:600]),
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
        data["notes"] = [printable(note) for note in scored.notes[-3:]]
    return data


def ranked_data(
    options: Sequence[Scored], entries: Mapping[str, OptimizationEntry], most: int = PREFERRED
) -> list[dict[str, Any]]:
    """Returns the first `most` of `options`, which are techniques with the best first, as JSON data.
    `entries` has the knowledge base's entry of each by its name, with the measured outcomes."""
    return [technique_data(one, entries.get(one.optimization.technique)) for one in options[:most]]
