"""The MCP server, over standard input and output or over HTTP.

    serve_stdio(setup)  # answers one client until it ends

`setup` is an `AgentSetup`: the folders, device and knowledge base that agents may use.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable, Collection
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

import kernelblaster
from kernelblaster.errors import KernelBlasterError
from kernelblaster.mcp.desk import AgentDesk
from kernelblaster.mcp.judging_tools import add_judging_tools
from kernelblaster.mcp.knowledge_tools import add_knowledge_tools
from kernelblaster.mcp.prompts import add_prompts, add_resources, instructions
from kernelblaster.mcp.search_tools import add_search_tools
from kernelblaster.mcp.setup import AgentSetup
from kernelblaster.serve.guard import SHORTEST_TOKEN, RequestGuard, access_to

LARGEST_BODY = 2_000_000  # bytes of a request over HTTP
IDLE_S = 1800.0  # after which a client's session over HTTP is forgotten
MOST_SESSIONS = 100
PATH = "/mcp"
METHODS = ("GET", "HEAD", "POST", "DELETE")  # DELETE ends a client's session


def make_server(desk: AgentDesk) -> MCPServer[Any]:
    """Makes the MCP server with all its tools, prompts and resources. Whoever calls this closes the judge of
    `desk` at the end."""
    server: MCPServer[Any] = MCPServer(
        name="kernelblaster",
        title="KernelBlaster",
        instructions=instructions(),
        version=kernelblaster.__version__,
        log_level="WARNING",
    )
    add_judging_tools(server, desk)
    add_knowledge_tools(server, desk)
    add_search_tools(server, desk)
    add_prompts(server)
    add_resources(server, desk)
    return server


def serve_stdio(setup: AgentSetup) -> None:
    """Answers one MCP client over standard input and output until the client closes them; then ends the
    process that judges. `setup` says what the client may use."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    desk = AgentDesk(setup)
    try:
        with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
            make_server(desk).run("stdio")
    finally:
        desk.judge.close()


def http_app(desk: AgentDesk, host: str, token: str, hosts: Collection[str] = ()) -> ASGIApp:
    """Returns the MCP server of `desk` as a web application (ASGI) at the path "/mcp". A request needs the
    `token`, and a host name by which the server may be addressed: `host`, or one of `hosts` (see
    `RequestGuard`). Raises KernelBlasterError if the token has fewer than 16 characters."""
    if len(token) < SHORTEST_TOKEN:
        raise KernelBlasterError(f"the token is too short: give at least {SHORTEST_TOKEN} characters.")
    app = make_server(desk).streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=LARGEST_BODY,
        session_idle_timeout=IDLE_S,
        max_sessions=MOST_SESSIONS,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # by the guard
        host=host,
    )
    return RequestGuard(app, access_to(host, hosts, token), METHODS)


def serve_http(
    setup: AgentSetup,
    host: str,
    port: int,
    token: str,
    *,
    hosts: Collection[str] = (),
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serves MCP clients, which may use what `setup` names, over HTTP at `host` and `port` until Ctrl-C.
    Clients must send the `token`, and may also address the server by the names in `hosts`. `ready` is called
    with the server's address. Raises KernelBlasterError if it cannot listen there."""
    desk = AgentDesk(setup)
    config = uvicorn.Config(
        http_app(desk, host, token, hosts),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)

    async def main() -> None:
        serving = asyncio.ensure_future(server.serve())
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started:
            name, at = server.servers[0].sockets[0].getsockname()[:2]
            ready(f"http://{f'[{name}]' if ':' in name else name}:{at}{PATH}")
        await serving

    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(main())
    except SystemExit as error:  # as uvicorn says that it cannot listen
        raise KernelBlasterError(f"{host}:{port}: cannot listen there; name another --port.") from error
    finally:
        desk.judge.close()
