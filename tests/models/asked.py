"""A question for tests, and models on a scripted server to ask it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, Field

from kernelblaster.models.factory import ByRole, Service, open_models
from kernelblaster.models.ledger import Ledger, ModelBudget
from kernelblaster.models.names import parse_table
from kernelblaster.models.prices import Prices, TokenPrices
from kernelblaster.models.request import ChatMessage, Request
from kernelblaster.models.retries import Patience
from kernelblaster.models.wire import CallLimits
from tests.models.server import Script, serving

PROTOCOLS = ("openai", "anthropic")
ROLES = ("lowerer", "matcher")
RATES = TokenPrices(input=2.0, cached=0.5, output=10.0)


class Product(BaseModel):
    product: int = Field(ge=0)
    remark: str = ""


QUESTION = Request(
    role="lowerer",
    messages=(
        ChatMessage(speaker="system", text="You multiply."),
        ChatMessage(speaker="user", text="What is 6 times 7?"),
    ),
    schema=Product,
    output_limit=50,
    task="multiply",
    step="1",
)


def question(text: str, **changes: object) -> Request[Product]:
    messages = (QUESTION.messages[0], ChatMessage(speaker="user", text=text))
    return replace(QUESTION, messages=messages, **changes)  # type: ignore[arg-type]


class Waits(list[float]):
    """The waits that were asked for; none is made."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@contextmanager
def asking(
    protocol: str,
    script: Script,
    folder: Path,
    *,
    waits: Waits | None = None,
    limits: CallLimits | None = None,
    budget: ModelBudget | None = None,
    tries: int = 4,
    calls_at_once: int = 4,
    record: Path | None = None,
) -> Iterator[tuple[ByRole, Ledger]]:
    """A model on a server with this script, its answers and its ledger in `folder`."""
    with serving(script) as address:
        name = f"{protocol}:m@{address}" + ("/v1" if protocol == "openai" else "")
        prices = Prices({name: RATES}, {})
        ledger = Ledger(prices, budget or ModelBudget(), folder / "usage.jsonl")
        patience = Patience(tries=tries, sleep=Waits() if waits is None else waits)
        service = Service(
            limits=limits or CallLimits(),
            patience=patience,
            calls_at_once=calls_at_once,
            answers=folder / "answers",
            record=record,
        )
        yield open_models(parse_table([name], ROLES), ledger, service), ledger
        ledger.close()
