"""Tests a model with one small call, for `kernelblaster doctor --model NAME`."""

import time
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from kernelblaster.models.factory import open_server
from kernelblaster.models.failures import ModelError
from kernelblaster.models.keys import has_key
from kernelblaster.models.names import OWN_KEY, ModelName, parse_name
from kernelblaster.models.prices import Prices, read_prices
from kernelblaster.models.request import ChatMessage, Reply, Request
from kernelblaster.models.validating_model import ValidatingModel
from kernelblaster.models.wire import CallLimits
from kernelblaster.records.finding import Finding

LIMITS = CallLimits(connect_s=5, silence_s=60, call_s=120)
SMALLEST_CONTEXT = 32_000  # tokens; prompts for large kernels are cut below this


class ServerKind(BaseModel):
    product: int


TINY = Request(
    role="doctor",
    messages=(
        ChatMessage(speaker="system", text="You answer briefly."),
        ChatMessage(speaker="user", text="What is 6 times 7?"),
    ),
    schema=ServerKind,
    output_limit=2048,
)


def check_model(text: str, *, limits: CallLimits = LIMITS, prices: Prices | None = None) -> list[Finding]:
    """Tests the model named `text` (KIND:NAME) with one small call, for `doctor`, and returns findings:
    whether it answers, and what its server supports. A model that cannot be used gives a finding, and no
    exception. Nothing is asked if the name is that of a folder (a hand-off to a person, or recorded answers).
    `limits` are those of the call; `prices` are those of models, None for the shipped ones."""
    try:
        name = parse_name(text)
        return _server(name, limits, prices or read_prices()) if name.server else [_folder(name)]
    except ModelError as error:
        return [Finding("model", "missing", str(error), needed=True)]


def _server(name: ModelName, limits: CallLimits, prices: Prices) -> list[Finding]:
    """Findings on a model's server for `doctor`, from its answer to a small question (6 times 7): the answer,
    structured output, streaming, token counts, price, context length. Raises ModelError if there is no
    answer."""
    server = open_server(name, limits)
    start = time.monotonic()
    reply = ValidatingModel(server).ask(TINY)
    seconds = time.monotonic() - start
    return [
        Finding("model", "ok", f"{name} answered in {seconds:.1f} s", _about_key(name), needed=True),
        _correct(reply),
        _structured(server.options.takes("response_format") or server.options.takes("output_config"), reply),
        _streaming(name, server.options.takes("stream")),
        _usage(reply),
        _price(name, prices),
        _context(server.context_length()),
    ]


def _about_key(name: ModelName) -> str:
    """A sentence that names the environment variable in which a key could be given to a server that needs
    none; empty if it needs one or a key is set."""
    unlocked = name.server and not name.server.needs_key and not has_key(OWN_KEY)
    return f"Without a key; one for it would be in {OWN_KEY}." if unlocked else ""


def _correct(reply: Reply[ServerKind]) -> Finding:
    if reply.value.product == 42:
        return Finding("answer", "ok", "6 times 7 is 42")
    advice = "A model that cannot do this will not write kernels."
    return Finding("answer", "limited", f"6 times 7 is not {reply.value.product}", advice)


def _structured(native: bool, reply: Reply[ServerKind]) -> Finding:
    """The finding on whether answers keep to the JSON schema, from a `reply` to a small question; `native`:
    the server accepted the schema as an option."""
    if native and reply.calls == 1:
        return Finding("structured output", "ok", "the server keeps answers to the schema")
    how = "the server declines it" if not native else "the server takes it, but the answer did not fit"
    advice = "Answers are searched for JSON, and asked for again once where there is none that fits."
    return Finding("structured output", "limited", how, advice)


def _streaming(name: ModelName, taken: bool) -> Finding:
    if taken or (name.server and name.server.speaks == "anthropic"):
        return Finding("streaming", "ok", "an answer that is too long or too slow is stopped on its way")
    advice = "Such an answer is stopped by the server's own limit, or by the limit on silence."
    return Finding("streaming", "limited", "the server sends whole answers", advice)


def _usage(reply: Reply[ServerKind]) -> Finding:
    if reply.usage is None:
        advice = "Budgets count the most that each call may have taken."
        return Finding("usage", "limited", "the server does not count tokens", advice)
    return Finding("usage", "ok", f"{reply.usage.tokens_in} tokens in, {reply.usage.tokens_out} out")


def _price(name: ModelName, prices: Prices) -> Finding:
    rates = prices.of(str(name))
    if rates is None:
        advice = "Costs are in tokens only. A price can be given in a file (--prices)."
        return Finding("price", "limited", "is not known", advice)
    detail = f"${rates.input:g} and ${rates.output:g} for a million tokens in and out"
    return Finding("price", "ok", f"{detail} ({prices.origin(str(name))})")


def _context(length: int | None) -> Finding:
    if length is None:
        return Finding("context length", "limited", "the server does not say")
    state: Literal["ok", "limited"] = "ok" if length >= SMALLEST_CONTEXT else "limited"
    advice = "" if state == "ok" else f"Prompts can be longer; {SMALLEST_CONTEXT} tokens are enough."
    return Finding("context length", state, f"{length} tokens", advice)


def _folder(name: ModelName) -> Finding:
    folder = Path(name.rest)
    if name.kind == "replay":
        count = sum(1 for _ in folder.glob("*.json"))
        state: Literal["ok", "missing"] = "ok" if count else "missing"
        return Finding("replay", state, f"{folder}: {count} recorded answers", needed=True)
    return Finding("hand-off", "ok", f"questions will be folders in {folder}", needed=True)
