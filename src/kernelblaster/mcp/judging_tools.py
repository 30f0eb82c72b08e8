"""The MCP tools for tasks and candidates. Agents list, show, check and make tasks with them, and evaluate,
emulate, profile and export candidates; one tool proposes what to try next."""

import asyncio
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field

from kernelblaster.errors import KernelBlasterError
from kernelblaster.mcp.desk import AgentDesk, answering, saying
from kernelblaster.mcp.setup import LONGEST_REPLY, LONGEST_SOURCE
from kernelblaster.store.files import write_whole

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
SHOWN = 120

TaskName = Annotated[
    str, Field(max_length=1000, description="A task's name, as list_tasks or make_task gives it.")
]
CandidateText = Annotated[
    str,
    Field(
        max_length=LONGEST_SOURCE,
        description="One CUDA source that defines the function in show_task's `declaration`: its text; or "
        "the id (32 hex digits) of an earlier one; or a .cu file in a folder that the server allows.",
    ),
]
RunName = Annotated[
    str | None, Field(max_length=100, description="A run's name; left out: the current one of the task.")
]
Technique = Annotated[
    str | None,
    Field(
        max_length=200,
        pattern=r"^[\w .+/-]+$",
        description="What you changed against the fastest correct candidate so far: a name that propose "
        "gave, or a short one of your own. The knowledge base learns its gain. Leave it out for a first one.",
    ),
]
Description = Annotated[
    str,
    Field(
        max_length=600,
        description="With a technique of your own: what to do, in general terms, in one or two sentences. It "
        "is what others are told when the technique is proposed to them.",
    ),
]


def add_judging_tools(server: MCPServer[Any], desk: AgentDesk) -> None:
    """Registers the tools for tasks and candidates (list_tasks, evaluate, profile, ...) with the MCP server.
    `desk` does the work."""
    _add_task_tools(server, desk)
    _add_candidate_tools(server, desk)


def _add_task_tools(server: MCPServer[Any], desk: AgentDesk) -> None:
    @server.tool(annotations=READS)
    @answering
    async def list_tasks(
        words: Annotated[str, Field(max_length=200, description="Only names with all of these words.")] = "",
    ) -> dict[str, Any]:
        """Names of the tasks that can be made faster: shipped PyTorch modules (level1 single operators,
        level2 fused ones, level3 blocks), tasks made here with make_task, and task files in allowed
        folders."""
        names = await asyncio.to_thread(desk.names.names)
        found = [name for name in names if all(word in name.lower() for word in words.lower().split())]
        more = len(found) - SHOWN
        return {"tasks": found[:SHOWN], **({"not_shown": more} if more > 0 else {})}

    @server.tool(annotations=READS)
    @answering
    async def show_task(task: TaskName, context: Context[Any, Any]) -> dict[str, Any]:
        """What a candidate must compute and look like: the C declaration of the function to define, the
        PyTorch reference (or the original kernel), the sizes that are timed and others that it is called
        with, and the floor: the least bytes and operations that any implementation needs, and what it does
        not count. Start here."""
        data = await desk.judge.ask("show", saying(context), task=desk.task(task))
        data["next"] = (
            "Write a .cu that defines this function, and call evaluate. Rules: guide('candidates')."
        )
        return dict(data)

    @server.tool(annotations=READS)
    @answering
    async def check_task(task: TaskName, context: Context[Any, Any]) -> dict[str, Any]:
        """Whether a task is fit to be scored (its output depends on its inputs and is finite), `cautions`:
        where a candidate must choose as PyTorch does, and what cannot be verified; and which tools work on
        it: whether the built-in expert can search it, whether it can be emulated."""
        return dict(await desk.judge.ask("check", saying(context), task=desk.task(task)))

    @server.tool(annotations=WRITES)
    @answering
    async def make_task(
        source: Annotated[str, Field(max_length=LONGEST_SOURCE, description="The file's text.")],
        context: Context[Any, Any],
        name: Annotated[str, Field(max_length=60, description="A short name.")] = "task",
    ) -> dict[str, Any]:
        """Make a task of a kernel or module of your own. Either Python: a torch.nn.Module called Model,
        `get_inputs()` that returns a list of example tensors and `get_init_inputs()` with the constructor's
        arguments; it may import torch and math only. Or CUDA: kernels and the function that launches them,
        without main(); its own output is the reference and its time the baseline. Tensors and sizes are
        inferred, or declared in comments: `// size: n = 1048576, small 1000`, `// input: x float32 [n]`, `//
        output: y float32 [n]`. Returns what show_task does."""
        made = await asyncio.to_thread(desk.names.make, source, name)
        try:
            data = await desk.judge.ask("show", saying(context), task=desk.task(made))
        except KernelBlasterError:
            desk.names.forget(made)
            raise
        data["next"] = f"Call evaluate with task={made!r}. check_task says whether it is fit to be scored."
        return dict(data)


def _add_candidate_tools(server: MCPServer[Any], desk: AgentDesk) -> None:
    @server.tool(annotations=WRITES)
    @answering
    async def evaluate(
        task: TaskName,
        candidate: CandidateText,
        context: Context[Any, Any],
        technique: Technique = None,
        description: Description = "",
        run: RunName = None,
        new_run: Annotated[
            bool, Field(description="Begin another run instead of going on with the current.")
        ] = False,
        sweep: Annotated[
            bool,
            Field(
                description="Judge every combination (up to 64) of the constants that the source declares by "
                "`// kernelblaster-tune: BLOCK = 128, 256`; the best counts."
            ),
        ] = False,
    ) -> dict[str, Any]:
        """Judge a candidate: compiled, verified against the reference at secret sizes and values, then timed
        against the baseline (eager PyTorch, or the original kernel). Takes seconds. `outcome` is Accepted,
        Inconclusive or Slower (all correct), or CompileFailed, Incorrect, RuntimeFailed, TimedOut, Rejected
        with `why` and `next`. Every candidate is kept in a run under its `source` (for read_source), from
        which export writes the best; the same text is not judged twice."""
        named = desk.task(task)
        goes_to = None if new_run else desk.run_of(named["name"], run)
        source = await asyncio.to_thread(desk.source, candidate, goes_to)
        wanted = {"source": source, "run": goes_to, "technique": technique, "sweep": sweep}
        wanted["description"] = description
        data = await desk.judge.ask("evaluate", saying(context), task=named, **wanted)
        desk.current.pop(named["name"], None)
        desk.current[named["name"]] = data["run"]
        if data["correct"]:
            data["next"] = "propose names what to try next on the best; export writes it."
        return dict(data)

    @server.tool(annotations=READS)
    @answering
    async def emulate(
        task: TaskName, candidate: CandidateText, context: Context[Any, Any], run: RunName = None
    ) -> dict[str, Any]:
        """Run a candidate at a small size on an emulator of the GPU: is it right, is every access in bounds
        and aligned, does anything race or read what was never written; with instruction, sector and
        bank-conflict counts for each launch. Names the source line of the first fault. Records nothing."""
        source = await asyncio.to_thread(desk.source, candidate, run)
        return dict(await desk.judge.ask("emulate", saying(context), task=desk.task(task), source=source))

    @server.tool(annotations=WRITES)
    @answering
    async def profile(
        task: TaskName, candidate: CandidateText, context: Context[Any, Any], run: RunName = None
    ) -> dict[str, Any]:
        """Why a correct candidate is as slow as it is: `digest`, a summary in words, and `kernels`, for each
        its share of the time, its performance state (what bounds it) with its meaning, how much of that was
        reached, and metrics: how busy memory, caches and pipes are. explain_state tells which techniques paid
        in a state. Records nothing but a state that was not known."""
        source = await asyncio.to_thread(desk.source, candidate, run)
        return dict(await desk.judge.ask("profile", saying(context), task=desk.task(task), source=source))

    @server.tool(annotations=WRITES)
    @answering
    async def propose(task: TaskName, context: Context[Any, Any], run: RunName = None) -> dict[str, Any]:
        """What to try next on the fastest correct candidate of a run: its most promising kernel, the state
        that it is in, and techniques with the speedup that the knowledge base expects, how often each was
        tried there, and notes. The first is the most promising; `left_out` says which are of no use here, and
        why. Needs an evaluate before."""
        named = desk.task(task)
        goes_to = desk.run_of(named["name"], run)
        data = await desk.judge.ask("propose", saying(context), task=named, run=goes_to)
        data["next"] = (
            "Skip those whose `needs` do not hold. Apply one to best_source (read_source), and call evaluate "
            "with technique=its name."
        )
        return dict(data)

    @server.tool(annotations=READS)
    @answering
    async def read_source(
        source: Annotated[
            str, Field(pattern="^[0-9a-f]{32}$", description="The id of a source, as results give it.")
        ],
        run: RunName = None,
    ) -> dict[str, Any]:
        """The text of a candidate by its id (`source` or `best_source` in other results)."""
        return {"text": (await asyncio.to_thread(desk.kept, source, run))[:LONGEST_REPLY]}

    @server.tool(annotations=WRITES)
    @answering
    async def export(
        run: Annotated[str, Field(max_length=100, description="A run's name, or `last`.")],
        context: Context[Any, Any],
        format: Annotated[
            Literal["cu", "module", "kernelbench"],
            Field(description="A .cu; a torch module that falls back to the original; a KernelBench file."),
        ] = "cu",
        file: Annotated[
            str | None,
            Field(
                max_length=1000, description="Where to write it, in an allowed folder; else it is returned."
            ),
        ] = None,
    ) -> dict[str, Any]:
        """The best candidate of a run as a file that works without KernelBlaster installed. Returns `run`,
        `format`, `source` and `code` (the candidate, as evaluate named it), and the file's `text`, or `file`
        with its path if it was written there."""
        target = desk.names.writable(file) if file else None
        folder = desk.searches.folder(run)
        data = dict(await desk.judge.ask("export", saying(context), run=folder.name, format=format))
        if target is not None:
            await asyncio.to_thread(write_whole, target, data.pop("text"), mode=0o666)
            data["file"] = str(target)
        elif len(data["text"]) > LONGEST_REPLY:
            raise KernelBlasterError(f"it has {len(data['text'])} characters: name a file to write it to.")
        return data
