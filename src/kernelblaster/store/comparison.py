"""`compare` shows what two runs have in common and where they differ: in their settings, best candidates and
steps, and in what they taught the knowledge base."""

import difflib
from itertools import zip_longest
from typing import Any

from kernelblaster.records import Step
from kernelblaster.store.history import History


def compare(one: History, other: History, *, sources: bool = True) -> dict[str, Any]:
    """Compares the runs `one` and `other`; returns JSON data. "runs" has their names, "settings" the settings
    that differ, "best" the best candidate of each run. "trajectory" has the steps of both in pairs, with None
    where one run has fewer. "learned" has, for each technique in a performance state that a run learned
    about, the speedup expected before and after that run. "source" is a unified diff of the sources of both
    best candidates; "" without `sources`. Raises StoreError if a source is lost."""
    return {
        "runs": [one.name, other.name],
        "settings": _settings(one.about, other.about),
        "best": [_best(one), _best(other)],
        "trajectory": [list(pair) for pair in zip_longest(_step_rows(one.steps), _step_rows(other.steps))],
        "learned": _learned(one, other),
        "source": _source_difference(one, other) if sources else "",
    }


def _step_rows(steps: list[Step]) -> list[dict[str, Any]]:
    """The steps of a run as JSON data, each with the speedup of its new candidate over the one it was made
    from (None if it failed)."""
    return [step.model_dump(mode="json") | {"speedup": step.speedup} for step in steps]


def _settings(one: dict[str, Any], other: dict[str, Any]) -> dict[str, list[Any]]:
    """The settings that differ, as name: [in one, in the other]; None where a run has no such setting.
    Those of `search` are listed by their own names."""
    flat = [{**about, **about.get("search", {})} for about in (one, other)]
    names = [name for name in {**flat[0], **flat[1]} if name != "search"]
    pairs = {name: [values.get(name) for values in flat] for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _best(history: History) -> dict[str, Any]:
    """The result of a run as JSON data: whether it is finished, how many candidates were judged, and the best
    candidate's speedup over the baseline and over the first candidate, with times in microseconds. If no
    candidate is correct, the speedups and times are left out."""
    best, first = history.best, history.first
    summary: dict[str, Any] = {
        "task": history.task,
        "finished": history.finished,
        "evaluations": len(history.judged),
        "applied": list(history.applied),
        "modelled": history.modelled,
    }
    if best is None:
        return summary
    over_first = best.speedup / first.speedup if best.speedup and first and first.speedup else None
    timing = best.verdict.get("timing") or {}
    us = {"us": timing.get("candidate_us"), "baseline_us": timing.get("baseline_us")}
    gains = {"speedup": best.speedup, "gain_over_first": over_first}
    return summary | {"outcome": best.outcome, "found_after": history.judged.index(best) + 1} | gains | us


def _learned(one: History, other: History) -> list[dict[str, Any]]:
    """Returns one entry for each technique in a state that at least one of the two runs learned about:
    {"state", "technique", "expected"}. The last has for each run [the expected speedup before it, that after
    it], or None if the run learned nothing about the technique."""
    sides = [_expectations(history) for history in (one, other)]
    keys = sorted(sides[0].keys() | sides[1].keys())
    return [
        {"state": state, "technique": technique, "expected": [s.get((state, technique)) for s in sides]}
        for state, technique in keys
    ]


def _expectations(history: History) -> dict[tuple[str, str], list[float | None]]:
    """What a run's knowledge base expected: speedups by (performance state, technique), each as [before the
    run, after it]; None where there was none. Empty until the run has ended."""
    techniques = history.learned["techniques"] if history.learned else []
    return {
        (t["state"], t["technique"]): [
            t[side]["speedup"] if t[side] else None for side in ("before", "after")
        ]
        for t in techniques
    }


def _source_difference(one: History, other: History) -> str:
    """How the best sources of two runs differ, as a unified diff; empty if one run has no correct
    candidate."""
    mine, theirs = one.best, other.best
    if mine is None or theirs is None:
        return ""
    before, after = one.source_of(mine).splitlines(), other.source_of(theirs).splitlines()
    lines = difflib.unified_diff(before, after, one.name, other.name, lineterm="")
    return "\n".join(lines)
