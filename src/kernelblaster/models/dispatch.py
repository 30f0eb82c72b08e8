"""Sends requests to model servers by the protocol that each speaks (Anthropic's or OpenAI's), in the process
that has the key."""

from kernelblaster.models import anthropic_replies, openai_replies
from kernelblaster.models.exchange import Exchange, Said
from kernelblaster.models.failures import ModelError


def answer_with(exchange: Exchange, key: str | None) -> Said:
    """The server's answer to the request `exchange`, sent with this key (None: without one). Raises a
    `ModelError` if the server refuses, cannot be reached, or gives no whole answer."""
    if exchange.speaks == "anthropic":
        return anthropic_replies.answer_of(exchange, key)
    return openai_replies.answer_of(exchange, key)


def context_with(exchange: Exchange, key: str | None, model: str) -> int | None:
    """The context length in tokens of `model` (the server's name for it); None if the server does not say or
    the call fails. `exchange` is the server to ask."""
    try:
        if exchange.speaks == "anthropic":
            return anthropic_replies.context_of(exchange, key)
        return openai_replies.context_of(exchange, key, model)
    except ModelError:
        return None
