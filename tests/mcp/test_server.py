"""The server as a client of the protocol sees it: tools, prompts, resources, hostile arguments, HTTP."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from starlette.testclient import TestClient

from kernelblaster.errors import KernelBlasterError
from kernelblaster.mcp.desk import AgentDesk
from kernelblaster.mcp.server import http_app, make_server
from kernelblaster.mcp.setup import LONGEST_REPLY, AgentSetup
from kernelblaster.store.run import create_run

TOKEN = "a-token-of-some-length"
SOURCE = "__global__ void f() {}\nextern void launch_gpu_implementation();\n"
TOOLS = {
    *("list_tasks", "show_task", "check_task", "make_task", "evaluate", "emulate", "profile", "propose"),
    *("read_source", "export", "explain_state", "search_knowledge", "write_note", "guide"),
    *("start_search", "watch_search", "steer_search", "stop_search", "resume_search", "list_runs"),
    *("next_question", "answer"),
}


class StandIn:
    """Answers for the judge's process, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def ask(self, verb: str, say: Callable[[str], Awaitable[None]], **arguments: Any) -> Any:
        self.asked.append((verb, arguments))
        await say(f"doing {verb}")
        if arguments.get("source") == "wrong\nagain":
            raise KernelBlasterError("it does not define launch_gpu_implementation\x1b[31m.")
        return {"correct": True, "run": "one", "text": "x" * (LONGEST_REPLY + 1), "source": SOURCE}


@pytest.fixture
def desk(tmp_path: Path) -> AgentDesk:
    folder = tmp_path / "files"
    folder.mkdir()
    made = AgentDesk(AgentSetup((folder,), tmp_path / "runs", tmp_path / "data", str(tmp_path / "kb.db")))
    made.judge = StandIn()  # type: ignore[assignment]
    return made


def talk(desk: AgentDesk, talking: Callable[[Client], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with Client(make_server(desk)) as client:
            return await talking(client)

    return asyncio.run(main())


def call(desk: AgentDesk, tool: str, **arguments: Any) -> Any:
    """The data of a tool's result; its text if it is an error."""

    async def one(client: Client) -> Any:
        result = await client.call_tool(tool, arguments)
        return result.content[0].text if result.is_error else result.structured_content  # type: ignore[union-attr]

    return talk(desk, one)


def test_every_tool_says_what_it_is_for_in_few_words(desk: AgentDesk) -> None:
    async def listed(client: Client) -> Any:
        assert "evaluate" in str(client.instructions)
        return (await client.list_tools()).tools

    tools = talk(desk, listed)
    assert {tool.name for tool in tools} == TOOLS
    assert all(tool.description and "\n    " not in tool.description for tool in tools)
    for tool in tools:
        for name, about in tool.input_schema["properties"].items():
            assert "description" in about or name in ("page", "pin", "forbid", "release"), (tool.name, name)
    whole = sum(len(json.dumps(tool.model_dump(mode="json", exclude_none=True))) for tool in tools)
    assert whole < 30_000  # characters that every conversation of an agent begins with


def test_candidates_of_a_task_go_to_one_run_with_progress(desk: AgentDesk) -> None:
    heard: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async def evaluate(client: Client) -> None:
        arguments = {"task": "core/level1/relu", "candidate": SOURCE}
        await client.call_tool("evaluate", arguments, progress_callback=hear)
        create_run(desk.setup.runs, task="t").close()
        await client.call_tool("evaluate", arguments | {"technique": "unrolling"})
        await client.call_tool("evaluate", arguments | {"new_run": True})

    talk(desk, evaluate)
    asked = [arguments for _, arguments in desk.judge.asked]  # type: ignore[attr-defined]
    assert [one["run"] for one in asked] == [None, "one", None]
    assert [one["technique"] for one in asked] == [None, "unrolling", None]
    assert asked[0]["task"]["shipped"] and heard == ["doing evaluate"]


HOSTILE = {
    "a path": ("evaluate", {"task": "/etc/passwd", "candidate": SOURCE}),
    "a path in a task": ("show_task", {"task": "core/../../../etc/passwd"}),
    "a file outside": ("evaluate", {"task": "core/level1/relu", "candidate": "/etc/passwd.cu"}),
    "no candidate": ("evaluate", {"task": "core/level1/relu", "candidate": "hello"}),
    "a huge candidate": ("evaluate", {"task": "core/level1/relu", "candidate": "x\n" * 1_000_000}),
    "a huge name": ("show_task", {"task": "x" * 1_000_000}),
    "another type": ("evaluate", {"task": 1, "candidate": ["x"]}),
    "nothing": ("evaluate", {}),
    "a technique": (
        "evaluate",
        {"task": "core/level1/relu", "candidate": SOURCE, "technique": "a\nb<script>"},
    ),
    "a run elsewhere": ("watch_search", {"run": "../../etc"}),
    "a budget": ("start_search", {"task": "core/level1/relu", "budget": 10**9}),
    "a page": ("guide", {"page": "../../../etc/passwd"}),
    "a source": ("read_source", {"source": "../../../../etc/passwd"}),
    "an unknown source": ("read_source", {"source": "0" * 32}),
    "a state": ("explain_state", {"state": "\x1b[2J<script>"}),
    "an export elsewhere": ("export", {"run": "last", "file": "/etc/cron.d/x"}),
    "no questions": ("next_question", {"run": "last"}),
    "a tool": ("run_command", {"command": "id"}),
}


@pytest.mark.parametrize(("tool", "arguments"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_arguments_are_refused_in_a_sentence(
    desk: AgentDesk, tool: str, arguments: dict[str, Any]
) -> None:
    said = call(desk, tool, **arguments)
    assert isinstance(said, str) and len(said) < 5000 and "Traceback" not in said
    assert "root:" not in said and "\x1b" not in said
    assert not desk.judge.asked  # type: ignore[attr-defined]


def test_errors_of_the_judge_reach_the_agent_as_text(desk: AgentDesk) -> None:
    said = call(desk, "emulate", task="core/level1/relu", candidate="wrong\nagain")
    assert said.endswith(r"it does not define launch_gpu_implementation\x1b[31m.")


def test_exports_are_bounded_or_written_to_an_allowed_folder(desk: AgentDesk) -> None:
    create_run(desk.setup.runs, task="t").close()
    assert "name a file" in call(desk, "export", run="last")
    written = call(desk, "export", run="last", file="best.cu")
    assert Path(written["file"]).read_text().startswith("xxx") and "text" not in written


def test_the_knowledge_base_is_read_and_noted_in(desk: AgentDesk) -> None:
    states = call(desk, "search_knowledge")
    assert "memory-bandwidth" in states["names"]
    explained = call(desk, "explain_state", state="memory-bandwidth")
    technique = explained["techniques"][0]
    assert technique["expected_speedup"] > 1 and technique["attempts"] == "none: a guess"
    noted = {"state": "memory-bandwidth", "technique": technique["technique"], "note": "Paid 1.2x\non rows."}
    assert call(desk, "write_note", **noted) == {"noted": True}
    again = call(desk, "explain_state", state="memory-bandwidth")
    assert again["techniques"][0]["notes"] == ["Paid 1.2x on rows."]
    assert call(desk, "search_knowledge", words="paid rows")["found"] == 1


def test_prompts_and_resources(desk: AgentDesk) -> None:
    create_run(desk.setup.runs, task="core/level1/relu").close()

    async def read(client: Client) -> None:
        prompts = {one.name for one in (await client.list_prompts()).prompts}
        assert prompts == {"optimize_task", "optimize_own_kernel", "answer_questions"}
        prompt = await client.get_prompt("optimize_task", {"task": "core/level1/relu"})
        text = prompt.messages[0].content.text  # type: ignore[union-attr]
        assert "core/level1/relu" in text and "{{" not in text
        for tool in ("show_task", "evaluate", "emulate", "propose", "profile", "write_note", "export"):
            assert f"`{tool}`" in text
        [runs] = (await client.read_resource("kernelblaster://runs")).contents
        name = json.loads(runs.text)[0]["run"]  # type: ignore[union-attr]
        [state] = (await client.read_resource(f"kernelblaster://runs/{name}/state")).contents
        assert json.loads(state.text)["state"] == "interrupted"  # type: ignore[union-attr]
        [page] = (await client.read_resource("kernelblaster://guide/candidates")).contents
        assert "launch_gpu_implementation" in page.text  # type: ignore[union-attr]
        for elsewhere in (f"runs/{name}/results/events.jsonl", "runs/..%2f..%2fetc/state", "guide/..%2fx"):
            with pytest.raises(Exception, match=r"."):
                await client.read_resource(f"kernelblaster://{elsewhere}")

    talk(desk, read)


def test_over_http_only_those_who_know_the_token_get_in(desk: AgentDesk) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        },
    }
    accept = {"accept": "application/json, text/event-stream"}
    right = accept | {"authorization": f"Bearer {TOKEN}"}
    with TestClient(http_app(desk, "127.0.0.1", TOKEN), base_url="http://127.0.0.1:8421") as client:

        def status(**headers: str) -> int:
            return client.post("/mcp", json=hello, headers=headers).status_code

        assert status(**accept) == 401
        assert status(**accept, authorization="Bearer wrong") == 401
        assert status(**right) == 200
        assert status(**right, host="evil.example") == 421
        assert status(**right, origin="http://evil.example") == 403
        huge = client.post("/mcp", content=b"[" * 3_000_000, headers=right)
        assert huge.status_code == 413
        begun = client.post("/mcp", json=hello, headers=right)
        session = right | {"mcp-session-id": begun.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert client.post("/mcp", json=ping, headers=session).status_code == 200
        assert client.delete("/mcp", headers=session | {"authorization": "Bearer wrong"}).status_code == 401
        assert client.delete("/mcp", headers=session).status_code == 200
        assert client.post("/mcp", json=ping, headers=session).status_code == 404, "the session has ended"
    with pytest.raises(KernelBlasterError, match="too short"):
        http_app(desk, "127.0.0.1", "short")
