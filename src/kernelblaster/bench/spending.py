"""What a run spent on language models, from the ledger that it keeps in its folder."""

from pathlib import Path

from kernelblaster.models.ledger import recount
from kernelblaster.models.prices import read_prices

LEDGER = "usage.jsonl"


def spent_on_models(run: Path) -> tuple[int, float | None]:
    """Tokens and dollars; no dollars are known where the price of a model is not. A run without a ledger
    asked none."""
    ledger = run / LEDGER
    if not ledger.is_file():
        return 0, 0.0
    total = recount(ledger, read_prices())
    return total.usage.tokens, None if total.unpriced else total.usd
