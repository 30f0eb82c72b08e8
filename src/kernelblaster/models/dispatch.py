"""Sends requests to model servers by the protocol that each server speaks (Anthropic's or OpenAI's). This
happens in the process that has the key."""

from kernelblaster.models import anthropic_replies, openai_replies
from kernelblaster.models.exchange import Exchange, Said
from kernelblaster.models.failures import ModelError


def answer_with(exchange: Exchange, key: str | None) -> Said:
    """Sends the request `exchange` to its server, and returns the model's answer (its text, how it ended, and
    its token counts) and whether it came in one piece and not as a stream. `key` is the API key, None for
    none. Raises a `ModelError` if the server refuses, cannot be reached, or gives no complete answer."""
    if exchange.speaks == "anthropic":
        return anthropic_replies.answer_of(exchange, key)
    return openai_replies.answer_of(exchange, key)


def context_with(exchange: Exchange, key: str | None, model: str) -> int | None:
    """Returns the context length in tokens of `model` (the server's name for it); None if the server does not
    say or the call fails. `exchange` is the request that asks for it; `key` is the API key, None for none."""
    try:
        if exchange.speaks == "anthropic":
            return anthropic_replies.context_of(exchange, key)
        return openai_replies.context_of(exchange, key, model)
    except ModelError:
        return None
