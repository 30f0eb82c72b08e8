"""Client of OpenAI's chat completions API: OpenAI, vLLM, Ollama, llama.cpp, OpenRouter, ..."""

from typing import Any

from kernelblaster.models.exchange import Exchange
from kernelblaster.models.keys import answer, context_length
from kernelblaster.models.options import ServerOptions
from kernelblaster.models.request import ModelAnswer, Request, T
from kernelblaster.models.schemas import closed, in_words, strict
from kernelblaster.models.wire import CallLimits

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


class OpenAIServer:
    """An endpoint (source of unparsed answers) for one model of a server with OpenAI's API. `name` is the
    model's name in error messages, `model` the server's name for it. `url` is the server's address; `key` is
    the name of the environment variable that has the API key, which may be unset. `limits` are the limits of
    one call. Optional fields of requests (`OPTIONS`: structured output, streaming, ...) are sent until the
    server rejects them."""

    def __init__(self, name: str, model: str, *, url: str, key: str, limits: CallLimits) -> None:
        """`name` is the model's name in messages, `model` the server's name for it. `key` names the
        environment variable with the server's key; it may be unset."""
        self.name = name
        self.key = key
        self._model = model
        self._url = url
        self._server = Exchange(name=name, speaks="openai", url=url, key=key, limits=limits)
        self.options = ServerOptions(OPTIONS)
        names = ("max_tokens", "max_completion_tokens")
        self._limit_names = names if url != OPENAI else names[::-1]

    def answer(self, request: Request[T]) -> ModelAnswer:
        return self.options.asked(lambda: self._body(request), lambda body: self._send(body, request))

    def context_length(self) -> int | None:
        """Asks the server for its list of models and returns how many tokens this model takes, prompt and
        answer together; None if the list does not say."""
        return context_length(self._server.asking("models"), self._model)

    def _body(self, request: Request[T]) -> dict[str, Any]:
        """The JSON body of the HTTP call for a request. Options that this server has rejected before are left
        out."""
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
        """The messages for the body. The schema is added to the system message, except for OpenAI's own
        server, which shows it to the model: constrained decoding alone leaves a model guessing."""
        messages = [{"role": message.speaker, "content": message.text} for message in request.messages]
        native = self.options.takes("response_format") and closed(request.json_schema)
        if self._url == OPENAI and native:
            return messages
        if messages[0]["role"] == "system":
            messages[0]["content"] += f"\n\n{in_words(request)}"
            return messages
        return [{"role": "system", "content": in_words(request)}, *messages]

    def _send(self, body: dict[str, Any], request: Request[T]) -> ModelAnswer:
        """Send a body and return the answer. If the answer came whole although streaming was requested,
        streaming is not requested again."""
        said = answer(self._server.asking("chat/completions", body, request.bound))
        if said.whole and "stream" in body:
            self.options.drop("stream")
        return said.answer
