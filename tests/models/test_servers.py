"""Each thing that a server can do, right or wrong, ends as designed, after a known number of calls."""

import email.utils
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelblaster.models.failures import (
    CallTimedOut,
    CutOff,
    Declined,
    Empty,
    Malformed,
    ModelError,
    NotAllowed,
    Refused,
    TooLong,
    Unavailable,
)
from kernelblaster.models.retries import Patience
from kernelblaster.models.wire import CallLimits, hinted_wait
from tests.models.asked import PROTOCOLS, QUESTION, Waits, asking, question
from tests.models.server import CACHED, USAGE, Action, Cut, Drips, Hangs, Raw, Says, Script, Status, event

GOOD = Says('{"product": 42, "remark": "easy"}')
both = pytest.mark.parametrize("protocol", PROTOCOLS)


@both
def test_an_answer_is_validated_and_counted(protocol: str, tmp_path: Path) -> None:
    script = Script(GOOD)
    with asking(protocol, script, tmp_path) as (model, _):
        reply = model.ask(QUESTION)
    assert (reply.value.product, reply.calls, reply.text) == (42, 1, GOOD.text)
    assert reply.usage is not None
    assert (reply.usage.tokens_in, reply.usage.tokens_out, reply.usage.tokens_cached) == (*USAGE, CACHED)
    assert len(script.calls) == 1


def test_openai_is_sent_the_schema_the_limit_and_the_messages(tmp_path: Path) -> None:
    script = Script(GOOD)
    with asking("openai", script, tmp_path) as (model, _):
        model.ask(QUESTION)
    (sent,) = script.calls
    schema = sent["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["product", "remark"] and schema["additionalProperties"] is False
    assert sent["max_tokens"] == 50 and sent["stream"] is True and sent["seed"] == 0
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert "temperature" not in sent


def test_anthropic_is_sent_the_schema_and_a_system_text_to_cache(tmp_path: Path) -> None:
    script = Script(GOOD)
    with asking("anthropic", script, tmp_path) as (model, _):
        model.ask(QUESTION)
    (sent,) = script.calls
    assert sent["output_config"]["format"]["schema"]["required"] == ["product", "remark"]
    cached = {"type": "text", "text": "You multiply.", "cache_control": {"type": "ephemeral"}}
    assert sent["system"] == [cached]
    assert sent["messages"] == [{"role": "user", "content": "What is 6 times 7?"}]


@both
def test_too_many_requests_are_waited_out_as_long_as_the_server_says(protocol: str, tmp_path: Path) -> None:
    waits = Waits()
    script = Script(
        Status(429, headers={"retry-after": "7"}), Status(429, headers={"retry-after-ms": "2500"}), GOOD
    )
    with asking(protocol, script, tmp_path, waits=waits) as (model, _):
        assert model.ask(QUESTION).value.product == 42
    assert len(script.calls) == 3
    assert 7 <= waits[0] <= 8.1 and 2.5 <= waits[1] <= 3.6


@both
def test_a_hint_that_is_too_long_to_wait_for_ends_the_call(protocol: str, tmp_path: Path) -> None:
    script = Script(Status(429, headers={"retry-after": "86400"}))
    with asking(protocol, script, tmp_path) as (model, _), pytest.raises(Unavailable):
        model.ask(QUESTION)
    assert len(script.calls) == 1


@both
def test_server_errors_are_tried_a_few_times_with_growing_waits(protocol: str, tmp_path: Path) -> None:
    waits = Waits()
    script = Script(Status(500))
    with asking(protocol, script, tmp_path, waits=waits) as (model, ledger), pytest.raises(Unavailable):
        model.ask(QUESTION)
    assert len(script.calls) == 4 and len(waits) == 3
    assert 0.5 <= waits[0] <= 1 <= waits[1] <= 2 <= waits[2] <= 4
    assert ledger.total().usage.tokens == 0


FINAL = [
    (Status(401), NotAllowed),
    (Status(400, "no such thing"), Declined),
    (Status(404), Declined),
    (Status(429, "insufficient_quota"), NotAllowed),
    (Status(500, headers={"x-should-retry": "false"}), Declined),
]


@both
@pytest.mark.parametrize(("action", "failure"), FINAL)
def test_what_will_not_pass_is_not_tried_again(
    protocol: str, action: Action, failure: type[ModelError], tmp_path: Path
) -> None:
    script = Script(action)
    with asking(protocol, script, tmp_path) as (model, _), pytest.raises(failure):
        model.ask(QUESTION)
    assert len(script.calls) == 1


@both
@pytest.mark.parametrize(
    ("action", "failure"), [(Hangs(30), CallTimedOut), (Cut(), CutOff), (Cut(False), CutOff)]
)
def test_hangs_and_cut_connections_are_tried_again_and_then_typed(
    protocol: str, action: Action, failure: type[ModelError], tmp_path: Path
) -> None:
    script = Script(action)
    limits = CallLimits(silence_s=0.5)
    with (
        asking(protocol, script, tmp_path, tries=2, limits=limits) as (model, ledger),
        pytest.raises(failure),
    ):
        model.ask(QUESTION)
    assert len(script.calls) == 2
    assert ledger.total().untold == 2 and ledger.total().usage.tokens == 2 * QUESTION.bound.tokens


@both
def test_a_cut_connection_does_not_hurt_when_the_next_try_succeeds(protocol: str, tmp_path: Path) -> None:
    script = Script(Cut(), Hangs(30), GOOD)
    with asking(protocol, script, tmp_path, limits=CallLimits(silence_s=2)) as (model, _):
        assert model.ask(QUESTION).value.product == 42
    assert len(script.calls) == 3


@both
def test_an_answer_that_drips_is_ended_by_the_limit_on_the_whole_call(protocol: str, tmp_path: Path) -> None:
    script = Script(Drips(0.05))
    limits = CallLimits(connect_s=2, silence_s=5, call_s=0.4)
    start = time.monotonic()
    with (
        asking(protocol, script, tmp_path, limits=limits, tries=1) as (model, _),
        pytest.raises(CallTimedOut),
    ):
        model.ask(QUESTION)
    assert time.monotonic() - start < 4


def test_a_server_that_is_not_there_costs_nothing(tmp_path: Path) -> None:
    script = Script(GOOD)
    with asking("openai", script, tmp_path, tries=2) as (model, ledger):
        pass
    with pytest.raises(Unavailable, match="cannot connect"):
        model.ask(QUESTION)
    assert ledger.total().usage.tokens == 0


@both
def test_a_malformed_answer_is_shown_to_the_model_once(protocol: str, tmp_path: Path) -> None:
    script = Script(Says('{"product": -1}'), GOOD)
    with asking(protocol, script, tmp_path) as (model, ledger):
        reply = model.ask(QUESTION)
    assert (reply.value.product, reply.calls) == (42, 2)
    assert reply.usage is not None and reply.usage.tokens_in == 2 * USAGE[0]
    said = script.calls[1]["messages"]
    assert said[-2]["content"] == '{"product": -1}' and "greater than or equal to 0" in said[-1]["content"]
    assert ledger.total().calls == 2


WRONG = ['{"product": 4', "forty-two", '{"result": 42}', '{"product": "many"}', "[42]", '{"product": 42']


@both
@pytest.mark.parametrize("text", WRONG)
def test_what_never_fits_is_malformed_after_two_calls(protocol: str, text: str, tmp_path: Path) -> None:
    script = Script(Says(text))
    with asking(protocol, script, tmp_path) as (model, _), pytest.raises(Malformed) as caught:
        model.ask(QUESTION)
    assert len(script.calls) == 2 and caught.value.answer.text == text


ENDS = [
    (Says("I would rather not.", refusal=True), Refused),
    (Says("", stop="content_filter"), Refused),
    (Says(""), Empty),
    (Says("  \n"), Empty),
    (Says('{"product": ', stop="length"), TooLong),
    (Says('{"remark": "' + "x" * (100 * 50 * 4) + '", "product": 42}'), TooLong),
]


@both
@pytest.mark.parametrize(("action", "failure"), ENDS)
def test_refused_empty_and_overlong_answers_are_typed_after_one_call(
    protocol: str, action: Says, failure: type[ModelError], tmp_path: Path
) -> None:
    script = Script(action)
    with asking(protocol, script, tmp_path) as (model, ledger), pytest.raises(failure):
        model.ask(QUESTION)
    assert len(script.calls) == 1 and ledger.total().calls == 1


@both
def test_a_body_that_is_not_json_is_tried_again(protocol: str, tmp_path: Path) -> None:
    garbage = Raw(b'event: message_start\ndata: {"id": \n\n', "text/event-stream")
    script = Script(garbage, GOOD)
    with asking(protocol, script, tmp_path) as (model, _):
        assert model.ask(QUESTION).value.product == 42
    assert len(script.calls) == 2


def test_an_error_inside_a_stream_is_tried_again(tmp_path: Path) -> None:
    for protocol, body in (
        ("openai", event({"error": {"message": "overloaded"}})),
        (
            "anthropic",
            event({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, "error"),
        ),
    ):
        script = Script(Raw(body, "text/event-stream"), GOOD)
        with asking(protocol, script, tmp_path / protocol) as (model, _):
            assert model.ask(QUESTION).value.product == 42
        assert len(script.calls) == 2


def test_a_server_that_sends_whole_answers_is_read_without_another_call(tmp_path: Path) -> None:
    whole = {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": GOOD.text}, "finish_reason": "stop"}
        ],
    }
    script = Script(Raw(json.dumps(whole).encode()), GOOD)
    with asking("openai", script, tmp_path) as (model, _):
        assert model.ask(QUESTION).value.product == 42
        assert model.ask(question("And 7 times 6?")).value.product == 42
    assert len(script.calls) == 2 and "stream" not in script.calls[1]


def test_options_that_a_server_declines_are_asked_for_once_in_all(tmp_path: Path) -> None:
    def picky(body: dict[str, object]) -> Action:
        for name in ("response_format", "stream_options", "stream", "seed", "max_tokens"):
            if name in body:
                return Status(400, f"Unknown parameter: '{name}'.")
        return Says("Sure! ```json\n" + GOOD.text + "\n```")

    script = Script(picky)
    with asking("openai", script, tmp_path) as (model, _):
        assert model.ask(QUESTION).value.product == 42
        assert len(script.calls) == 6
        assert model.ask(question("And 7 times 6?")).value.product == 42
    assert len(script.calls) == 7
    assert script.calls[-1]["max_completion_tokens"] == 50
    assert "JSON schema" in script.calls[-1]["messages"][0]["content"]


def test_anthropic_without_structured_outputs_gets_the_schema_in_words(tmp_path: Path) -> None:
    def old(body: dict[str, object]) -> Action:
        return Status(400, "output_config: not supported") if "output_config" in body else GOOD

    script = Script(old)
    with asking("anthropic", script, tmp_path) as (model, _):
        assert model.ask(QUESTION).value.product == 42
    assert "JSON schema" in script.calls[1]["system"][0]["text"] and len(script.calls) == 2


def test_a_prompt_that_is_too_long_is_no_reason_to_drop_options(tmp_path: Path) -> None:
    script = Script(Status(400, "This model's maximum context length is 10 tokens; reduce max_tokens."))
    with asking("openai", script, tmp_path) as (model, _), pytest.raises(Declined):
        model.ask(QUESTION)
    assert len(script.calls) == 1


def test_calls_at_once_are_limited(tmp_path: Path) -> None:
    def slow(_: dict[str, object]) -> Action:
        time.sleep(0.1)
        return GOOD

    script = Script(slow)
    with asking("openai", script, tmp_path, calls_at_once=2) as (model, _), ThreadPoolExecutor(6) as pool:
        list(pool.map(model.ask, [question(f"number {n}") for n in range(6)]))
    assert len(script.calls) == 6 and script.most_busy == 2


def test_hints_are_numbers_or_dates() -> None:
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    assert hinted_wait({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert 25 < (hinted_wait({"retry-after": date}) or 0) <= 31
    assert hinted_wait({"retry-after": "soon"}) is None
    assert hinted_wait({"retry-after": "inf"}) is None
    assert hinted_wait({}) is None


def test_waits_never_grow_past_the_longest() -> None:
    patience = Patience(draw=lambda: 1.0)
    assert [patience.wait_s(n, None) for n in (1, 2, 3, 20)] == [1, 2, 4, 60]
