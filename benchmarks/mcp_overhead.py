"""What an evaluation through MCP costs in addition to the judge's own work.

python benchmarks/mcp_overhead.py [--calls 40] [--out results/mcp-overhead.md]

Different candidates of one task are judged on the emulated device: through `kb.session`, without MCP, and by
a client of the official package over standard input and output and over HTTP. From the time of each call,
the seconds that the judge itself took, as the verdict records them, are subtracted: the rest is the record of
the run and the way there and back. What MCP adds is the difference to `kb.session`. A candidate that was
judged before is called for as well: that call has no judging in it at all. Six minutes on two quiet cores;
the table is written as it grows.
"""

import argparse
import asyncio
import json
import os
import platform
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from publish import keep
from serve import COMMAND
from serve_soak import CANDIDATE

from kernelblaster.api import session
from kernelblaster.store.follow import FollowedRun
from kernelblaster.tasks.catalog import load_task
from kernelblaster.tasks.header import declaration

TASK = "core/level1/relu"
LIMIT_MS = 50.0


@asynccontextmanager
async def over_stdio(folder: Path, environment: dict[str, str]) -> AsyncIterator[Client]:
    words = [*COMMAND[1:], "mcp", str(folder), "--device", "emulated"]
    server = StdioServerParameters(command=COMMAND[0], args=words, env=environment)
    async with Client(server, read_timeout_seconds=900) as client:
        yield client


@asynccontextmanager
async def over_http(folder: Path, environment: dict[str, str]) -> AsyncIterator[Client]:
    words = [*COMMAND, "mcp", str(folder), "--http", "--port", "0", "--json", "--device", "emulated"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        about = json.loads(await asyncio.to_thread(process.stdout.readline))
        headers = {"authorization": f"Bearer {Path(about['token_file']).read_text().strip()}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=900) as http,
            Client(streamable_http_client(about["address"], http_client=http)) as client,
        ):
            yield client
    finally:
        process.terminate()
        process.wait(30)


def candidates(declaration: str, count: int) -> list[str]:
    """So many different sources of the same kernel."""
    function = re.search(r'extern "C"[^;{]*\)', declaration)
    assert function is not None, declaration
    names = re.findall(r"(\w+)\s*[,)]", function[0])
    sizes = " * ".join(f"(long long){name}" for name in names[2:-1])
    about = {"declaration": function[0], "target": names[0], "source": names[1], "count": sizes}
    return [CANDIDATE.format(**about, blocks=264 + at, threads=256) for at in range(count)]


def directly(data: Path, calls: int) -> tuple[list[float], list[float]]:
    """As `measured`, without MCP."""
    declaration_ = declaration(load_task(TASK).signature, TASK)
    walls, known, judged = [], [], []
    with session(TASK, device="emulated", knowledge=data / "kb.db", runs=data / "runs") as search:
        for source in candidates(declaration_, calls + 1):
            begun = time.perf_counter()
            judged.append(search.tell(source).seconds)
            walls.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            search.tell(source)
            known.append(1000 * (time.perf_counter() - begun))
    return [1000 * (wall - own) for wall, own in zip(walls, judged, strict=True)][1:], known[1:]


async def measured(client: Client, runs: Path, calls: int) -> tuple[list[float], list[float]]:
    """Milliseconds beyond the judge's own of each new candidate, and those of each known one."""
    shown: Any = (await client.call_tool("show_task", {"task": TASK})).structured_content
    sources = candidates(shown["declaration"], calls + 1)
    walls, known = [], []
    run = ""
    for source in sources:
        begun = time.perf_counter()
        verdict: Any = await client.call_tool("evaluate", {"task": TASK, "candidate": source})
        walls.append(time.perf_counter() - begun)
        assert verdict.structured_content["correct"], verdict
        run = verdict.structured_content["run"]
        begun = time.perf_counter()
        await client.call_tool("evaluate", {"task": TASK, "candidate": source})
        known.append(1000 * (time.perf_counter() - begun))
    followed = FollowedRun(runs / run)
    followed.update()
    judged = [e.data["evaluation"]["seconds"] for e in followed.events if e.kind == "evaluation"]
    beyond = [1000 * (wall - seconds) for wall, seconds in zip(walls, judged, strict=True)]
    return beyond[1:], known[1:]  # the first starts the judge


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    load = f"load {os.getloadavg()[0]:.1f} by all programs at the beginning"
    lines = [
        "# What an evaluation through MCP costs beyond the judge's own work",
        "",
        f"{os.cpu_count()} cores ({platform.machine()}), no GPU, {load}. {options.calls} calls each. Wanted: "
        f"at most {LIMIT_MS:g} ms more than without MCP.",
        "",
        "| call | median, ms | worst of 20, ms | worst, ms |",
        "|---|---|---|---|",
    ]
    for name, way in (("without MCP", None), ("over stdio", over_stdio), ("over HTTP", over_http)):
        with tempfile.TemporaryDirectory() as scratch:
            data = Path(scratch) / "data"
            (data / "runs").mkdir(parents=True)
            environment = {**os.environ, "KERNELBLASTER_DATA": str(data)}

            async def talk(way: Any = way, data: Path = data, environment: Any = environment) -> Any:
                async with way(data, environment) as client:
                    return await measured(client, data / "runs", options.calls)

            both = directly(data, options.calls) if way is None else asyncio.run(talk())
            for words, times in zip(("new", "known"), both, strict=True):
                ranked = sorted(times)
                worst = ranked[round(0.95 * (len(ranked) - 1))]
                row = f"{statistics.median(ranked):.0f} | {worst:.0f} | {ranked[-1]:.0f}"
                lines.append(f"| a candidate that is {words}, {name} | {row} |")
                print(lines[-1], flush=True)
                keep(lines, options.out)


if __name__ == "__main__":
    main()
