"""One tool of a running server, called from the command line: typed arguments, files, errors, tokens."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from typer.testing import CliRunner

from kernelblaster.cli.main import app
from kernelblaster.cli.mcp import remember_token_file
from kernelblaster.errors import KernelBlasterError
from kernelblaster.mcp.client import arguments_of
from kernelblaster.mcp.desk import AgentDesk
from kernelblaster.mcp.server import http_app
from kernelblaster.mcp.setup import AgentSetup
from kernelblaster.serve.server import listen
from tests.mcp.test_server import SOURCE, TOKEN, StandIn


@pytest.fixture
def desk(tmp_path: Path) -> AgentDesk:
    made = AgentDesk(AgentSetup((), tmp_path / "runs", tmp_path / "data", str(tmp_path / "kb.db")))
    made.judge = StandIn()  # type: ignore[assignment]
    return made


@pytest.fixture
def words(desk: AgentDesk, tmp_path: Path) -> Iterator[list[str]]:
    """The options that lead to a server in a thread of this process."""
    opened = listen("127.0.0.1", 0)
    config = uvicorn.Config(http_app(desk, "127.0.0.1", TOKEN), log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[opened])), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    yield ["--address", f"http://127.0.0.1:{opened.getsockname()[1]}/mcp", "--token-file", str(token)]
    server.should_exit = True
    thread.join(10)


def said(words: list[str], *call: str, **more: Any) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["call", *call, *words], **more)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return 2, str(result.exception)
    return result.exit_code, result.stdout


def test_a_tool_is_called_with_texts_files_and_json(
    desk: AgentDesk, words: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "relu.cu"
    file.write_text(SOURCE)
    code, text = said(words, "evaluate", "task=core/level1/relu", f"candidate=@{file}", "new_run=true")
    assert code == 0 and json.loads(text)["run"] == "one"
    code, text = said(words, "emulate", "task=core/level1/relu", "candidate=@-", input=SOURCE)
    assert code == 0
    asked = desk.judge.asked  # type: ignore[attr-defined]
    assert [verb for verb, _ in asked] == ["evaluate", "emulate"]
    assert all(arguments["source"] == SOURCE for _, arguments in asked)
    code, text = said(words, "list_tasks", "words=rms")
    assert json.loads(text)["tasks"] == ["core/level1/rms_norm", "core/level2/rmsnorm_rotary"]


def test_what_a_server_offers_is_listed(words: list[str]) -> None:
    code, text = said(words)
    assert code == 0 and "evaluate(task, candidate, technique?, description?, run?, new_run?, sweep?)" in text
    assert "show_task -> write one .cu" in text and "prompt optimize_task(task)" in text
    code, text = said(words, "--json")
    assert {"instructions", "tools", "prompts"} == json.loads(text).keys()
    code, text = said(words, "optimize_task", "task=core/level1/relu", "--prompt")
    assert "core/level1/relu" in text and "`evaluate`" in text


@pytest.mark.parametrize(
    ("call", "words_of_it"),
    [
        (["run_command", "x=1"], "there is no tool"),
        (["evaluate", "tasks=x"], "no argument 'tasks'"),
        (["evaluate", "new_run=perhaps"], "no JSON"),
        (["evaluate", "task"], "NAME=VALUE"),
        (["evaluate", "candidate=@/nowhere/x.cu"], "No such file"),
        (["show_task", "task=/etc/passwd"], "there is no task"),
    ],
)
def test_what_is_wrong_is_said(words: list[str], call: list[str], words_of_it: str) -> None:
    code, text = said(words, *call)
    assert code == 2 and words_of_it in text


def test_a_wrong_token_and_a_server_that_is_not_there_are_said(words: list[str], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("another-token-of-some-length")
    wrong.chmod(0o600)
    assert "token is wrong" in said([*words[:3], str(wrong)], "list_tasks")[1]
    assert "no server answers" in said(["--address", "http://127.0.0.1:9/mcp", *words[2:]], "list_tasks")[1]
    assert "no such file" in said([*words[:3], str(tmp_path / "none")], "list_tasks")[1]


def test_arguments_get_the_types_of_the_schema() -> None:
    schema = {
        "properties": {
            "text": {"type": "string"},
            "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "names": {"type": "array"},
        }
    }
    given = {"text": "12", "maybe": "true", "count": "12", "names": '["a"]'}
    assert arguments_of(schema, given) == {"text": "12", "maybe": "true", "count": 12, "names": ["a"]}
    with pytest.raises(KernelBlasterError, match="no JSON"):
        arguments_of(schema, {"count": "many"})


def test_the_token_of_a_server_is_found_by_its_address(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELBLASTER_DATA", str(tmp_path / "own"))
    address, file = words[:2], Path(words[3])
    code, why = said(address)
    assert code == 2 and "--token-file" in why
    remember_token_file(address[1], file)
    assert said(address)[0] == 0
