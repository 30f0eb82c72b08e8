"""Client of Anthropic's messages API."""

from typing import Any
from urllib.parse import quote

from kernelblaster.models.exchange import Exchange
from kernelblaster.models.keys import answer, context_length
from kernelblaster.models.options import ServerOptions
from kernelblaster.models.request import ModelAnswer, Request, T
from kernelblaster.models.schemas import closed, in_words, strict
from kernelblaster.models.wire import CallLimits

ANTHROPIC = "https://api.anthropic.com"
OPTIONS = {"output_config": ("output_config", "output_format", "structured", "schema", "grammar")}


class AnthropicServer:
    """An endpoint (source of unparsed answers) for one model of Anthropic, or of a server with the same API.
    `name` is the model's name in error messages, `model` the server's name for it. `url` is the server's
    address; `key` is the name of the environment variable that has the API key. `limits` are the limits of
    one call. The system message is marked for the server's prompt cache, so that the next request of the same
    role costs less. Temperature and seed of requests are not sent."""

    def __init__(self, name: str, model: str, *, url: str, key: str, limits: CallLimits) -> None:
        """`name` is the model's name in messages, `model` the server's name for it. `key` names the
        environment variable with the server's key; it may be unset."""
        self.name = name
        self.key = key
        self._model = model
        self._server = Exchange(name=name, speaks="anthropic", url=url, key=key, limits=limits)
        self.options = ServerOptions(OPTIONS)

    def answer(self, request: Request[T]) -> ModelAnswer:
        return self.options.asked(lambda: self._body(request), lambda body: self._send(body, request))

    def context_length(self) -> int | None:
        """Asks the server how many tokens the model takes, prompt and answer together; None if it does not
        say."""
        return context_length(self._server.asking(f"v1/models/{quote(self._model, safe='')}"), self._model)

    def _body(self, request: Request[T]) -> dict[str, Any]:
        """The JSON body of the HTTP call for a request. Options that this server has rejected before are left
        out."""
        spoken = [m for m in request.messages if m.speaker != "system"]
        system = [m.text for m in request.messages if m.speaker == "system"]
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": request.output_limit,
            "stream": True,
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

    def _send(self, body: dict[str, Any], request: Request[T]) -> ModelAnswer:
        return answer(self._server.asking("v1/messages", body, request.bound)).answer
