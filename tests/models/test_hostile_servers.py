"""Whatever a server does, a call ends within its limit, as an answer or as a failure that says what it is."""

import json
import resource
import time
from pathlib import Path

import pytest

from kernelblaster.models.factory import Service, open_models
from kernelblaster.models.failures import (
    BadAnswer,
    BudgetSpent,
    CallTimedOut,
    CutOff,
    Declined,
    Empty,
    ModelError,
    NotAllowed,
    TooLong,
    Unavailable,
)
from kernelblaster.models.ledger import Ledger, ModelBudget
from kernelblaster.models.names import OWN_KEY, parse_table
from kernelblaster.models.prices import Prices
from kernelblaster.models.retries import Patience
from kernelblaster.models.wire import CallLimits
from tests.models.asked import PROTOCOLS, QUESTION, ROLES, Waits, question
from tests.models.hostile import (
    GOOD,
    MEGABYTE,
    Behaviour,
    answers,
    bomb,
    choice,
    counts,
    endless,
    head,
    hostile,
    in_choice,
    nested,
    reset,
    sends,
    streams,
    waits,
    whole,
)

KEY = "sk-planted-0123456789"
BYTES = {"body_bytes": 8 << 20, "document_bytes": 1 << 20}
PATIENT = CallLimits(connect_s=60, silence_s=60, call_s=60, **BYTES)  # type: ignore[arg-type]
SHORT = CallLimits(connect_s=60, silence_s=0.2, call_s=0.3, **BYTES)  # type: ignore[arg-type]
MARGIN_S = 30.0  # for a machine with other work
ANSWERED = None
HOSTILE: dict[str, tuple[Behaviour, type[ModelError] | None]] = {
    # time
    "says nothing": (waits(), CallTimedOut),
    "headers byte by byte": (endless(b"HTTP/1.1 200 OK\r\nx: ", lambda _: b"x", 0.02), CallTimedOut),
    "header lines without an end": (
        endless(b"HTTP/1.1 200 OK\r\n", lambda _: b"a: b\r\n", 0.02),
        CallTimedOut,
    ),
    "stops after the status": (waits(b"HTTP/1.1 200 OK\r\n"), CallTimedOut),
    "stops after the headers": (waits(head()), CallTimedOut),
    "body byte by byte": (endless(head(), lambda _: b"d", 0.02), CallTimedOut),
    "whole body byte by byte": (endless(head(kind="application/json"), lambda _: b" ", 0.02), CallTimedOut),
    "error body byte by byte": (endless(head("500 No"), lambda _: b" ", 0.02), CallTimedOut),
    "comments without an end": (endless(head(), lambda _: b": still here\n\n", 0.02), CallTimedOut),
    "pings without an end": (endless(head(), lambda _: b'data: {"type": "ping"}\n\n', 0.02), CallTimedOut),
    "empty pieces without an end": (endless(head(), lambda speaks: speaks.piece(""), 0.02), CallTimedOut),
    "100 Continue without an end": (
        endless(b"", lambda _: b"HTTP/1.1 100 Continue\r\n\r\n", 0.02),
        CallTimedOut,
    ),
    # size
    "text without an end": (endless(head(), lambda speaks: speaks.piece("x" * 1000)), TooLong),
    "a line without an end": (endless(head() + b"data: ", lambda _: MEGABYTE), CutOff),
    "a document without an end": (endless(head(kind="application/json") + b'"', lambda _: MEGABYTE), CutOff),
    "a gigabyte of comments": (endless(head(), lambda _: b":" + MEGABYTE[:9999] + b"\n"), CutOff),
    "a gigabyte of error": (endless(head("400 Bad"), lambda _: MEGABYTE), Declined),
    "a gigabyte in one header": (endless(b"HTTP/1.1 200 OK\r\nx: ", lambda _: MEGABYTE), CutOff),
    "a gzip bomb": (sends(head(content_encoding="gzip"), bomb()), CutOff),
    "a gzip bomb as an error": (sends(head("503 No", content_encoding="gzip"), bomb()), Unavailable),
    "broken gzip": (sends(head(content_encoding="gzip") + b"\x1f\x8b\x08garbage"), CutOff),
    "an unknown compression": (sends(head(content_encoding="br") + b"data: {}\n\n"), CutOff),
    # HTTP
    "closes at once": (sends(), CutOff),
    "resets at once": (reset(), CutOff),
    "resets in the status": (reset(b"HTTP/1.1 2"), CutOff),
    "resets in the headers": (reset(b"HTTP/1.1 200 OK\r\ncontent-ty"), CutOff),
    "resets in the body": (reset(head() + b'data: {"type": "ping"}\n\n'), CutOff),
    "closes in the body": (sends(head(content_length="1000") + b"data: "), CutOff),
    "a length that is no number": (sends(head(content_length="many") + b"{}"), CutOff),
    "a negative length": (sends(head(content_length="-1") + b"{}"), CutOff),
    "two lengths": (sends(head(content_length="2\r\ncontent-length: 5") + b"{}"), CutOff),
    "chunks that are none": (sends(head(transfer_encoding="chunked") + b"zz\r\nhello\r\n"), CutOff),
    "a chunk of a petabyte": (waits(head(transfer_encoding="chunked") + b"fffffffffffff\r\nx"), CallTimedOut),
    "not HTTP": (sends(b"\x16\x03\x01\x02\x00 hello"), CutOff),
    "another version": (sends(b"HTTP/9.9 200 OK\r\n\r\n"), CutOff),
    "headers that are not text": (sends(b"HTTP/1.1 200 OK\r\n\xff\xfe: \x00\r\n\r\n"), CutOff),
    "status 204": (sends(head("204 Nothing")), CutOff),
    "status 201": (sends(head("201 Made") + b"{}"), CutOff),
    "status 999": (sends(head("999 What") + b"{}"), Unavailable),
    "status 0": (sends(head("0 What") + b"{}"), CutOff),
    "redirects to itself": (sends(head("307 There", location="/v1/again")), Declined),
    "redirects elsewhere": (sends(head("308 There", location="http://127.0.0.2:9/steal")), Declined),
    "redirects nowhere": (sends(head("302 There", location="http://[")), Declined),
    "repeats the key": (sends(head("400 Bad", kind="application/json") + json.dumps(KEY).encode()), Declined),
    "refuses the key": (sends(head("401 No") + f"Bearer {KEY}".encode()), NotAllowed),
    "an error that is a list": (sends(head("400 Bad", kind="application/json") + b"[[1], {}]"), Declined),
    "an error nested deep": (sends(head("400 Bad") + b"[" * 50_000), Declined),
    "an error without text": (sends(head("500 No")), Unavailable),
    # waiting
    "retry in the year 99999": (
        sends(head("429 Busy", retry_after="Fri, 31 Dec 99999 23:59:59 GMT")),
        Unavailable,
    ),
    "retry after infinity": (sends(head("429 Busy", retry_after="inf")), Unavailable),
    "retry after NaN": (sends(head("429 Busy", retry_after_ms="nan", retry_after="nan")), Unavailable),
    "retry after 1e300": (sends(head("429 Busy", retry_after="1e300")), Unavailable),
    "retry before now": (sends(head("429 Busy", retry_after="-1e9")), Unavailable),
    "retry after garbage": (
        sends(head("503 No", retry_after="Mon, 99 Foo 2020 99:99:99 +9999999")),
        Unavailable,
    ),
    # JSON
    "an HTML page": (sends(head(kind="text/html") + b"<html>Please log in</html>"), CutOff),
    "nothing": (sends(head()), CutOff),
    "an empty document": (whole(b""), CutOff),
    "cut JSON": (streams(b'{"type": "content_block_delta", "choices": ['), CutOff),
    "cut whole JSON": (whole(b'{"choices": [{"message"'), CutOff),
    "nested 100,000 deep": (streams(nested(100_000)), CutOff),
    "nested 500 deep": (streams(nested(500)), CutOff),
    "whole and nested": (whole(nested(100_000)), CutOff),
    "not UTF-8": (answers(lambda body: body.replace(b"42", b"\xff\xfe")), CutOff),
    "half a surrogate pair": (answers(lambda body: body.replace(b"product", b"\\ud800")), CutOff),
    "a byte-order mark": (streams(b"\xef\xbb\xbf" + json.dumps(choice(choices=[])).encode()), CutOff),
    "a key twice": (streams(b'{"type": "ping", "type": "x", "choices": [], "choices": []}'), CutOff),
    "NaN": (streams(b'{"type": "ping", "x": NaN, "choices": []}'), CutOff),
    "a number of 10,000 digits": (streams(b'{"type": "ping", "x": ' + b"9" * 10_000 + b"}"), CutOff),
    "1e999": (streams(b'{"type": "ping", "x": 1e999}'), CutOff),
    # types
    "a list": (streams([]), CutOff),
    "a number": (streams(42), CutOff),
    "null": (streams(None), CutOff),
    "choices and type that are objects": (streams(choice(choices={}, type={})), CutOff),
    "choices and deltas of numbers": (streams(choice(choices=[1], delta=1)), CutOff),
    "no choices": (streams(choice(choices=[], type="ping")), CutOff),
    "text that is a number": (streams(in_choice(content=7, text=7)), CutOff),
    "text that is a list": (streams(in_choice(content=[GOOD], text=[GOOD])), CutOff),
    "an end that is a list": (
        streams(choice(type="message_delta", delta={"stop_reason": []}, choices=[{"finish_reason": []}])),
        CutOff,
    ),
    "null as text, and no end": (
        streams(in_choice(content=None, text=None), {"choices": 1, "type": []}),
        CutOff,
    ),
    "a tool call instead of text": (
        streams(
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use"},
                "choices": [{"delta": {"tool_calls": [{"id": "x"}]}, "finish_reason": "tool_calls"}],
            }
        ),
        Empty,
    ),
    "an error that is a number": (streams({"type": "error", "error": 7}), CutOff),
    "events of the wrong kind": (
        sends(head() + b"event: error\ndata: 7\n\nid: 1\nretry: 99999999999\n\n"),
        CutOff,
    ),
    # counts
    "negative counts": (counts("-1000000"), ANSWERED),
    "absurd counts": (counts("123456789012345"), ANSWERED),
    "counts of zero": (counts("0"), ANSWERED),
    "counts that are strings": (counts('"17"'), ANSWERED),
    "counts that are lists": (counts("[1]"), ANSWERED),
    "counts that are true": (counts("true"), ANSWERED),
    "counts that are NaN": (counts("NaN"), CutOff),
    "counts that are fractions": (counts("1.5"), ANSWERED),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_call_ends_within_its_limit_and_says_why(
    name: str, protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OWN_KEY, KEY)
    behaviour, expected = HOSTILE[name]
    limits = SHORT if expected is CallTimedOut else PATIENT
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with hostile(behaviour) as (address, requests):
        model = f"{protocol}:m@{address}/v1" if protocol == "openai" else f"{protocol}:m@{address}"
        ledger = Ledger(Prices({}, {}), ModelBudget(), tmp_path / "usage.jsonl")
        patience = Patience(tries=1, sleep=Waits())
        service = Service(limits=limits, patience=patience, answers=tmp_path / "answers")
        models = open_models(parse_table([model], ROLES), ledger, service)
        begin = time.monotonic()
        if expected is ANSWERED:
            reply = models.ask(QUESTION)
            assert reply.value.product == 42 and reply.usage is None
            assert '"doubt":"the server' in (tmp_path / "usage.jsonl").read_text()
        else:
            with pytest.raises(expected) as caught:
                models.ask(QUESTION)
            assert isinstance(caught.value, Unavailable | Declined | NotAllowed | BadAnswer)
            text = str(caught.value)
            assert 20 < len(text) < 1000 and "Traceback" not in text and KEY not in text
        assert time.monotonic() - begin < SHORT.call_s + MARGIN_S
        assert len(requests) == 1 or (expected is CallTimedOut and not requests)
    assert ledger.total().usage.tokens <= QUESTION.bound.tokens + 20_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 150_000
    ledger.close()


def test_a_server_that_counts_below_zero_does_not_lift_the_budget(tmp_path: Path) -> None:
    budget = ModelBudget(tokens=QUESTION.bound.tokens + 10)
    with hostile(counts("-1000000")) as (address, requests):
        ledger = Ledger(Prices({}, {}), budget, tmp_path / "usage.jsonl")
        service = Service(limits=PATIENT, answers=tmp_path / "answers")
        models = open_models(parse_table([f"openai:m@{address}/v1"], ROLES), ledger, service)
        models.ask(QUESTION)
        with pytest.raises(BudgetSpent):
            models.ask(question("And 7 times 6?"))
        assert len(requests) == 1
        ledger.close()
