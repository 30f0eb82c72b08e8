"""A key goes to its server, and nowhere else."""

import json
import logging
import traceback
from pathlib import Path

import pytest

from kernelblaster.models.check import check_model
from kernelblaster.models.failures import ModelError
from kernelblaster.models.names import OWN_KEY
from kernelblaster.models.wire import CallLimits
from tests.models.asked import PROTOCOLS, asking, question
from tests.models.server import Action, Cut, Hangs, Raw, Says, Script, Status, serving

KEY = "sk-planted-0123456789"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_planted_key_is_in_no_file_log_error_or_prompt(
    protocol: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(OWN_KEY, KEY)
    caplog.set_level(logging.DEBUG)
    echo = f"the header was: Bearer {KEY}"
    actions: list[Action] = [
        Says(json.dumps({"product": 42, "remark": KEY})),
        Says("malformed " + KEY),
        Says("still " + KEY),
        Says("I refuse " + KEY, refusal=True),
        Status(401, echo),
        Status(400, echo),
        Status(500, echo),
        Raw(echo.encode(), "text/event-stream"),
        Raw(b'event: error\ndata: {"error": {"message": "%s"}}\n\n' % echo.encode(), "text/event-stream"),
        Cut(),
        Hangs(20),
    ]
    script = Script(*actions)
    texts = []
    limits = CallLimits(silence_s=1)
    with asking(protocol, script, tmp_path, tries=1, limits=limits, record=tmp_path / "record") as (
        model,
        ledger,
    ):
        for number in range(len(actions) - 1):
            try:
                texts.append(repr(model.ask(question(f"number {number}"))))
            except ModelError as error:
                texts += [repr(error), "".join(traceback.format_exception(error)), repr(error.__context__)]
        texts.append(repr(ledger.totals("model")))
    assert len(script.calls) == len(actions)
    assert any(KEY in value for headers in script.headers for value in headers.values())
    assert KEY not in str(script.calls)
    texts += [caplog.text, *capsys.readouterr()]
    texts += [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(texts) > 20 and not [text for text in texts if KEY in text]


def test_the_doctor_does_not_tell_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OWN_KEY, KEY)
    with serving(Script(Status(401, f"bad key {KEY}"))) as address:
        assert KEY not in str(check_model(f"openai:m@{address}/v1"))
