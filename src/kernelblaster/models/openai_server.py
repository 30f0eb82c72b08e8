"""Any server that speaks OpenAI's chat completions: OpenAI, vLLM, Ollama, llama.cpp, OpenRouter, ..."""

from typing import Any, Literal

import httpx2
import openai
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion

from kernelblaster.models.failures import CutOff
from kernelblaster.models.options import Options
from kernelblaster.models.request import Answer, Request, T, Usage
from kernelblaster.models.schemas import closed, in_words, strict
from kernelblaster.models.wire import NO_KEY, Gathering, Limits, failure, lost, said, scrubbed

OPENAI = "https://api.openai.com/v1"
OPTIONS = {
    "stream_options": ("stream_options", "include_usage"),
    "stream": ("stream",),
    "response_format": ("response_format", "json_schema", "structured", "grammar", "schema"),
    "temperature": ("temperature",),
    "seed": ("seed",),
    "max_completion_tokens": ("max_completion_tokens",),
    "max_tokens": ("max_tokens",),
}
CONTEXT = ("max_model_len", "context_length", "context_window")  # vLLM, OpenRouter, others
STOPS: dict[str, Literal["done", "length", "refusal"]] = {"length": "length", "content_filter": "refusal"}


class OpenAIServer:
    """One model of one server. Structured outputs, streaming and the rest of `OPTIONS` are asked for; what
    the server declines is left out from then on."""

    def __init__(self, name: str, model: str, *, url: str, key: str | None, limits: Limits) -> None:
        self.name = name
        self._model = model
        self._url = url
        self._key = key or NO_KEY
        self._limits = limits
        self.options = Options(OPTIONS)
        names = ("max_tokens", "max_completion_tokens")
        self._limit_names = names if url != OPENAI else names[::-1]
        timeout = httpx2.Timeout(limits.silence_s, connect=limits.connect_s)
        self.client = openai.OpenAI(api_key=self._key, base_url=url, timeout=timeout, max_retries=0)

    def answer(self, request: Request[T]) -> Answer:
        return self.options.asked(lambda: self._body(request), lambda body: self._send(body, request))

    def context_length(self) -> int | None:
        """In tokens, where the server says so in its list of models."""
        try:
            listed = [model for model in self.client.models.list() if model.id == self._model]
        except (openai.APIError, httpx2.TransportError, ValueError):
            return None
        told = (listed[0].model_extra or {}) if listed else {}
        meta = told.get("meta")
        found = [told.get(name) for name in CONTEXT] + [meta.get("n_ctx") if isinstance(meta, dict) else None]
        return next((length for length in found if isinstance(length, int)), None)

    def _body(self, request: Request[T]) -> dict[str, Any]:
        takes = self.options.takes
        body: dict[str, Any] = {"model": self._model, "messages": self._messages(request)}
        if takes("stream"):
            body["stream"] = True
            if takes("stream_options"):
                body["stream_options"] = {"include_usage": True}
        if takes("response_format") and closed(request.json_schema):
            schema = {"name": request.schema.__name__, "strict": True, "schema": strict(request.json_schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if takes("temperature") and request.temperature is not None:
            body["temperature"] = request.temperature
        if takes("seed"):
            body["seed"] = request.seed
        limit = next((name for name in self._limit_names if takes(name)), None)
        if limit:
            body[limit] = request.output_limit
        return body

    def _messages(self, request: Request[T]) -> list[dict[str, str]]:
        """The schema is in the prompt too, unless the server shows it to the model by itself: a server that
        only bars wrong tokens leaves the model guessing."""
        messages = [{"role": message.speaker, "content": message.text} for message in request.messages]
        native = self.options.takes("response_format") and closed(request.json_schema)
        if self._url == OPENAI and native:
            return messages
        if messages[0]["role"] == "system":
            messages[0]["content"] += f"\n\n{in_words(request)}"
            return messages
        return [{"role": "system", "content": in_words(request)}, *messages]

    def _send(self, body: dict[str, Any], request: Request[T]) -> Answer:
        """The error of a call is made anew: the library's own may hold what was sent."""
        try:
            return self._stream(body, request) if "stream" in body else self._whole(body, request)
        except openai.APIStatusError as error:
            text = scrubbed(said(error.body, error.message), self._key)
            problem = failure(self.name, error.status_code, text, error.response.headers)
        except (openai.APIConnectionError, httpx2.TransportError) as error:
            problem = lost(self.name, error)
        except openai.APIError as error:
            text = scrubbed(said(error.body, error.message), self._key)
            problem = CutOff(f"{self.name}: {text[:500]}", maybe_charged=True)
        except ValueError:
            problem = CutOff(f"{self.name}: sent what is not JSON", maybe_charged=True)
        raise problem

    def _stream(self, body: dict[str, Any], request: Request[T]) -> Answer:
        gathering = Gathering(self.name, request.output_limit, self._limits)
        reason, refused, usage = None, False, None
        with self.client.chat.completions.create(**body) as chunks:
            if "json" in chunks.response.headers.get("content-type", ""):
                self.options.drop("stream")
                whole = ChatCompletion.model_validate_json(chunks.response.read())
                return self._from_whole(whole, request)
            for chunk in chunks:
                gathering.check_time()
                usage = chunk.usage or usage
                for choice in chunk.choices or []:
                    reason = choice.finish_reason or reason
                    refused = refused or bool(choice.delta.refusal)
                    gathering.add(choice.delta.refusal or choice.delta.content or "")
                if gathering.too_long:
                    reason = "length"
                    break
        if reason is None:
            raise CutOff(f"{self.name}: the answer has no end", maybe_charged=True)
        return self._answer(gathering.text, "content_filter" if refused else reason, usage)

    def _whole(self, body: dict[str, Any], request: Request[T]) -> Answer:
        return self._from_whole(self.client.chat.completions.create(**body), request)

    def _from_whole(self, completion: ChatCompletion, request: Request[T]) -> Answer:
        if not getattr(completion, "choices", None):
            raise CutOff(f"{self.name}: sent no answer", maybe_charged=True)
        choice = completion.choices[0]
        gathering = Gathering(self.name, request.output_limit, self._limits)
        gathering.add(choice.message.refusal or choice.message.content or "")
        reason = "content_filter" if choice.message.refusal else choice.finish_reason
        return self._answer(gathering.text, "length" if gathering.too_long else reason, completion.usage)

    def _answer(self, text: str, reason: str, usage: CompletionUsage | None) -> Answer:
        stop = STOPS.get(reason, "done")
        text = scrubbed(text, self._key)
        return Answer(text=text, stop=stop, model=self.name, usage=_usage(usage) if usage else None)


def _usage(usage: CompletionUsage) -> Usage:
    details = usage.prompt_tokens_details
    return Usage(
        tokens_in=usage.prompt_tokens,
        tokens_out=usage.completion_tokens,
        tokens_cached=(details.cached_tokens or 0) if details else 0,
        tokens_stored=(details.cache_write_tokens or 0) if details else 0,
    )
