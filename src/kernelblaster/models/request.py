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
    """One message of a conversation with a language model: its `text`, and who speaks (`speaker`): `system`
    (the instructions), `user`, or `assistant` (the model)."""

    speaker: Literal["system", "user", "assistant"]
    text: str


class TokenUsage(Record):
    """The tokens of one call, as the server counted them. `tokens_in` are those of the whole prompt,
    `tokens_out` those of the answer. Of the prompt's tokens, `tokens_cached` were read from the server's
    prompt cache and `tokens_stored` were written to it."""

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
    """One request to a model: the conversation so far (`messages`), which the model must answer with a JSON
    object that fits `schema`. `output_limit` is the longest answer in tokens. `temperature` and `seed` are
    passed on if the server accepts them; requests with different seeds are different requests even if it does
    not. `role` (the kind of question), `task` and `step` say what it is for, in the ledger and in recordings;
    they do not change the request's `digest`."""

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
        """16 hexadecimal digits that identify what is asked: a hash of messages, schema, output limit,
        temperature and seed."""
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
        """The most tokens that a call can take, if the server keeps the output limit. It counts one token for
        each byte of the prompt, since no token is shorter."""
        texts = [json.dumps(self.json_schema), *(message.text for message in self.messages)]
        size = sum(len(text.encode()) + TOKENS_A_MESSAGE for text in texts)
        return TokenUsage(tokens_in=size, tokens_out=self.output_limit)


class ModelAnswer(Record):
    """The result of one call, not yet parsed: `text` is what the model wrote. `stop` says how the answer
    ended: it is complete (`done`), was cut at the output limit (`length`), or is a `refusal`. `model` is the
    name of the model. `usage` is None if the server reported no token counts, or counts that are not
    plausible; in the second case `doubt` says why."""

    text: str
    stop: Literal["done", "length", "refusal"]
    model: str
    usage: TokenUsage | None
    doubt: str = ""


@dataclass(frozen=True)
class Reply(Generic[T]):
    """A validated answer: `value` is the object that was parsed from it, `text` the text as the model wrote
    it. `calls` is how many calls it took, and `usage` the sum of their tokens, None if those of one call are
    unknown."""

    value: T
    text: str
    model: str
    usage: TokenUsage | None
    calls: int = 1


class Endpoint(Protocol):
    """Interface of a source of unparsed answers: the text that a model wrote, before it is parsed to an
    object. An endpoint is a server, a folder, or a wrapper around another endpoint."""

    def answer(self, request: Request[T]) -> ModelAnswer:
        """Asks once and returns the answer as text, even if the text does not fit the request's schema.
        Raises a `ModelError` if there is no answer."""
        ...


class Model(Protocol):
    """The interface by which a policy asks a language model."""

    def ask(self, request: Request[T]) -> Reply[T]:
        """Asks the model and returns its answer, parsed to an object of the request's schema. Raises a
        `ModelError` if there is no valid answer."""
        ...
