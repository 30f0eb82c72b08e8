"""The conformance tests of the Model Context Protocol against `kernelblaster mcp`.

npm install @modelcontextprotocol/conformance node@22
python benchmarks/mcp_protocol.py --modules node_modules [--out results/mcp-protocol.md]

Those scenarios are run that ask for what every server has: the others call tools, prompts and resources of a
test server by name. The suite knows no tokens, so that this adds the right one to its requests; everything
else is as `kernelblaster mcp --http` serves it. Two minutes; no scenario waits longer than one.
"""

import argparse
import asyncio
import re
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import uvicorn
from publish import keep

from kernelblaster.mcp.desk import AgentDesk
from kernelblaster.mcp.server import PATH, http_app
from kernelblaster.mcp.setup import AgentSetup
from kernelblaster.serve.server import listen

TOKEN = "a-token-of-the-conformance-tests"
SCENARIOS = (
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
    "dns-rebinding-protection",
    "server-sse-multiple-streams",
)


def serve(root: Path) -> str:
    """The address of a server in a thread of this process, to which the token is added."""
    for name in ("files", "runs"):
        (root / name).mkdir()
    setup = AgentSetup((root / "files",), root / "runs", root / "mcp", str(root / "kb.db"), device="emulated")
    app = http_app(AgentDesk(setup), "127.0.0.1", TOKEN)

    async def opened(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            own = (b"authorization", f"Bearer {TOKEN}".encode())
            scope = {**scope, "headers": [*scope["headers"], own]}
        await app(scope, receive, send)

    listening = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(opened, log_level="error", lifespan="on"))
    run = lambda: asyncio.run(server.serve(sockets=[listening]))  # noqa: E731
    threading.Thread(target=run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return f"http://127.0.0.1:{listening.getsockname()[1]}{PATH}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--modules", type=Path, required=True, help="the folder node_modules")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    node, suite = options.modules / "node/bin/node", options.modules / ".bin/conformance"
    lines = [
        "# Conformance to the Model Context Protocol",
        "",
        "| scenario | passed | failed |",
        "|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as scratch:
        address = serve(Path(scratch))
        for name in SCENARIOS:
            words = [node, suite.resolve(), "server", "--url", address, "--scenario", name]
            ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, cwd=scratch)
            said = re.sub(r"\x1b\[\d+m", "", ran.stdout + ran.stderr)
            counts = re.search(r"Passed: (\d+)/(\d+), (\d+) failed", said)
            row = f"{counts[1]} of {counts[2]} | {counts[3]}" if counts else f"no result | {said[-200:]!r}"
            lines.append(f"| {name} | {row} |")
            print(lines[-1], flush=True)
            keep(lines, options.out)


if __name__ == "__main__":
    main()
