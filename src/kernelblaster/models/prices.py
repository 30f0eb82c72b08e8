"""Prices of models' tokens: a shipped table with date and source, which the user's own file can override."""

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
    """Prices of one model in US dollars per million tokens. `cached` tokens are read from the server's
    prompt cache, `stored` ones written to it; without a price of their own they cost as much as other
    input. For prompts above `long_from` tokens, prices of input and output are multiplied by
    `long_input` and `long_output`."""

    input: Price
    output: Price
    cached: Price | None = None
    stored: Price | None = None
    long_from: int | None = None
    long_input: Price = 1.0
    long_output: Price = 1.0

    def usd(self, usage: TokenUsage) -> float:
        """What a call that used these tokens costs, in US dollars; cached tokens and long prompts have prices
        of their own."""
        fresh = usage.tokens_in - usage.tokens_cached - usage.tokens_stored
        cached = self.input if self.cached is None else self.cached
        stored = self.input if self.stored is None else self.stored
        read = fresh * self.input + usage.tokens_cached * cached + usage.tokens_stored * stored
        long = self.long_from is not None and usage.tokens_in > self.long_from
        factors = (self.long_input, self.long_output) if long else (1.0, 1.0)
        return (read * factors[0] + usage.tokens_out * self.output * factors[1]) / 1e6

    def most_usd(self, bound: TokenUsage) -> float:
        """The most, in US dollars, that a call of at most these tokens can cost, whatever the server's cache
        does."""
        dearest = max(self.input, self.stored or self.input)
        return self.model_copy(update={"input": dearest}).usd(bound)


FREE = TokenPrices(input=0.0, output=0.0)


class _Provider(Record):
    """A section of a prices file: prices by model, and where and when they were found."""

    date: str
    source: str
    models: Mapping[str, TokenPrices]


class Prices:
    """Prices by full name of the model, KIND:NAME as in `openai:gpt-x`; `origins` are their sources and
    dates."""

    def __init__(self, rates: Mapping[str, TokenPrices], origins: Mapping[str, str]) -> None:
        self._rates = rates
        self._origins = origins

    @property
    def models(self) -> list[str]:
        return sorted(self._rates)

    def of(self, model: str) -> TokenPrices | None:
        """The prices of the model with this full name (KIND:NAME); None if they are unknown. Models that are
        folders (hand-off, replay) cost nothing."""
        return FREE if model.partition(":")[0] in FOLDERS else self._rates.get(model)

    def origin(self, model: str) -> str | None:
        """Where the prices of the model come from and of which date they are, as text; None if they are
        unknown."""
        return self._origins.get(model)

    def usd(self, model: str, usage: TokenUsage) -> float | None:
        """What a call to this model with these tokens costs, in US dollars; None if its prices are
        unknown."""
        rates = self.of(model)
        return None if rates is None else rates.usd(usage)


def read_prices(own: Path | None = None) -> Prices:
    """The shipped table of prices, overridden model by model by the user's file `own`. Raises ModelError if
    that file cannot be read or is not a table of prices."""
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
