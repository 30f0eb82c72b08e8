"""Tokens and dollars that a run spent on language models, from its ledger."""

from pathlib import Path

from kernelblaster.models.choice import LEDGER
from kernelblaster.models.ledger import recount
from kernelblaster.models.prices import read_prices


def spent_on_models(run: Path, prices: str | None = None) -> tuple[int, float | None]:
    """(tokens, dollars) that the run in this folder spent; dollars are None if a price is unknown. `prices`
    is a file that overrides the shipped prices, if it exists. A run without a ledger spent nothing."""
    ledger = run / LEDGER
    if not ledger.is_file():
        return 0, 0.0
    own = Path(prices) if prices and Path(prices).is_file() else None
    total = recount(ledger, read_prices(own))
    return total.usage.tokens, None if total.unpriced else total.usd
