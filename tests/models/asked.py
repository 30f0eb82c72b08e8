"""A question for tests, and models on a scripted server to ask it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, Field

from kernelblaster.models.ledger import Budget, Ledger
from kernelblaster.models.names import parse_table
from kernelblaster.models.opening import ByRole, Service, open_models
from kernelblaster.models.prices import Prices, Rates
from kernelblaster.models.request import Message, Request
from kernelblaster.models.retrying import Patience
from kernelblaster.models.wire import Limits
from tests.models.server import Script, serving

PROTOCOLS = ("openai", "anthropic")
ROLES = ("lowerer", "matcher")
RATES = Rates(input=2.0, cached=0.5, output=10.0)


class Product(BaseModel):
    product: int = Field(ge=0)
    remark: str = ""


QUESTION = Request(
    role="lowerer",
    messages=(
        Message(speaker="system", text="You multiply."),
        Message(speaker="user", text="What is 6 times 7?"),
    ),
    schema=Product,
    output_limit=50,
    task="multiply",
    step="1",
)


def question(text: str, **changes: object) -> Request[Product]:
    messages = (QUESTION.messages[0], Message(speaker="user", text=text))
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
    limits: Limits | None = None,
    budget: Budget | None = None,
    tries: int = 4,
    calls_at_once: int = 4,
    record: Path | None = None,
) -> Iterator[tuple[ByRole, Ledger]]:
    """A model on a server with this script, its answers and its ledger in `folder`."""
    with serving(script) as address:
        name = f"{protocol}:m@{address}" + ("/v1" if protocol == "openai" else "")
        prices = Prices({name: RATES}, {})
        ledger = Ledger(prices, budget or Budget(), folder / "usage.jsonl")
        patience = Patience(tries=tries, sleep=Waits() if waits is None else waits)
        service = Service(
            limits=limits or Limits(),
            patience=patience,
            calls_at_once=calls_at_once,
            answers=folder / "answers",
            record=record,
        )
        yield open_models(parse_table([name], ROLES), ledger, service), ledger
        ledger.close()
