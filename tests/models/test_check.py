"""`check_model` says what works, by one tiny call."""

import json
from pathlib import Path

import pytest

from kernelblaster.models.answers import Answers
from kernelblaster.models.check import check_model
from kernelblaster.models.request import ModelAnswer
from tests.models.asked import QUESTION
from tests.models.server import Action, Says, Script, Status, serving

GOOD = Says('{"product": 42}')


def found(name: str) -> dict[str, str]:
    return {finding.subject: finding.state for finding in check_model(name)}


def test_a_good_openai_server(tmp_path: Path) -> None:
    script = Script(GOOD)
    with serving(script) as address:
        findings = {f.subject: f for f in check_model(f"openai:m@{address}/v1")}
    states = {subject: f.state for subject, f in findings.items()}
    assert states.pop("price") == "limited" and states.pop("context length") == "limited"
    assert set(states.values()) == {"ok"} and len(script.calls) == 1
    assert "16384" in findings["context length"].detail


def test_a_good_anthropic_server() -> None:
    with serving(Script(GOOD)) as address:
        states = found(f"anthropic:m@{address}")
    assert states["structured output"] == states["streaming"] == states["context length"] == "ok"


def test_a_simple_server_is_limited_and_works() -> None:
    def simple(body: dict[str, object]) -> Action:
        for name in ("response_format", "stream"):
            if name in body:
                return Status(400, f"{name} is not supported")
        return Says(f"It is {json.dumps({'product': 42})}", count_tokens=False)

    with serving(Script(simple)) as address:
        states = found(f"openai:m@{address}/v1")
    assert states["model"] == "ok"
    assert states["structured output"] == states["streaming"] == states["usage"] == "limited"


@pytest.mark.parametrize("name", ["nonsense", "openai:gpt-x", "openai:m@http://127.0.0.1:9/v1"])
def test_what_cannot_be_used_is_one_finding_with_the_reason(name: str) -> None:
    (finding,) = check_model(name)
    assert finding.state == "missing" and finding.needed and finding.detail


def test_folders_are_looked_at(tmp_path: Path) -> None:
    assert found(f"replay:{tmp_path}") == {"replay": "missing"}
    Answers(tmp_path).keep(QUESTION, ModelAnswer(text="{}", stop="done", model="m", usage=None))
    assert found(f"replay:{tmp_path}") == {"replay": "ok"}
    assert found(f"handoff:{tmp_path}") == {"hand-off": "ok"}
