"""What the MCP server offers beside tools: prompts, which are texts on how to optimize a task, and resources,
which are pages of the documentation and files of runs."""

import asyncio
from pathlib import Path
from typing import Any, get_args

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

from kernelblaster.errors import KernelBlasterError
from kernelblaster.mcp.desk import AgentDesk
from kernelblaster.mcp.knowledge_tools import GuidePage, read_page
from kernelblaster.mcp.setup import LONGEST_REPLY
from kernelblaster.plain_text import one_line
from kernelblaster.strict_json import InvalidJson, read_bounded

FOLDER = Path(__file__).parent / "prompts"
RESULTS = ("best.cu", "trajectory.md", "trajectory.json", "learned.md", "learned.json")
SCHEME = "kernelblaster"


def instructions() -> str:
    """Returns the text that the server sends every client when it connects, which says what the server offers
    and where to begin."""
    return (FOLDER / "instructions.md").read_text()


def add_prompts(server: MCPServer[Any]) -> None:
    """Registers prompts with the MCP server: texts, ready to send, that teach an agent how to optimize a
    task."""

    @server.prompt(title="Make a kernel faster")
    def optimize_task(task: str) -> str:
        """The loop: evaluate, profile, name the state, look up what paid, apply it, evaluate again."""
        return _filled("optimize_task.md", task=task)

    @server.prompt(title="Make a kernel of your own faster")
    def optimize_own_kernel(source: str) -> str:
        """As optimize_task, beginning with a module or a kernel that is no task yet."""
        return _filled("optimize_own_kernel.md", source=source)

    @server.prompt(title="Answer for the language model of a search")
    def answer_questions(run: str) -> str:
        """How to be the language model of a search that was started with agent=true."""
        return _filled("answer_questions.md", run=run)


def add_resources(server: MCPServer[Any], desk: AgentDesk) -> None:
    """Registers what clients can read from the MCP server: pages of the documentation, the list of runs, and
    files that runs left. `desk` finds them."""

    @server.resource(f"{SCHEME}://runs", title="Runs", mime_type="application/json")
    async def runs() -> list[dict[str, Any]]:
        """The latest runs."""
        return await asyncio.to_thread(desk.searches.runs)

    @server.resource(f"{SCHEME}://runs/{{run}}/state", title="A run so far", mime_type="application/json")
    async def run_state(run: str) -> dict[str, Any]:
        """State, best speedup and last steps of a run."""
        try:
            return await asyncio.to_thread(desk.searches.state, run)
        except KernelBlasterError as error:
            raise ResourceNotFoundError(str(error)) from error

    @server.resource(f"{SCHEME}://runs/{{run}}/results/{{name}}", title="A result of a run")
    async def run_result(run: str, name: str) -> str:
        """A file that a run left: best.cu, trajectory.md, trajectory.json, learned.md or learned.json."""
        if name not in RESULTS:
            raise ResourceNotFoundError(f"{one_line(name[:60])}: there are {', '.join(RESULTS)}.")
        try:
            path = desk.searches.folder(run) / name
            return (await asyncio.to_thread(read_bounded, path, 4 << 20)).decode()[:LONGEST_REPLY]
        except (KernelBlasterError, InvalidJson, OSError) as error:
            raise ResourceNotFoundError(f"{name}: this run has not left it: {error}"[:300]) from error

    @server.resource(f"{SCHEME}://guide/{{page}}", title="Documentation", mime_type="text/markdown")
    def guide_page(page: str) -> str:
        """A page of the documentation, as the tool guide gives it."""
        if page not in get_args(GuidePage):
            raise ResourceNotFoundError(f"there are the pages {', '.join(get_args(GuidePage))}.")
        return read_page(page)


def _filled(name: str, **values: str) -> str:
    """The text of a prompt file in which each `{{ name }}` is replaced by the value of that name,
    literally."""
    text = (FOLDER / name).read_text()
    for key, value in values.items():
        text = text.replace(f"{{{{ {key} }}}}", value[:LONGEST_REPLY])
    return text
