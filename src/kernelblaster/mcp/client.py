"""Calls a running MCP server over HTTP.

    url = "http://127.0.0.1:8421/mcp"
    about = calling(url, token, describe)  # what the server offers, as JSON data
    text = calling(url, token, lambda client: prompt(client, "optimize_task", {"task": "core/level1/gelu"}))

`calling` connects to the server at this address, calls the given function with the open client, and returns
its result. `token` is the secret that the server asks for. `describe`, `call` and `prompt` are functions to
give it: they list what the server offers, call a tool, and return the text of a prompt.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from kernelblaster.errors import KernelBlasterError
from kernelblaster.mcp.setup import JUDGE_LIMIT_S
from kernelblaster.plain_text import printable

T = TypeVar("T")
Say = Callable[[str], None]


def calling(address: str, token: str, talking: Callable[[Client], Awaitable[T]]) -> T:
    """Connects to the server at `address`, calls `talking` with the open client, and returns its result.
    `token` is the secret that the server asks for. Raises KernelBlasterError if the server does not answer,
    or refuses."""

    async def main() -> T:
        headers = {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=JUDGE_LIMIT_S + 60) as http:
            await _reach(http, address)
            async with Client(streamable_http_client(address, http_client=http)) as client:
                return await talking(client)

    try:
        return asyncio.run(main())
    except (MCPError, ExceptionGroup) as error:
        reason = _reason(error)
        if isinstance(reason, KernelBlasterError):
            raise reason from error
        if isinstance(reason, MCPError | httpx2.HTTPError):
            raise KernelBlasterError(f"{address}: {printable(str(reason))[:2000]}") from error
        raise


async def describe(client: Client) -> dict[str, Any]:
    """What the server behind the open `client` says of itself, as JSON data: instructions, tools with their
    arguments, prompts. To be given to `calling`."""
    tools = (await client.list_tools()).tools
    prompts = (await client.list_prompts()).prompts
    return {
        "instructions": client.instructions or "",
        "tools": [
            {"name": tool.name, "description": tool.description or "", "arguments": tool.input_schema}
            for tool in tools
        ],
        "prompts": [
            {"name": one.name, "arguments": [argument.name for argument in one.arguments or ()]}
            for one in prompts
        ],
    }


async def call(client: Client, tool: str, given: dict[str, str], say: Say) -> Any:
    """Calls the tool named `tool` through `client`; returns its data. `given` are arguments as texts: those
    that the tool does not take as texts are read as JSON. `say` is called with progress. Raises
    KernelBlasterError for an unknown tool or argument, and with the tool's words where it fails."""
    about = {one.name: one.input_schema for one in (await client.list_tools()).tools}
    if tool not in about:
        raise KernelBlasterError(f"there is no tool {printable(tool[:100])!r}: there are {', '.join(about)}.")

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        say(printable(message or ""))

    result = await client.call_tool(tool, arguments_of(about[tool], given), progress_callback=hear)
    texts = [getattr(one, "text", "") for one in result.content]
    if result.is_error:
        raise KernelBlasterError(printable("\n".join(texts)))
    return result.structured_content if result.structured_content is not None else "\n".join(texts)


async def prompt(client: Client, name: str, given: dict[str, str]) -> str:
    """Returns the text of the prompt `name` that the server behind `client` offers, with the arguments
    `given` (as texts, by name) filled in."""
    found = await client.get_prompt(name, given)
    return "\n".join(getattr(one.content, "text", "") for one in found.messages)


def arguments_of(schema: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    """Returns the arguments of a tool, converted to their types. `given` has them as texts, by name; `schema`
    is the tool's JSON schema. Raises KernelBlasterError for a name that the schema does not have, and for a
    text that should be JSON and is not."""
    known = schema.get("properties", {})
    made: dict[str, Any] = {}
    for name, text in given.items():
        if name not in known:
            raise KernelBlasterError(f"it has no argument {printable(name[:100])!r}: {', '.join(known)}.")
        if _takes_text(known[name]):
            made[name] = text
            continue
        try:
            made[name] = json.loads(text)
        except ValueError as error:
            raise KernelBlasterError(f"{name}: this is no JSON: {printable(text[:100])}") from error
    return made


def _reason(error: Exception) -> Exception:
    """The exception that the tasks of a connection ended with, which come as a group."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _takes_text(schema: dict[str, Any]) -> bool:
    """Whether an argument with this JSON schema may be a text."""
    return schema.get("type") == "string" or any(_takes_text(one) for one in schema.get("anyOf", ()))


async def _reach(http: httpx2.AsyncClient, address: str) -> None:
    """Raises KernelBlasterError, with what to do, if nothing answers at `address` or the token is wrong."""
    try:
        reply = await http.get(address, headers={"accept": "application/json"})
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise KernelBlasterError(
            f"{address}: no server answers there ({error or type(error).__name__}). Start one with "
            "`kernelblaster mcp --http`, or name its address (--address)."
        ) from error
    if reply.status_code == 401:
        raise KernelBlasterError(f"{address}: the token is wrong; name its file (--token-file).")
    if reply.status_code in (403, 421):
        raise KernelBlasterError(f"{address}: {reply.text.strip()[:500]}")
