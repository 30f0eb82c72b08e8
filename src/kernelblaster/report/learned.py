"""What runs taught their knowledge base: the speedups expected of techniques before the first run and after
the last."""

from collections.abc import Iterable
from typing import Any


def merge_learned(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merges what several runs taught one knowledge base. `runs` are the "learned" parts of the runs'
    results, the earliest run first. Returns one dict for each performance state and technique, the one with
    the most attempts first. "before" is the speedup that the knowledge base expected before the first of
    these runs, "after" what it expects after the last; None if it did not know the technique then. "to" is
    the version of the knowledge base that "after" comes from. "reasons" are sentences that explain the
    change."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for learned in sorted(runs, key=lambda one: one["from"]):
        for changed in learned["techniques"]:
            key = (changed["state"], changed["technique"])
            row = rows.setdefault(key, _row(key, changed["before"]))
            if learned["to"] >= row["to"]:
                row["to"], row["after"] = learned["to"], changed["after"]
        for reason in learned["reasons"]:
            row_of_reason = rows.get((reason["state"], reason["technique"]))
            if row_of_reason is not None and reason["sentence"] not in row_of_reason["reasons"]:
                row_of_reason["reasons"].append(reason["sentence"])
    return sorted(rows.values(), key=lambda row: (-_attempts(row), row["state"], row["technique"]))


def _row(key: tuple[str, str], before: dict[str, Any] | None) -> dict[str, Any]:
    """The row of a technique in a state, which `key` names (state, technique). `before` is what the
    knowledge base expected of it before the runs, or None if it did not know the technique. `after`, `to`
    and `reasons` are empty, for the caller to fill in."""
    named = {"state": key[0], "technique": key[1], "before": before}
    return named | {"after": None, "to": -1, "reasons": []}


def _attempts(row: dict[str, Any]) -> float:
    """How many attempts the knowledge base had seen of a row's technique after the runs; 0 if it did not
    know the technique."""
    return float(row["after"]["attempts"]) if row["after"] else 0.0
