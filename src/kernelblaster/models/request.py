"""What is asked of a language model, and what comes back."""

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
    """One question. `role`, `task` and `step` say who asks, for routing and costs; they are no part of the
    question. `temperature` and `seed` are passed on where a server takes them; another `seed` is
    another question, also where it does not."""

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
        """16 hexadecimal digits that identify the question."""
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
        """More than an answer can take, from a server that keeps the output limit: no token is shorter
        than a byte."""
        texts = [json.dumps(self.json_schema), *(message.text for message in self.messages)]
        size = sum(len(text.encode()) + TOKENS_A_MESSAGE for text in texts)
        return TokenUsage(tokens_in=size, tokens_out=self.output_limit)


class ModelAnswer(Record):
    """What one call brought, before anyone looked into it. No `usage`: nobody counted, or nobody can have
    counted so: `doubt` then says what was wrong with the server's count."""

    text: str
    stop: Literal["done", "length", "refusal"]
    model: str
    usage: TokenUsage | None
    doubt: str = ""


@dataclass(frozen=True)
class Reply(Generic[T]):
    """A validated answer. `usage` is that of all `calls` it took; None where it was not told."""

    value: T
    text: str
    model: str
    usage: TokenUsage | None
    calls: int = 1


class Endpoint(Protocol):
    """Where answers come from: a server, a folder, or another endpoint with something around it."""

    def answer(self, request: Request[T]) -> ModelAnswer:
        """One call. Raises a `ModelError` where there is no answer at all."""
        ...


class Model(Protocol):
    """What the roles use."""

    def ask(self, request: Request[T]) -> Reply[T]:
        """A validated reply. Raises a `ModelError`."""
        ...
