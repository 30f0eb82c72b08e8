"""Sends requests to servers with Anthropic's messages API, and parses their replies."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kernelblaster.models.bounded_http import Response
from kernelblaster.models.exchange import Exchange, Said, Shape, believed, exchanged, shaped
from kernelblaster.models.failures import CutOff
from kernelblaster.models.request import ModelAnswer, TokenUsage
from kernelblaster.models.wire import Gathering, said, scrubbed

STOPS: dict[str, Literal["done", "length", "refusal"]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class StopDetails(Shape):
    explanation: str | None = None


class Delta(Shape):
    """A piece of a streamed answer, which one event brings: more of the answer's `text`, or the reason why
    the model stopped (`stop_reason`, with explanations in `stop_details`). `type` is Anthropic's name for the
    kind of piece."""

    type: str | None = None
    text: str = ""
    stop_reason: str | None = None
    stop_details: StopDetails | None = None


class MessageStart(Shape):
    usage: Any = None


class StreamEvent(Shape):
    """One event of a streamed reply, of the kind `type`: the begin of the answer (`message`), more of it
    (`delta`), or an `error`. `usage` has the token counts as they came; they are validated later, so that a
    wrong count does not lose the answer."""

    type: str = ""
    message: MessageStart | None = None
    delta: Delta | None = None
    usage: Any = None
    error: Any = None


Count = Annotated[int, Field(ge=0)] | None


class AnthropicCounts(BaseModel):
    """Token counts as an Anthropic server reports them; None where it reports none. `input_tokens` are those
    of the prompt, `output_tokens` those of the answer. `input_tokens` does not include the tokens read from
    the server's prompt cache or written to it, which have counts of their own."""

    model_config = ConfigDict(strict=True)
    input_tokens: Count = None
    output_tokens: Count = None
    cache_creation_input_tokens: Count = None
    cache_read_input_tokens: Count = None


class ModelProperties(Shape):
    max_input_tokens: int | None = None


def answer_of(exchange: Exchange, key: str | None) -> Said:
    """Sends the request `exchange` to a server with Anthropic's API, and returns the model's answer: its
    text, how it ended, and its token counts. The answer is read as a stream. `key` is the API key, None for
    none. Raises a `ModelError` if the server refuses, cannot be reached, or gives no complete answer."""
    return exchanged(exchange, key, lambda response: Said(answer=_streamed(exchange, response, key or "")))


def context_of(exchange: Exchange, key: str | None) -> int | None:
    """Returns the model's context length in tokens; None if the server does not say. `exchange` is the
    request for the model's properties; `key` is the API key, None for none."""
    properties = exchanged(
        exchange, key, lambda response: shaped(exchange.name, response.document(), ModelProperties)
    )
    return (
        properties.max_input_tokens
        if properties.max_input_tokens and properties.max_input_tokens > 0
        else None
    )


def _streamed(exchange: Exchange, response: Response, key: str) -> ModelAnswer:
    """Gathers the answer to the request `exchange` from a stream of server-sent events. If it becomes far
    longer than the request allows, reading ends there and the answer's `stop` is "length". Raises CutOff if
    the stream ends early or has an error. `key` is removed from texts, in case the server repeats it."""
    gathering = Gathering(exchange.bound.tokens_out)
    reason, explanation = None, None
    counts: dict[str, Any] = {}
    for name, data in response.events():
        event = shaped(exchange.name, data, StreamEvent)
        delta = event.delta or Delta()
        if "error" in (name, event.type):
            text = scrubbed(said({"error": event.error}, "an error without a reason"), key)
            raise CutOff(f"{exchange.name}: {text[:500]}", maybe_charged=True)
        if event.type == "message_start" and event.message:
            _take(counts, event.message.usage)
        elif event.type == "content_block_delta" and delta.type == "text_delta":
            gathering.add(delta.text)
        elif event.type == "message_delta":
            _take(counts, event.usage)
            reason = delta.stop_reason or reason
            explanation = delta.stop_details.explanation if delta.stop_details else None
        elif event.type == "message_stop":
            break
        if gathering.too_long:
            counts = {}
            reason = "max_tokens"
            break
    if reason is None:
        raise CutOff(f"{exchange.name}: the answer has no end", maybe_charged=True)
    usage, doubt = believed(lambda: _usage(counts), exchange, gathering.text)
    text = scrubbed(explanation or gathering.text, key)
    return ModelAnswer(
        text=text, stop=STOPS.get(reason, "done"), model=exchange.name, usage=usage, doubt=doubt
    )


def _take(counts: dict[str, Any], reported: Any) -> None:
    """Update `counts` with the token counts that an event reports (`reported`: a dict, or None). Each is a
    total so far; an event may leave some out, which then stay as they are."""
    reported = (
        {} if reported is None else reported if isinstance(reported, dict) else {"input_tokens": reported}
    )
    counts |= {
        name: reported[name] for name in AnthropicCounts.model_fields if reported.get(name) is not None
    }


def _usage(reported: dict[str, Any]) -> TokenUsage | None:
    """The token counts that the server `reported`, as a `TokenUsage`; None if input or output is missing.
    Raises ValidationError if a value is not a count."""
    counts = AnthropicCounts.model_validate(reported)
    if counts.input_tokens is None or counts.output_tokens is None:
        return None
    stored, cached = counts.cache_creation_input_tokens or 0, counts.cache_read_input_tokens or 0
    return TokenUsage(
        tokens_in=counts.input_tokens + stored + cached,
        tokens_out=counts.output_tokens,
        tokens_cached=cached,
        tokens_stored=stored,
    )
