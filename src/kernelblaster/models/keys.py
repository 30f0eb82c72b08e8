"""Makes calls to model servers: by the keeper (the process that holds the keys) if there is one, else in this
process."""

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
    """True if there is a key in the environment variable `name`, of this process or of the keeper (the
    process that holds the keys)."""
    return name in keeper.key_names() or secret(name) is not None


def answer(exchange: "Exchange") -> "Said":
    """Sends the request `exchange` to a model's server, and returns the answer (its text, how it ended, and
    its token counts) and whether it came in one piece and not as a stream. The keeper (the process that holds
    the keys) sends it if there is one, else this process does. Raises a `ModelError` if there is no complete
    answer."""
    from kernelblaster.models.dispatch import answer_with
    from kernelblaster.models.exchange import Said

    if not keeper.is_running():
        return answer_with(exchange, secret(exchange.key))
    return Said.model_validate(_asked("answer", exchange)["said"])


def context_length(exchange: "Exchange", model: str) -> int | None:
    """Returns the context length in tokens of `model` (the server's name for it); None if the server does not
    say or the call fails. `exchange` is the request that asks for it."""
    from kernelblaster.models.dispatch import context_with

    if not keeper.is_running():
        return context_with(exchange, secret(exchange.key), model)
    tokens: int | None = _asked("context", exchange, model=model)["tokens"]
    return tokens


def _asked(what: str, exchange: "Exchange", **more: str) -> dict[str, Any]:
    """The reply of the keeper (the process that holds the keys) to the message `what` about a request. Raises
    the `ModelError` that it reports, or a new one if the keeper is gone."""
    limit_s = exchange.limits.call_s + exchange.limits.connect_s + MARGIN_S
    message = {"do": what, "exchange": exchange.model_dump(mode="json"), **more}
    try:
        reply = keeper.ask(message, limit_s)
    except keeper.KeeperLost as error:
        raise ModelError(f"{exchange.name}: {error}") from error
    if "failure" in reply:
        raise _failure(reply["failure"])
    return reply


def _failure(data: dict[str, Any]) -> ModelError:
    """The `ModelError` that the keeper (the process that holds the keys) reported as JSON `data`; the inverse
    of `failure_as_data`."""
    if data["kind"] in PASSING:
        kind = PASSING[data["kind"]]
        return kind(data["message"], wait_s=data["wait_s"], maybe_charged=data["maybe_charged"])
    return FINAL.get(data["kind"], ModelError)(data["message"])
