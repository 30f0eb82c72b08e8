"""Estimates what a run will spend on language models, before it starts."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelblaster.models.names import ModelTable
from kernelblaster.models.prices import Prices
from kernelblaster.models.request import TokenUsage


@dataclass(frozen=True)
class Expected:
    """What a search is expected to ask in one role (kind of question): the number of `calls`, and the tokens
    of the prompt (`tokens_in`) and of the answer (`tokens_out`) of a single call."""

    role: str
    calls: int
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True)
class Estimate:
    """What a search is expected to spend on one role (kind of question): the role's `model`, the number of
    `calls`, the tokens of all these calls together (`usage`), and their cost in US dollars (`usd`, None if
    the price is unknown)."""

    role: str
    model: str
    calls: int
    usage: TokenUsage
    usd: float | None


def estimate(expected: Sequence[Expected], table: ModelTable, prices: Prices) -> list[Estimate]:
    """Returns the estimated tokens and dollars of each role (kind of question) that has a model in `table`.
    `expected` says how many calls each role will make, and with how many tokens; `prices` are those of the
    models. Models that are folders (a hand-off to a person, a replay of recorded answers) cost nothing. It is
    assumed that no server reads from its prompt cache."""
    rows = []
    for item in expected:
        name = table.of(item.role)
        if name is None:
            continue
        one = TokenUsage(tokens_in=item.tokens_in, tokens_out=item.tokens_out)
        free = name.server is None
        each = 0.0 if free else prices.usd(str(name), one)
        usage = TokenUsage(tokens_in=item.calls * one.tokens_in, tokens_out=item.calls * one.tokens_out)
        usd = None if each is None else item.calls * each
        rows.append(Estimate(item.role, str(name), item.calls, usage, usd))
    return rows
