"""One exchange with a model's server: the request, which does not contain the key; sending it; and validating
the reply."""

import json
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from kernelblaster.models.bounded_http import Response, calling
from kernelblaster.models.failures import CutOff
from kernelblaster.models.request import ModelAnswer, TokenUsage
from kernelblaster.models.wire import NO_KEY, CallLimits, complaint, failure, scrubbed
from kernelblaster.records.record import Record
from kernelblaster.strict_json import InvalidJson, first_problem, parse_json

Shaped = TypeVar("Shaped", bound=BaseModel)
Read = TypeVar("Read")
SPARE_TOKENS = 20_000  # what a server may add to a prompt of its own, and think beyond a limit


class Exchange(Record):
    """A request to a server, without the key. It is a POST of `body` to `url`/`path`, or a GET if `body` is
    None. `name` is the model's name for messages, `speaks` the server's protocol. `key` is the name of the
    environment variable that has the key. `limits` are those on time and bytes; `bound` is the most tokens
    that the call should take."""

    name: str
    speaks: Literal["openai", "anthropic"]
    url: str
    key: str
    limits: CallLimits
    path: str = ""
    body: dict[str, Any] | None = None
    bound: TokenUsage = TokenUsage(tokens_in=0, tokens_out=0)

    def asking(
        self, path: str, body: dict[str, Any] | None = None, bound: TokenUsage | None = None
    ) -> "Exchange":
        """Returns another request to the same server, for `path` below its URL: a POST of `body`, or a GET if
        that is None. `bound` is the most tokens that the call should take, None for the same as in this
        request."""
        return self.model_copy(update={"path": path, "body": body, "bound": bound or self.bound})


class Said(Record):
    """A server's answer to a request. `whole` is True if it came in one piece and not as a stream."""

    answer: ModelAnswer
    whole: bool = False


class Shape(BaseModel):
    """Base of the classes into which parts of a server's reply are parsed. Fields that a class declares are
    validated, all others are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


def exchanged(exchange: Exchange, key: str | None, read: Callable[[Response], Read]) -> Read:
    """Sends the request `exchange` and returns what the function `read` returns for the response. `key` is
    the API key, None for none. Raises a `ModelError` if the status is not 200 or anything fails; its text
    does not contain the key."""
    key = key or NO_KEY
    headers = {"authorization": f"Bearer {key}"}
    if exchange.speaks == "anthropic":
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    body = None if exchange.body is None else json.dumps(exchange.body).encode()
    url = f"{exchange.url}/{exchange.path}"
    with calling(exchange.name, url, headers, body, exchange.limits) as response:
        if response.status != 200:
            text = scrubbed(complaint(response.complaint()), key)
            raise failure(exchange.name, response.status, text, response.headers)
        return read(response)


def shaped(where: str, data: bytes, shape: type[Shaped]) -> Shaped:
    """Parses the JSON document `data` of a server's reply into an object of the class `shape`, and returns
    it. Raises CutOff if the document is malformed. The error's text does not quote the document, which may
    contain secrets. `where` is the name of the server in error messages."""
    try:
        return shape.model_validate(parse_json(data))
    except InvalidJson as error:
        problem = f"what it sent {error}"
    except ValidationError as error:
        problem = f"sent a reply of the wrong form: {first_problem(error)}"
    raise CutOff(f"{where}: {problem}", maybe_charged=True)


def believed(
    counts: Callable[[], TokenUsage | None], exchange: Exchange, text: str
) -> tuple[TokenUsage | None, str]:
    """Checks whether the token counts that a server reports for the request `exchange`, whose answer is
    `text`, are plausible. `counts()` returns the counts, or None if the server reports none. Returns (the
    counts, "") if they are plausible; (None, "") if there are none; (None, the reason) if they are not
    plausible or `counts()` raises ValidationError. Counts are not plausible if they are more than twice what
    the request can take (plus 20,000 tokens, SPARE_TOKENS), or zero where there was text, or if more tokens
    were cached than the prompt has. Without counts, the ledger (the record of costs) charges the call the
    most that it may have taken."""
    try:
        usage = counts()
    except ValidationError as error:
        return None, f"the server's usage is no count: {first_problem(error)}"
    if usage is None:
        return None, ""
    doubt = _doubt(usage, exchange.bound, text)
    return (None, doubt) if doubt else (usage, "")


def _doubt(usage: TokenUsage, bound: TokenUsage, text: str) -> str:
    """Why the server's token count `usage` is implausible for a request bounded by `bound` and an answer
    `text`, in words; empty if it is plausible."""
    if usage.tokens_in > 2 * bound.tokens_in + SPARE_TOKENS:
        return f"the server counts {usage.tokens_in} tokens in, of at most {bound.tokens_in}"
    if usage.tokens_out > 2 * bound.tokens_out + SPARE_TOKENS:
        return f"the server counts {usage.tokens_out} tokens out, of at most {bound.tokens_out}"
    if not usage.tokens_in or (text and not usage.tokens_out):
        return "the server counts no tokens, and there were some"
    if usage.tokens_cached + usage.tokens_stored > usage.tokens_in:
        return "the server counts more tokens in its cache than in the prompt"
    return ""
