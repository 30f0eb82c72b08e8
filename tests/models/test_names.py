"""Names on the command line mean one model each, or are refused with a reason."""

import subprocess
import sys
from pathlib import Path

import pytest

from kernelblaster.models.factory import Service, open_models, open_server
from kernelblaster.models.failures import BadName, NotAllowed
from kernelblaster.models.ledger import Ledger, ModelBudget
from kernelblaster.models.names import KINDS, OWN_KEY, ModelName, parse_name, parse_table
from kernelblaster.models.prices import Prices
from kernelblaster.models.wire import CallLimits
from tests.models.asked import QUESTION, ROLES

NAMES = {
    "openai:gpt-x": ModelName("openai", "gpt-x"),
    "ollama:qwen3:32b": ModelName("ollama", "qwen3:32b"),
    "openrouter:a/b@c": ModelName("openrouter", "a/b@c"),
    "openai:m@http://host:1/v1": ModelName("openai", "m", "http://host:1/v1"),
    "handoff:some/folder@http://x": ModelName("handoff", "some/folder@http://x"),
}


@pytest.mark.parametrize("text", NAMES)
def test_a_name_is_a_kind_a_model_and_sometimes_an_address(text: str) -> None:
    assert parse_name(text) == NAMES[text] and str(parse_name(text)) == text


@pytest.mark.parametrize("text", ["gpt-x", "openai:", "nobody:x", "openai:m@http://u:p@host/v1", ""])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(BadName) as caught:
        parse_name(text)
    assert "u:p" not in str(caught.value)


def test_roles_can_have_models_of_their_own() -> None:
    table = parse_table(["openai:gpt-x", "lowerer=anthropic:claude-y"], ROLES)
    assert str(table.of("lowerer")) == "anthropic:claude-y" and str(table.of("matcher")) == "openai:gpt-x"
    with pytest.raises(BadName, match="lowerer, matcher"):
        parse_table(["lowererr=openai:x"], ROLES)


def test_a_role_without_a_model_is_an_error_of_the_caller(tmp_path: Path) -> None:
    table = parse_table([f"matcher=handoff:{tmp_path}"], ROLES)
    models = open_models(table, Ledger(Prices({}, {}), ModelBudget()), Service(answers=tmp_path))
    with pytest.raises(BadName, match="lowerer"):
        models.ask(QUESTION)


@pytest.mark.parametrize("kind", [kind for kind, server in KINDS.items() if server.needs_key])
def test_a_missing_key_is_named_before_anything_is_asked(kind: str) -> None:
    with pytest.raises(NotAllowed, match=KINDS[kind].key):
        open_server(parse_name(f"{kind}:m"), CallLimits())


def test_an_address_of_ones_own_never_gets_the_key_of_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    assert open_server(parse_name("openai:m@http://localhost:1/v1"), CallLimits()).key == OWN_KEY
    assert open_server(parse_name("openai:m"), CallLimits()).key == "OPENAI_API_KEY"


def test_nothing_of_the_servers_is_imported_before_one_is_opened() -> None:
    code = "import kernelblaster.models, sys; print({'httpx2', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "set()", done.stderr
