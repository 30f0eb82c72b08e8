"""Calls that need a key, made by whoever has it: the key keeper, or this process."""

from typing import TYPE_CHECKING

from kernelblaster.models.failures import ModelError
from kernelblaster.settings import secret

if TYPE_CHECKING:
    from kernelblaster.models.exchange import Exchange, Said


def has_key(name: str) -> bool:
    """Whether there is a key in the environment variable of that name."""
    return secret(name) is not None


def answer(exchange: "Exchange") -> "Said":
    """The answer to a question. Raises a `ModelError`."""
    from kernelblaster.models import anthropic_replies, openai_replies

    key = secret(exchange.key)
    if exchange.speaks == "anthropic":
        return anthropic_replies.answer_of(exchange, key)
    return openai_replies.answer_of(exchange, key)


def context_length(exchange: "Exchange", model: str) -> int | None:
    """How many tokens a model takes, where its server says so."""
    from kernelblaster.models import anthropic_replies, openai_replies

    key = secret(exchange.key)
    try:
        if exchange.speaks == "anthropic":
            return anthropic_replies.context_of(exchange, key)
        return openai_replies.context_of(exchange, key, model)
    except ModelError:
        return None
