"""What the knowledge base expected before the runs, and what it expects after them."""

from collections.abc import Iterable
from typing import Any


def learned_by(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of what each run says it taught, one row for each state and technique: what was expected before the
    run that came first, and after the one that came last; with the sentences that say why. The most tried
    first."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for learned in sorted(runs, key=lambda one: one["from"]):
        for changed in learned["techniques"]:
            key = (changed["state"], changed["technique"])
            row = found.setdefault(key, _row(key, changed["before"]))
            if learned["to"] >= row["to"]:
                row["to"], row["after"] = learned["to"], changed["after"]
        for reason in learned["reasons"]:
            known = found.get((reason["state"], reason["technique"]))
            if known is not None and reason["sentence"] not in known["reasons"]:
                known["reasons"].append(reason["sentence"])
    return sorted(found.values(), key=lambda row: (-_attempts(row), row["state"], row["technique"]))


def _row(key: tuple[str, str], before: dict[str, Any] | None) -> dict[str, Any]:
    named = {"state": key[0], "technique": key[1], "before": before}
    return named | {"after": None, "to": -1, "reasons": []}


def _attempts(row: dict[str, Any]) -> float:
    return float(row["after"]["attempts"]) if row["after"] else 0.0
