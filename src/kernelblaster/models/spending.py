"""What a run spent on language models, from its ledger: in all, and call by call."""

from dataclasses import dataclass
from pathlib import Path

from kernelblaster.models.choice import LEDGER
from kernelblaster.models.ledger import read_ledger, recount
from kernelblaster.models.prices import read_prices
from kernelblaster.models.request import TokenUsage


@dataclass(frozen=True)
class ModelSpending:
    """Tokens (in and out together) and US dollars that a run spent on models; `usd` is None if a price is
    unknown. `estimated`: some tokens were not counted by a server but estimated from the texts, as with a
    hand-off (a person answers)."""

    tokens: int = 0
    usd: float | None = 0.0
    estimated: bool = False


@dataclass(frozen=True)
class ModelCall:
    """One call to a model: for which role, task and step (the question's key in the run's `question` and
    `answer` events), to which model, its tokens, dollars (None: the price is unknown) and seconds (None: it
    never ended). `estimated` as in `ModelSpending`; `request` is the digest of what was asked, by which equal
    questions of several calls belong together."""

    role: str
    task: str
    step: str
    model: str
    usage: TokenUsage
    usd: float | None
    seconds: float | None
    estimated: bool
    request: str


def spent_on_models(run: Path, prices: str | None = None) -> ModelSpending:
    """What the run in this folder spent. `prices` is a file that overrides the shipped prices, if it exists.
    A run without a ledger spent nothing."""
    ledger = run / LEDGER
    if not ledger.is_file():
        return ModelSpending()
    own = Path(prices) if prices and Path(prices).is_file() else None
    total = recount(ledger, read_prices(own))
    return ModelSpending(total.usage.tokens, None if total.unpriced else total.usd, total.estimated > 0)


def calls_of(run: Path) -> list[ModelCall]:
    """The calls to models of the run in this folder, in the order in which they were begun, as they were
    charged; empty if the run has no ledger."""
    ledger = run / LEDGER
    return [
        ModelCall(
            role=reserved.role,
            task=reserved.task,
            step=reserved.step,
            model=reserved.model,
            usage=settled.usage,
            usd=settled.usd,
            seconds=settled.seconds,
            estimated=settled.estimated,
            request=reserved.request,
        )
        for reserved, settled in (read_ledger(ledger) if ledger.is_file() else ())
    ]
