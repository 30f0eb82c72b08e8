"""What the knowledge base expected of each technique before and after the runs."""

from collections.abc import Iterable
from typing import Any


def merge_learned(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each (state, technique) that the runs taught, as JSON data: the expected speedup `before`
    the earliest run and `after` the latest (by the version `to` of the knowledge base; None: unknown), and
    the sentences that explain the change. The most tried first. `runs` are the `learned` data of runs'
    results."""
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
    """The row of a technique in a state, which `key` names (state, technique). `before` is what the knowledge
    base expected of it before the runs, None if it did not know it; what came after is filled in later."""
    named = {"state": key[0], "technique": key[1], "before": before}
    return named | {"after": None, "to": -1, "reasons": []}


def _attempts(row: dict[str, Any]) -> float:
    """How many attempts the knowledge base had seen of a row's technique after the runs; 0 if it is not
    known."""
    return float(row["after"]["attempts"]) if row["after"] else 0.0
