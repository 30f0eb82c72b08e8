"""Prices of models' tokens: a shipped table, with dates and sources, whose entries the user's own file can
replace."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from kernelblaster.models.failures import ModelError
from kernelblaster.models.names import FOLDERS
from kernelblaster.models.request import TokenUsage
from kernelblaster.records.record import Record
from kernelblaster.strict_json import first_problem, read_bounded

SHIPPED = Path(__file__).parent / "prices.toml"


Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TokenPrices(Record):
    """Prices of one model in US dollars per million tokens, of prompts (`input`) and answers (`output`).
    `cached` is the price of prompt tokens read from the server's cache, `stored` of those written to it; None
    means the price of other input. For a prompt of more than `long_from` tokens, the input prices are
    multiplied by `long_input` and the output price by `long_output`; if it is None, they never are."""

    input: Price
    output: Price
    cached: Price | None = None
    stored: Price | None = None
    long_from: int | None = None
    long_input: Price = 1.0
    long_output: Price = 1.0

    def usd(self, usage: TokenUsage) -> float:
        """Returns what a call that used the tokens `usage` costs, in US dollars."""
        fresh = usage.tokens_in - usage.tokens_cached - usage.tokens_stored
        cached = self.input if self.cached is None else self.cached
        stored = self.input if self.stored is None else self.stored
        read = fresh * self.input + usage.tokens_cached * cached + usage.tokens_stored * stored
        long = self.long_from is not None and usage.tokens_in > self.long_from
        factors = (self.long_input, self.long_output) if long else (1.0, 1.0)
        return (read * factors[0] + usage.tokens_out * self.output * factors[1]) / 1e6

    def most_usd(self, bound: TokenUsage) -> float:
        """Returns the most, in US dollars, that a call of at most the tokens `bound` can cost, whatever is
        read from the server's cache or written to it."""
        dearest = max(self.input, self.stored or self.input)
        return self.model_copy(update={"input": dearest}).usd(bound)


FREE = TokenPrices(input=0.0, output=0.0)


class _Provider(Record):
    """A section of a prices file: prices by model, and where and when they were found."""

    date: str
    source: str
    models: Mapping[str, TokenPrices]


class Prices:
    """Prices of models, by full name KIND:NAME as in `openai:gpt-x`. `rates` are the prices; `origins` says
    of each where it was found and when."""

    def __init__(self, rates: Mapping[str, TokenPrices], origins: Mapping[str, str]) -> None:
        self._rates = rates
        self._origins = origins

    @property
    def models(self) -> list[str]:
        return sorted(self._rates)

    def of(self, model: str) -> TokenPrices | None:
        """Returns the prices of the model with the full name `model` (KIND:NAME); None if they are unknown. A
        model that is a folder (a hand-off to a person, or recorded answers) costs nothing."""
        return FREE if model.partition(":")[0] in FOLDERS else self._rates.get(model)

    def origin(self, model: str) -> str | None:
        """Returns where the prices of the model were found and when, as text; None if they are unknown."""
        return self._origins.get(model)

    def usd(self, model: str, usage: TokenUsage) -> float | None:
        """Returns what a call to `model` that used the tokens `usage` costs, in US dollars; None if its
        prices are unknown."""
        rates = self.of(model)
        return None if rates is None else rates.usd(usage)


def read_prices(own: Path | None = None) -> Prices:
    """Returns the prices of models: those in the user's file `own`, if given, and for all other models those
    of the shipped table. Raises ModelError if the file cannot be read or is not a table of prices."""
    shipped = _read(SHIPPED)
    mine = _read(own) if own else {}
    merged = {**shipped, **mine}
    return Prices(
        {name: rates for name, (rates, _) in merged.items()},
        {name: origin for name, (_, origin) in merged.items()},
    )


def _read(path: Path) -> dict[str, tuple[TokenPrices, str]]:
    """(prices, source and date) of each model in the TOML file `path`, by full name KIND:NAME. Raises
    ModelError if it cannot be read or is malformed."""
    try:
        data = tomllib.loads(read_bounded(path).decode())
        providers = {kind: _Provider.model_validate(part) for kind, part in data.items()}
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from error
    except ValidationError as error:
        raise ModelError(f"{path}: is not a table of prices: {first_problem(error)}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: is not a table of prices: {error}") from error
    return {
        f"{kind}:{model}": (rates, f"{provider.source}, {provider.date}")
        for kind, provider in providers.items()
        for model, rates in provider.models.items()
    }
