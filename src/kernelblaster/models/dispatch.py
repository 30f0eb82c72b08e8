"""Sends requests by the protocol that the server speaks, in the process that has the key."""

from kernelblaster.models import anthropic_replies, openai_replies
from kernelblaster.models.exchange import Exchange, Said
from kernelblaster.models.failures import ModelError


def answer_with(exchange: Exchange, key: str | None) -> Said:
    """Send a request with this key (None: without one) and return the answer. Raises a `ModelError`."""
    if exchange.speaks == "anthropic":
        return anthropic_replies.answer_of(exchange, key)
    return openai_replies.answer_of(exchange, key)


def context_with(exchange: Exchange, key: str | None, model: str) -> int | None:
    """The model's context length in tokens; None if the server does not say or the call fails. `model` is
    the server's name for it."""
    try:
        if exchange.speaks == "anthropic":
            return anthropic_replies.context_of(exchange, key)
        return openai_replies.context_of(exchange, key, model)
    except ModelError:
        return None
