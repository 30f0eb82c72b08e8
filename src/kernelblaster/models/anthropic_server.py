"""Anthropic's messages API."""

from typing import Any, Literal

import anthropic
import httpx2

from kernelblaster.models.failures import CutOff
from kernelblaster.models.options import Options
from kernelblaster.models.request import Answer, Request, T, Usage
from kernelblaster.models.schemas import closed, in_words, strict
from kernelblaster.models.wire import NO_KEY, Gathering, Limits, failure, lost, said, scrubbed

ANTHROPIC = "https://api.anthropic.com"
OPTIONS = {"output_config": ("output_config", "output_format", "structured", "schema", "grammar")}
STOPS: dict[str, Literal["done", "length", "refusal"]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class AnthropicServer:
    """One model of Anthropic, or of a server that speaks its language. The system message is kept in the
    server's prompt cache: the next request of the same role pays less for it. There is neither a
    temperature nor a seed."""

    def __init__(self, name: str, model: str, *, url: str, key: str | None, limits: Limits) -> None:
        self.name = name
        self._model = model
        self._key = key or NO_KEY
        self._limits = limits
        self.options = Options(OPTIONS)
        timeout = httpx2.Timeout(limits.silence_s, connect=limits.connect_s)
        self.client = anthropic.Anthropic(api_key=self._key, base_url=url, timeout=timeout, max_retries=0)

    def answer(self, request: Request[T]) -> Answer:
        return self.options.asked(lambda: self._body(request), lambda body: self._send(body, request))

    def context_length(self) -> int | None:
        """In tokens, where the server says so."""
        try:
            return self.client.models.retrieve(self._model).max_input_tokens
        except (anthropic.APIError, httpx2.TransportError, ValueError):
            return None

    def _body(self, request: Request[T]) -> dict[str, Any]:
        spoken = [m for m in request.messages if m.speaker != "system"]
        system = [m.text for m in request.messages if m.speaker == "system"]
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": request.output_limit,
            "messages": [{"role": m.speaker, "content": m.text} for m in spoken],
        }
        if self.options.takes("output_config") and closed(request.json_schema):
            body["output_config"] = {"format": {"type": "json_schema", "schema": strict(request.json_schema)}}
        else:
            system.append(in_words(request))
        if system:
            text = "\n\n".join(system)
            body["system"] = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
        return body

    def _send(self, body: dict[str, Any], request: Request[T]) -> Answer:
        """The error of a call is made anew: the library's own may hold what was sent."""
        try:
            return self._stream(body, request)
        except anthropic.APIStatusError as error:
            text = scrubbed(said(error.body, error.message), self._key)
            problem = failure(self.name, error.status_code, text, error.response.headers)
        except (anthropic.APIConnectionError, httpx2.TransportError) as error:
            problem = lost(self.name, error)
        except (anthropic.APIError, ValueError):
            problem = CutOff(f"{self.name}: sent what is not JSON", maybe_charged=True)
        raise problem

    def _stream(self, body: dict[str, Any], request: Request[T]) -> Answer:
        gathering = Gathering(self.name, request.output_limit, self._limits)
        reason, explanation, counts = None, None, _Counts()
        with self.client.messages.create(**body, stream=True) as events:
            for event in events:
                gathering.check_time()
                if event.type == "message_start":
                    counts.take(event.message.usage)
                elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                    gathering.add(event.delta.text)
                elif event.type == "message_delta":
                    counts.take(event.usage)
                    reason = event.delta.stop_reason or reason
                    details = event.delta.stop_details
                    explanation = details.explanation if details else None
                if gathering.too_long:
                    counts = _Counts()
                    reason = "max_tokens"
                    break
        if reason is None:
            raise CutOff(f"{self.name}: the answer has no end", maybe_charged=True)
        text = scrubbed(explanation or gathering.text, self._key)
        return Answer(text=text, stop=STOPS.get(reason, "done"), model=self.name, usage=counts.usage)


class _Counts:
    """The tokens so far; every event has totals, and need not have all of them."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}

    def take(self, usage: anthropic.types.Usage | anthropic.types.MessageDeltaUsage) -> None:
        told = {
            "fresh": usage.input_tokens,
            "stored": usage.cache_creation_input_tokens,
            "cached": usage.cache_read_input_tokens,
            "out": usage.output_tokens,
        }
        self._told |= {name: count for name, count in told.items() if count is not None}

    @property
    def usage(self) -> Usage | None:
        if not {"fresh", "out"} <= set(self._told):
            return None
        stored, cached = self._told.get("stored", 0), self._told.get("cached", 0)
        return Usage(
            tokens_in=self._told["fresh"] + stored + cached,
            tokens_out=self._told["out"],
            tokens_cached=cached,
            tokens_stored=stored,
        )
