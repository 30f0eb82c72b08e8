"""Sends requests to servers with OpenAI's chat completions API, and parses their replies."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kernelblaster.models.bounded_http import Response
from kernelblaster.models.exchange import Exchange, Said, Shape, believed, exchanged, shaped
from kernelblaster.models.failures import CutOff
from kernelblaster.models.request import ModelAnswer, TokenUsage
from kernelblaster.models.wire import Gathering, said, scrubbed

STOPS: dict[str, Literal["done", "length", "refusal"]] = {"length": "length", "content_filter": "refusal"}
CONTEXT = ("max_model_len", "context_length", "context_window")  # vLLM, OpenRouter, others
DONE = b"[DONE]"


class Words(Shape):
    """The text of a message, or of a piece of a streamed one: `content`, or `refusal` if the model
    refuses."""

    content: str | None = None
    refusal: str | None = None


class ReplyChoice(Shape):
    """One of the answers in a server's reply, which usually has only one. A piece of a stream has its text in
    `delta`, a whole answer in `message`. `finish_reason` says why the model stopped."""

    delta: Words | None = None
    message: Words | None = None
    finish_reason: str | None = None

    @property
    def words(self) -> Words:
        return self.delta or self.message or Words()


class Completion(Shape):
    """A server's reply: a whole answer, or a piece of a streamed one, in `choices`; or an `error`. `usage`
    has the token counts as they came; they are validated later, so that a wrong count does not lose the
    answer."""

    choices: list[ReplyChoice] | None = None
    usage: Any = None
    error: Any = None


class Details(BaseModel):
    model_config = ConfigDict(strict=True)
    cached_tokens: int | None = Field(default=None, ge=0)
    cache_write_tokens: int | None = Field(default=None, ge=0)


class OpenAiCounts(BaseModel):
    """Token counts as a server with OpenAI's API reports them. `prompt_tokens` are those of the prompt,
    `completion_tokens` those of the answer. `prompt_tokens` includes those read from the server's prompt
    cache, whose number is in `prompt_tokens_details`."""

    model_config = ConfigDict(strict=True)
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    prompt_tokens_details: Details | None = None


class Listed(Shape):
    """A server's list of its models: `data` has a dictionary of properties for each, in which some servers
    give the context length."""

    data: list[dict[str, Any]] = Field(default_factory=list)


def answer_of(exchange: Exchange, key: str | None) -> Said:
    """Sends the request `exchange` to a server with OpenAI's API, and returns the model's answer (its text,
    how it ended, and its token counts) and whether it came in one piece and not as a stream. `key` is the API
    key, None for none. Raises a `ModelError` if the server refuses, cannot be reached, or gives no complete
    answer."""

    def read(response: Response) -> Said:
        if "json" in response.kind:
            whole = shaped(exchange.name, response.document(), Completion)
            return Said(answer=_whole(exchange, whole, key or ""), whole=True)
        return Said(answer=_streamed(exchange, response, key or ""))

    return exchanged(exchange, key, read)


def context_of(exchange: Exchange, key: str | None, model: str) -> int | None:
    """Returns the context length in tokens of `model`, from the server's list of its models; None if the list
    does not say. `exchange` is the request for the list; `key` is the API key, None for none."""
    listed = exchanged(exchange, key, lambda response: shaped(exchange.name, response.document(), Listed))
    properties = next((one for one in listed.data if one.get("id") == model), {})
    meta = properties.get("meta")
    lengths = [properties.get(name) for name in CONTEXT] + [
        meta.get("n_ctx") if isinstance(meta, dict) else None
    ]
    return next((length for length in lengths if type(length) is int and length > 0), None)


def _streamed(exchange: Exchange, response: Response, key: str) -> ModelAnswer:
    """Gathers the answer to the request `exchange` from a stream of server-sent events. If it becomes far
    longer than the request allows, reading ends there and the answer's `stop` is "length". Raises CutOff if
    the stream ends early or has an error. `key` is removed from texts, in case the server repeats it."""
    gathering = Gathering(exchange.bound.tokens_out)
    reason, refused, usage = None, False, None
    for _, data in response.events():
        if data.strip() == DONE:
            break
        piece = shaped(exchange.name, data, Completion)
        _raise_error(exchange, piece, key)
        usage = piece.usage or usage
        for choice in piece.choices or []:
            reason = choice.finish_reason or reason
            refused = refused or bool(choice.words.refusal)
            gathering.add(choice.words.refusal or choice.words.content or "")
        if gathering.too_long:
            reason = "length"
            break
    if reason is None:
        raise CutOff(f"{exchange.name}: the answer has no end", maybe_charged=True)
    return _answer(exchange, gathering.text, "content_filter" if refused else reason, usage, key)


def _whole(exchange: Exchange, completion: Completion, key: str) -> ModelAnswer:
    """The answer in a completion that came in one piece. Raises CutOff if it has none. `key` is removed from
    its text."""
    _raise_error(exchange, completion, key)
    if not completion.choices:
        raise CutOff(f"{exchange.name}: sent no answer", maybe_charged=True)
    choice = completion.choices[0]
    gathering = Gathering(exchange.bound.tokens_out)
    gathering.add(choice.words.refusal or choice.words.content or "")
    reason = "content_filter" if choice.words.refusal else choice.finish_reason or "stop"
    reason = "length" if gathering.too_long else reason
    return _answer(exchange, gathering.text, reason, completion.usage, key)


def _raise_error(exchange: Exchange, completion: Completion, key: str) -> None:
    """Raise CutOff if `completion` has an error of the server in place of an answer; `key` is removed from
    its text."""
    if completion.error:
        text = scrubbed(said({"error": completion.error}, "an error without a reason"), key)
        raise CutOff(f"{exchange.name}: {text[:500]}", maybe_charged=True)


def _answer(exchange: Exchange, text: str, reason: str, reported: Any, key: str) -> ModelAnswer:
    """The answer with this `text`, from which `key` is removed. `reason` is the server's reason for stopping,
    `reported` its token counts, which are dropped if implausible."""
    usage, doubt = believed(lambda: _usage(reported), exchange, text)
    stop = STOPS.get(reason, "done")
    return ModelAnswer(text=scrubbed(text, key), stop=stop, model=exchange.name, usage=usage, doubt=doubt)


def _usage(reported: Any) -> TokenUsage | None:
    """The server's token counts as a `TokenUsage`; None if it reported none. Raises ValidationError if they
    are not counts."""
    if reported is None:
        return None
    counts = OpenAiCounts.model_validate(reported)
    details = counts.prompt_tokens_details or Details()
    return TokenUsage(
        tokens_in=counts.prompt_tokens,
        tokens_out=counts.completion_tokens,
        tokens_cached=details.cached_tokens or 0,
        tokens_stored=details.cache_write_tokens or 0,
    )
