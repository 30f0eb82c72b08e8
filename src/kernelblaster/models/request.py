"""Requests to a language model, and its answers."""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, Field

from kernelblaster.records.record import Record

T = TypeVar("T", bound=BaseModel)

OUTPUT_LIMIT = 8192  # tokens
TOKENS_A_MESSAGE = 16  # what chat templates add around each, at most


class ChatMessage(Record):
    """One message of a conversation with a language model: who speaks (instructions, the user, the model),
    and the text."""

    speaker: Literal["system", "user", "assistant"]
    text: str


class TokenUsage(Record):
    """Tokens of one call, as the server counted them. `tokens_in` is the whole prompt; of it, some were
    read from the server's prompt cache (`tokens_cached`) and some were written to it (`tokens_stored`)."""

    tokens_in: int = Field(ge=0)
    tokens_out: int = Field(ge=0)
    tokens_cached: int = Field(default=0, ge=0)
    tokens_stored: int = Field(default=0, ge=0)

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
            tokens_cached=self.tokens_cached + other.tokens_cached,
            tokens_stored=self.tokens_stored + other.tokens_stored,
        )


@dataclass(frozen=True)
class Request(Generic[T]):
    """One request to a model, whose answer must be a JSON object of `schema`. `output_limit` is in tokens.
    `temperature` and `seed` are passed on if the server accepts them; another seed makes another request even
    if the server ignores it. `role` (the kind of question), `task` and `step` are for routing and accounting
    and not part of the request's `digest`."""

    role: str
    messages: tuple[ChatMessage, ...]
    schema: type[T]
    output_limit: int = OUTPUT_LIMIT  # tokens
    temperature: float | None = None
    seed: int = 0
    task: str = field(default="", compare=False)
    step: str = field(default="", compare=False)

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        return self.schema.model_json_schema()

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits that identify what is asked: messages, schema, limit, temperature and
        seed."""
        question = {
            "messages": [message.model_dump() for message in self.messages],
            "schema": self.json_schema,
            "output_limit": self.output_limit,
            "temperature": self.temperature,
            "seed": self.seed,
        }
        return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def bound(self) -> TokenUsage:
        """An upper bound on the tokens of a call, if the server keeps the output limit. (A token has at
        least one byte.)"""
        texts = [json.dumps(self.json_schema), *(message.text for message in self.messages)]
        size = sum(len(text.encode()) + TOKENS_A_MESSAGE for text in texts)
        return TokenUsage(tokens_in=size, tokens_out=self.output_limit)


class ModelAnswer(Record):
    """The raw result of one call. `stop`: the answer is complete, was cut at the output limit, or is a
    refusal. `usage` is None if the server reported no token count, or an implausible one: `doubt` then
    says why."""

    text: str
    stop: Literal["done", "length", "refusal"]
    model: str
    usage: TokenUsage | None
    doubt: str = ""


@dataclass(frozen=True)
class Reply(Generic[T]):
    """A validated answer: `value` is the parsed object, `text` the raw answer. `usage` sums the tokens of all
    `calls` that it took; None if the count of one of them is unknown."""

    value: T
    text: str
    model: str
    usage: TokenUsage | None
    calls: int = 1


class Endpoint(Protocol):
    """A source of raw answers: a server, a folder, or a wrapper around another endpoint."""

    def answer(self, request: Request[T]) -> ModelAnswer:
        """Asks once and returns the raw answer, whatever its text is. Raises a `ModelError` if there is
        none."""
        ...


class Model(Protocol):
    """The interface that the roles of a policy use to ask a language model."""

    def ask(self, request: Request[T]) -> Reply[T]:
        """Asks the model and returns its answer as an object of the request's schema. Raises a `ModelError`
        if there is no valid answer."""
        ...
