"""Estimates, before a run starts, what it will spend on language models."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelblaster.models.names import ModelTable
from kernelblaster.models.prices import Prices
from kernelblaster.models.request import TokenUsage


@dataclass(frozen=True)
class Expected:
    """How often a search will probably ask a role's question (`calls`), and how many tokens prompt and answer
    of one such call have."""

    role: str
    calls: int
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True)
class Estimate:
    """The expected total of a role: its model, calls, tokens of all calls, and cost in US dollars (None
    if the price is unknown)."""

    role: str
    model: str
    calls: int
    usage: TokenUsage
    usd: float | None


def estimate(expected: Sequence[Expected], table: ModelTable, prices: Prices) -> list[Estimate]:
    """Estimates tokens and dollars by role (kind of question), for the roles that have a model in `table`,
    from how often each will ask (`expected`) and these prices. Folders (hand-off, replay) cost nothing.
    Assumes no hits in a server's prompt cache."""
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
