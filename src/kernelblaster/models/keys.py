"""Calls that need a key, made by whoever has it: the key keeper, or this process."""

from typing import TYPE_CHECKING, Any

from kernelblaster import keeper
from kernelblaster.models.failures import (
    CallTimedOut,
    CutOff,
    Declined,
    ModelError,
    NotAllowed,
    Unavailable,
)
from kernelblaster.settings import secret

if TYPE_CHECKING:
    from kernelblaster.models.exchange import Exchange, Said

MARGIN_S = 10.0  # for what is no part of the call
PASSING: dict[str, type[Unavailable]] = {kind.__name__: kind for kind in (Unavailable, CallTimedOut, CutOff)}
FINAL: dict[str, type[ModelError]] = {kind.__name__: kind for kind in (Declined, NotAllowed)}


def has_key(name: str) -> bool:
    """Whether there is a key in the environment variable of that name, here or with the keeper."""
    return name in keeper.key_names() or secret(name) is not None


def claim(url: str) -> None:
    """Name a server that a person has given the address of: it may get KERNELBLASTER_API_KEY."""
    if keeper.is_running():
        keeper.ask({"do": "claim", "url": url}, keeper.SHORT_S)


def answer(exchange: "Exchange") -> "Said":
    """The answer to a question. Raises a `ModelError`."""
    from kernelblaster.models.exchange import Said
    from kernelblaster.models.exchanging import answer_with

    if exchange.key not in keeper.key_names():
        return answer_with(exchange, secret(exchange.key))
    return Said.model_validate(_asked("answer", exchange)["said"])


def context_length(exchange: "Exchange", model: str) -> int | None:
    """How many tokens a model takes, where its server says so."""
    from kernelblaster.models.exchanging import context_with

    if exchange.key not in keeper.key_names():
        return context_with(exchange, secret(exchange.key), model)
    tokens: int | None = _asked("context", exchange, model=model)["tokens"]
    return tokens


def _asked(what: str, exchange: "Exchange", **more: str) -> dict[str, Any]:
    limit_s = exchange.limits.call_s + exchange.limits.connect_s + MARGIN_S
    message = {"do": what, "exchange": exchange.model_dump(mode="json"), **more}
    try:
        reply = keeper.ask(message, limit_s)
    except keeper.KeeperLost as error:
        raise ModelError(f"{exchange.name}: {error}") from error
    if "failure" in reply:
        raise _failure(reply["failure"])
    return reply


def _failure(told: dict[str, Any]) -> ModelError:
    if told["kind"] in PASSING:
        kind = PASSING[told["kind"]]
        return kind(told["message"], wait_s=told["wait_s"], maybe_charged=told["maybe_charged"])
    return FINAL.get(told["kind"], ModelError)(told["message"])
