"""The MCP tools by which agents start, watch, steer and stop searches, and answer the questions that a search
asks them."""

import asyncio
from contextlib import suppress
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field

from kernelblaster.errors import StoreError
from kernelblaster.mcp.desk import AgentDesk, answering, saying
from kernelblaster.mcp.judging_tools import READS, WRITES, TaskName
from kernelblaster.mcp.questions import Questions
from kernelblaster.mcp.setup import LONGEST_WAIT_S, MOST_CANDIDATES, MOST_SECONDS
from kernelblaster.store.steering import LONGEST_NOTE, TechniqueName

SearchRun = Annotated[
    str, Field(max_length=100, description="A run's name, as start_search gave it, or `last`.")
]
Wait = Annotated[float, Field(ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for news, at most.")]
Names = Annotated[list[TechniqueName], Field(max_length=20)]


def add_search_tools(server: MCPServer[Any], desk: AgentDesk) -> None:
    """Registers the tools that start, watch, steer and stop searches, and those for answering their
    questions, with the MCP server. `desk` does the work."""
    _add_starting(server, desk)
    _add_steering(server, desk)
    _add_questions(server, desk)


def _add_starting(server: MCPServer[Any], desk: AgentDesk) -> None:
    @server.tool(annotations=WRITES)
    @answering
    async def start_search(
        task: TaskName,
        context: Context[Any, Any],
        budget: Annotated[int, Field(ge=1, le=MOST_CANDIDATES, description="Candidates to judge.")] = 20,
        seconds: Annotated[
            float | None, Field(gt=0, le=MOST_SECONDS, description="Stop after this time; left out: an hour.")
        ] = None,
        agent: Annotated[
            bool, Field(description="Agents answer for a language model: call next_question and answer.")
        ] = False,
    ) -> dict[str, Any]:
        """Let KernelBlaster search by itself: its built-in expert writes kernels, profiles them, applies
        what paid in that state before, and learns. Returns a run's name at once; the search goes on in a
        process of its own, also after this connection ends. With agent=true the model's part is yours: also
        for tasks that the expert does not cover. Watch it with watch_search."""
        data = await desk.searches.start(
            desk.task(task), budget, seconds or 3600.0, agent=agent, say=saying(context)
        )
        data["next"] = (
            "next_question(run) gives what it asks." if agent else "watch_search(run) shows how far it is."
        )
        return data

    @server.tool(annotations=READS)
    @answering
    async def watch_search(run: SearchRun, context: Context[Any, Any], wait_s: Wait = 20.0) -> dict[str, Any]:
        """How far a search or a run is: state, best speedup, times in microseconds, the last steps. Waits
        for the next judged candidate, for the end, or for `wait_s`, whichever comes first. Call it again to
        follow."""
        return await desk.searches.watch(run, wait_s, saying(context))

    @server.tool(annotations=READS)
    @answering
    async def list_runs() -> dict[str, Any]:
        """The latest runs: searches, and candidates that agents had judged."""
        return {"runs": await asyncio.to_thread(desk.searches.runs)}


def _add_steering(server: MCPServer[Any], desk: AgentDesk) -> None:
    @server.tool(annotations=WRITES)
    @answering
    async def steer_search(
        run: SearchRun,
        budget: Annotated[
            int | None, Field(ge=1, le=MOST_CANDIDATES, description="Candidates in all.")
        ] = None,
        seconds: Annotated[float | None, Field(gt=0, le=MOST_SECONDS, description="Seconds in all.")] = None,
        pin: Names = [],  # noqa: B006 (pydantic copies it)
        forbid: Names = [],  # noqa: B006
        release: Names = [],  # noqa: B006
        note: Annotated[
            str | None, Field(max_length=LONGEST_NOTE, description="For the next questions.")
        ] = None,
    ) -> dict[str, Any]:
        """Change a search while it runs: other limits, techniques to try first (pin), not at all (forbid) or
        as any other (release), a note for the model's next questions. It obeys before its next step."""
        wanted = {"budget": budget, "seconds": seconds, "pin": pin, "forbid": forbid}
        return await asyncio.to_thread(desk.searches.steer, run, **wanted, release=release, note=note)

    @server.tool(
        annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
    )
    @answering
    async def stop_search(
        run: SearchRun,
        now: Annotated[
            bool, Field(description="End its process, without waiting for the candidate at hand.")
        ] = False,
    ) -> dict[str, Any]:
        """Stop a search. What it judged is kept; resume_search goes on with it. One that waits for the answer
        to a question stops only with now=true."""
        return await asyncio.to_thread(desk.searches.stop, run, now=now)

    @server.tool(annotations=WRITES)
    @answering
    async def resume_search(run: SearchRun) -> dict[str, Any]:
        """Go on with a search that was stopped, was interrupted, or has a larger budget now
        (steer_search)."""
        with suppress(StoreError):  # it asks no agent
            Questions(desk.searches.questions_of(run)).unclaim()
        return await desk.searches.resume(run)


def _add_questions(server: MCPServer[Any], desk: AgentDesk) -> None:
    @server.tool(annotations=WRITES)
    @answering
    async def next_question(run: SearchRun, wait_s: Wait = 30.0) -> dict[str, Any]:
        """The next question of a search that was started with agent=true: a prompt, and the JSON schema of
        its answer. Several agents can work on one search: a question is given to one of them, and to another
        after ten minutes without an answer. Without a question, the state of the search; then call it again,
        until the state is `finished` or `stopped`."""
        folder = desk.searches.questions_of(run)
        for waited in (wait_s, 0.0):
            question = await Questions(folder).following(waited)
            if question is not None:
                return question
            state = await asyncio.to_thread(desk.searches.state, run)
            if state["state"] not in ("running", "starting"):
                break
        state.pop("steps", None)
        return {"question": None, **state}

    @server.tool(annotations=WRITES)
    @answering
    async def answer(
        run: SearchRun,
        question: Annotated[str, Field(max_length=200, description="Its name, as next_question gave it.")],
        answer: Annotated[
            dict[str, Any], Field(description="One JSON object that fits the question's answer_schema.")
        ],
    ) -> dict[str, Any]:
        """Answer a question of a search. An answer that cannot be used is an error that says why; answer the
        same question again then."""
        questions = Questions(desk.searches.questions_of(run))
        await questions.answer(question, answer)
        return {"taken": True, "waiting": questions.waiting, "next": "Call next_question for the next one."}
