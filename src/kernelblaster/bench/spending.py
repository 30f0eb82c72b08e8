"""What a run spent on language models, from the ledger that it keeps in its folder."""

from pathlib import Path

from kernelblaster.models.choice import LEDGER
from kernelblaster.models.ledger import recount
from kernelblaster.models.prices import read_prices


def spent_on_models(run: Path, prices: str | None = None) -> tuple[int, float | None]:
    """Tokens and dollars; no dollars are known where the price of a model is not. `prices` go before the
    shipped ones, as long as the file is there. A run without a ledger asked none."""
    ledger = run / LEDGER
    if not ledger.is_file():
        return 0, 0.0
    own = Path(prices) if prices and Path(prices).is_file() else None
    total = recount(ledger, read_prices(own))
    return total.usage.tokens, None if total.unpriced else total.usd
