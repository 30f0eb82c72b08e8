"""What language models cost in a run, by role, from its ledger (record of calls), which is only read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelblaster.models.choice import LEDGER
from kernelblaster.models.failures import ModelError
from kernelblaster.models.ledger import Total, recount_by_role
from kernelblaster.models.prices import read_prices

ALL = "all roles"


@dataclass(frozen=True)
class RoleCost:
    """What the questions of one role (like "proposer") to language models have cost so far. `calls` is their
    number. `tokens_in` are the tokens of the questions; `tokens_cached` of these came from the provider's
    cache. `tokens_out` are those of the answers. `usd` is None if a price is not known."""

    role: str
    calls: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    usd: float | None


def role_costs(run: Path, about: dict[str, Any]) -> list[RoleCost]:
    """Returns what questions of each role (kind of question) to language models have cost, and last the sum
    of all. Empty if no model was asked or the run's record of calls (ledger) cannot be read. `run` is the
    run's folder, `about` the data of its first event."""
    choice = (about.get("models") or {}).get("choice") or {}
    prices = Path(choice["prices"]) if choice.get("prices") and Path(choice["prices"]).is_file() else None
    try:
        totals = recount_by_role(run / LEDGER, read_prices(prices))
    except (ModelError, OSError):
        return []
    rows = [_cost(role, total) for role, total in totals.items()]
    if len(rows) < 2:
        return rows
    usd = [row.usd for row in rows]
    known = [value for value in usd if value is not None]
    every = RoleCost(
        role=ALL,
        calls=sum(row.calls for row in rows),
        tokens_in=sum(row.tokens_in for row in rows),
        tokens_cached=sum(row.tokens_cached for row in rows),
        tokens_out=sum(row.tokens_out for row in rows),
        usd=sum(known) if len(known) == len(usd) else None,
    )
    return [*rows, every]


def _cost(role: str, total: Total) -> RoleCost:
    usage = total.usage
    usd = None if total.unpriced else total.usd
    return RoleCost(role, total.calls, usage.tokens_in, usage.tokens_cached, usage.tokens_out, usd)
