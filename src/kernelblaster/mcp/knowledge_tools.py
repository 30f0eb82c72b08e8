"""The MCP tools with which agents read the knowledge base and the documentation."""

import asyncio
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from mcp.server.mcpserver import MCPServer
from pydantic import Field

from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.events import Provenance
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.seed import plant
from kernelblaster.knowledge.summary import search, summarize
from kernelblaster.mcp.desk import AgentDesk, answering
from kernelblaster.mcp.judging_tools import READS, WRITES
from kernelblaster.mcp.setup import LONGEST_REPLY
from kernelblaster.mcp.techniques import PREFERRED, technique_data
from kernelblaster.plain_text import one_line
from kernelblaster.records.recipe import is_recipe

GuidePage = Literal["candidates", "tasks", "judge", "states", "emulator", "knowledge", "optimize", "mcp"]
MOST_FOUND = 25
LONGEST_NOTE = 500
StateName = Annotated[
    str, Field(max_length=200, description="A state's name, as profile and propose give it.")
]
T = TypeVar("T")


def add_knowledge_tools(server: MCPServer[Any], desk: AgentDesk) -> None:
    """Registers the tools that read the knowledge base and the documentation with the MCP server. `desk` says
    which knowledge base."""

    async def known(use: Callable[[KnowledgeBase], T]) -> T:
        return await asyncio.to_thread(_with_knowledge, desk.setup.knowledge, use)

    @server.tool(annotations=READS)
    @answering
    async def explain_state(
        state: StateName,
        architecture: Annotated[
            str | None, Field(max_length=60, description="Expect for this one, e.g. sm_90a; left out: all.")
        ] = None,
        after: Annotated[list[str], Field(max_length=20, description="Techniques applied already.")] = [],  # noqa: B006
    ) -> dict[str, Any]:
        """What a performance state means, and what paid there: techniques with expected speedup, evidence by
        GPU architecture ((modelled) where times were modelled), failures and notes; the most promising
        first."""
        return await known(lambda kb: _explain(kb.content(), state, architecture, tuple(after)))

    @server.tool(annotations=READS)
    @answering
    async def search_knowledge(
        words: Annotated[str, Field(max_length=200, description="All must occur; empty: the states.")] = "",
    ) -> dict[str, Any]:
        """Look into the knowledge base: techniques by words in their state, name, description and notes;
        without words, how much is known, and all states."""
        return await known(lambda kb: _search(kb.content(), words))

    @server.tool(annotations=WRITES)
    @answering
    async def write_note(
        state: StateName,
        note: Annotated[
            str, Field(min_length=8, max_length=LONGEST_NOTE, description="One or two sentences.")
        ],
        technique: Annotated[
            str | None, Field(max_length=200, description="One that is known there.")
        ] = None,
    ) -> dict[str, Any]:
        """Leave a note in the knowledge base on a state, or on a technique in it: what whoever is in that
        state next should know, with figures. It is shown to people and models."""
        provenance = Provenance(run="mcp")
        await known(lambda kb: kb.note(state, one_line(note), technique, provenance))
        return {"noted": True}

    @server.tool(annotations=READS)
    @answering
    async def guide(page: GuidePage) -> dict[str, Any]:
        """A page of the documentation: `candidates` (what a .cu must look like, what is forbidden), `tasks`,
        `judge` (how a verdict is reached), `states`, `emulator`, `knowledge`, `optimize`, `mcp`."""
        return {"text": read_page(page)}


def read_page(page: str) -> str:
    """Returns the text of the documentation's page with this file name (without `.md`), cut at 60,000
    characters (LONGEST_REPLY)."""
    inside = Path(str(resources.files("kernelblaster"))) / "docs"
    folder = inside if inside.is_dir() else Path(__file__).parents[3] / "docs"
    return (folder / f"{page}.md").read_text()[:LONGEST_REPLY]


def _with_knowledge(where: str, use: Callable[[KnowledgeBase], T]) -> T:
    """Opens the knowledge base at `where`, adds the shipped knowledge to it, and returns what `use` returns
    for it."""
    with KnowledgeBase(where) as opened:
        plant(opened)
        return use(opened)


def _explain(
    content: Content, state: str, architecture: str | None, applied: tuple[str, ...]
) -> dict[str, Any]:
    """A performance state as JSON data: its meaning, notes, and its most promising techniques and recipes
    (techniques that pay together), with what is expected on `architecture` after those `applied`. Raises
    KnowledgeError for an unknown state."""
    name = content.resolve(state)
    entry = content.states[name]
    scored = content.optimizations(name, architecture, applied)
    entries = content.entries.get(name, {})
    plain = [one for one in scored if not is_recipe(one.optimization.technique)]
    recipes = [one for one in scored if is_recipe(one.optimization.technique)]
    return {
        "state": name,
        "meaning": entry.state.description,
        "primary": entry.state.primary,
        "secondary": list(entry.state.secondary),
        "notes": [one_line(note) for note in entry.notes[-5:]],
        "techniques": [
            technique_data(one, entries.get(one.optimization.technique)) for one in plain[:PREFERRED]
        ],
        "recipes": [
            technique_data(one, entries.get(one.optimization.technique), recipe=True)
            for one in sorted(recipes, key=lambda item: -item.prediction.mean)[:3]
        ],
        "not_shown": max(0, len(plain) - PREFERRED),
    }


def _search(content: Content, words: str) -> dict[str, Any]:
    """Techniques in whose state, name, description or notes all `words` occur, as JSON data; without words,
    counts and the names of all states."""
    if not words.strip():
        summary = summarize(content)
        about = summary.model_dump(mode="json", include={"version", "states", "optimizations", "attempts"})
        return {**about, "names": [entry.state.name for entry in content.living][:400]}
    found = search(content, words)
    listed = [
        {"state": one.state, **technique_data(one.scored(None), one, recipe=is_recipe(one.technique))}
        for one in found[:MOST_FOUND]
    ]
    return {"found": len(found), "techniques": listed}
