"""`AgentDesk`: what all MCP tools share. It finds tasks by name, knows in which run an agent's candidates are
recorded, and gives access to the process that judges and to the searches."""

import re
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import cleandoc
from itertools import count
from typing import Any, ParamSpec, TypeVar

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from kernelblaster.errors import KernelBlasterError, StoreError
from kernelblaster.mcp.judge_process import JudgeProcess, Say
from kernelblaster.mcp.searches import Searches
from kernelblaster.mcp.setup import LONGEST_SOURCE, AgentSetup
from kernelblaster.mcp.task_names import TaskNames
from kernelblaster.plain_text import one_line, printable
from kernelblaster.store.files import Files

DIGEST = re.compile(r"[0-9a-f]{32}")
P = ParamSpec("P")
T = TypeVar("T")


class AgentDesk:
    """What all tools of one MCP server use, which is configured by `setup`: tasks by name, the process that
    judges, and the searches. `current` has, by the name of a task, the name of the run in which the agent's
    candidates for it are recorded, unless the agent names another one."""

    def __init__(self, setup: AgentSetup) -> None:
        self.setup = setup
        self.names = TaskNames(setup.folders, setup.data / "tasks")
        self.judge = JudgeProcess(setup)
        self.searches = Searches(setup, self.judge)
        self.current: dict[str, str] = {}

    def task(self, name: str) -> dict[str, Any]:
        """Returns the task with this name as JSON data: its name, its file, and whether it comes with
        KernelBlaster ("shipped"). In this form, tasks are passed to the judge's process. Raises BadTask if
        there is no such task."""
        found = self.names.find(name.strip())
        return {"name": found.name, "path": str(found.path), "shipped": found.shipped}

    def source(self, candidate: str, run: str | None) -> str:
        """Returns the CUDA source that an agent means by `candidate`: the source itself (then it has line
        breaks), the id of a recorded source, or the name of a `.cu` file in an allowed folder. An id is
        looked up in the run named `run`. If that is None, it is looked up in the runs in which this server
        recorded its latest candidate for each task. Raises KernelBlasterError if `candidate` is none of
        these, or has more than 400,000 characters (LONGEST_SOURCE)."""
        given = candidate.strip()
        if "\n" in given:
            if len(given) > LONGEST_SOURCE:
                raise KernelBlasterError(f"the candidate has more than {LONGEST_SOURCE} characters.")
            return candidate
        if DIGEST.fullmatch(given):
            return self.kept(given, run)
        if given.endswith(".cu"):
            return self.names.read(given)
        raise KernelBlasterError(
            f"{one_line(given[:80])!r} is no candidate: give the CUDA source itself, the id of an earlier "
            "one, or a .cu file in an allowed folder. show_task has the function that it must define."
        )

    def kept(self, name: str, run: str | None) -> str:
        """Returns the source with the id `name` (32 hexadecimal digits) from the run named `run`. If `run` is
        None, it is looked for in the runs that the attribute `current` names: one for each task, in which
        this server recorded its latest candidate. The latest run comes first. Raises StoreError if it is in
        none of them."""
        for one in [run] if run else [*reversed(self.current.values())]:
            try:
                return Files(self.searches.folder(one) / "files").get(name)
            except (StoreError, UnicodeDecodeError):
                continue
        raise StoreError(f"there is no source {name}; give the run that it belongs to.")

    def run_of(self, task: str, run: str | None) -> str | None:
        """Returns the name of the run in which a candidate for `task` is recorded: `run` if it is given, else
        the one in which this server recorded the last candidate for the task. None if there is neither; a new
        run is then made. Raises StoreError if there is no run named `run`."""
        return self.searches.folder(run).name if run else self.current.get(task)


def saying(context: Context[Any, Any]) -> Say:
    """Returns a function that sends progress messages to the agent's client, as part of the request to which
    `context` belongs."""
    numbers = count(1)

    async def say(stage: str) -> None:
        await context.report_progress(next(numbers), None, printable(stage)[:300])

    return say


def answering(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Decorator of a tool: an error that can be acted on (KernelBlasterError) is raised as a ToolError, whose
    message the agent sees. The tool's docstring, which agents see as well, loses its indentation."""

    tool.__doc__ = cleandoc(tool.__doc__ or "")

    @wraps(tool)
    async def answer(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return await tool(*arguments, **named)
        except KernelBlasterError as error:
            raise ToolError(printable(str(error))[:4000]) from error

    return answer
