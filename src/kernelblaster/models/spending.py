"""What a run has spent on language models, in all and call by call. It is read from the run's ledger."""

from dataclasses import dataclass
from pathlib import Path

from kernelblaster.models.choice import LEDGER
from kernelblaster.models.ledger import read_ledger, recount
from kernelblaster.models.prices import read_prices
from kernelblaster.models.request import TokenUsage


@dataclass(frozen=True)
class ModelSpending:
    """What a run has spent on models: `tokens` (of prompts and answers together) and US dollars (`usd`, None
    if a price is unknown). `estimated`: some of the tokens were not counted by a server but estimated from
    the texts, as for a hand-off (a person answers)."""

    tokens: int = 0
    usd: float | None = 0.0
    estimated: bool = False


@dataclass(frozen=True)
class ModelCall:
    """One call to a model, with what was charged for it. `role`, `task` and `step` say what it was for;
    `step` is the key of the question in the run's `question` and `answer` events. `usage` has its tokens,
    which were estimated from the texts if `estimated`. `usd` is its cost in US dollars, None if the price is
    unknown. `seconds` is None if not known, as for a call that never ended. `request` is the digest of what
    was asked; calls that asked the same thing have the same."""

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
    """Returns what the run in this folder has spent on models; nothing if it has no ledger (record of calls).
    `prices` is a file of prices that replace the shipped ones; it is ignored if there is no such file."""
    ledger = run / LEDGER
    if not ledger.is_file():
        return ModelSpending()
    own = Path(prices) if prices and Path(prices).is_file() else None
    total = recount(ledger, read_prices(own))
    return ModelSpending(total.usage.tokens, None if total.unpriced else total.usd, total.estimated > 0)


def calls_of(run: Path) -> list[ModelCall]:
    """Returns the calls to models of the run in this folder, in the order in which they were begun, with what
    was charged for each. Empty if the run has no ledger (record of calls)."""
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
