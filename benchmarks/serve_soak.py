"""Half an hour of a dashboard and an MCP server with searches, pages and agents together: what grows, what is
lost?

python benchmarks/serve_soak.py [--minutes 30] [--pages 50] [--log FILE] [--out results/serve-soak.md]

Four kinds of work go on side by side until the time is over: searches of the built-in expert on the
emulated device, one after the other; a recorder that appends an event to one run every half second; pages
that are opened anew each minute, half of them the list, half the recorder's run; and two agents that speak
MCP over HTTP: one has candidates judged, reads and notes, the other starts searches and watches them to
their end. Every ten seconds a line of figures goes to the log, so that a soak that is ended early is not
lost. It needs two cores, and takes the time that it is given and at most three minutes more.
"""

import argparse
import asyncio
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from serve import COMMAND, Viewers, dashboard, made_runs, resident_mb

from kernelblaster.store.follow import FollowedRun
from kernelblaster.store.run import LOG, Run

EACH_RUN = 10  # candidates of an agent that go to one run
SAMPLED_S, ROUND_S, MARK_S, PATIENCE_S = 10.0, 60.0, 0.5, 60.0
TASKS = ("core/level1/relu", "core/level1/rms_norm", "core/level1/softmax")
CANDIDATE = """#include <cuda_runtime.h>
__global__ void relu(const float* x, float* y, long long n) {{
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (; i < n; i += (long long)gridDim.x * blockDim.x) {{
    float v = x[i];
    y[i] = v > 0.0f || v != v ? v : 0.0f;
  }}
}}
{declaration} {{
  long long n = {count};
  relu<<<{blocks}, {threads}, 0, stream>>>({source}, {target}, n);
}}
"""


class Soak:
    """What was done and what went wrong, counted by several threads; `end` is when all of them stop."""

    def __init__(self, seconds: float, log: Path) -> None:
        self.begun = time.monotonic()
        self.end = self.begun + seconds
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.samples: list[dict[str, float]] = []
        self.slowest = 0.0
        self._log = log
        self._lock = threading.Lock()

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.end

    def did(self, what: str) -> None:
        with self._lock:
            self.done[what] += 1

    def fail(self, words: str) -> None:
        with self._lock:
            self.wrong.append(words)
        self.write({"wrong": words})

    def write(self, figures: dict[str, Any]) -> None:
        line = json.dumps({"after_s": round(time.monotonic() - self.begun, 1), **figures})
        with self._lock, self._log.open("a") as log:
            log.write(line + "\n")

    def guarded(self, work: Callable[[], None]) -> Callable[[], None]:
        """The work of a thread; what ends it early is noted as wrong."""

        def guarded() -> None:
            try:
                work()
            except Exception as error:
                self.fail(f"{work}: {error!r}"[:500])

        return guarded


@contextmanager
def mcp_server(folder: Path, environment: dict[str, str]) -> Any:
    """(address, token, process id) of an MCP server over HTTP."""
    words = [*COMMAND, "mcp", str(folder), "--http", "--port", "0", "--json", "--device", "emulated"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        about = json.loads(process.stdout.readline())
        yield about["address"], Path(about["token_file"]).read_text().strip(), process.pid
    finally:
        process.terminate()
        process.wait(30)


def search(soak: Soak, environment: dict[str, str]) -> None:
    """Searches from the command line, one after the other."""
    seed = 0
    while not soak.over:
        words = [*COMMAND, "optimize", TASKS[seed % len(TASKS)], "--budget", "4", "--device", "emulated"]
        ended = subprocess.run(
            ["nice", "-n", "10", *words, "--seed", str(seed), "--json"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode not in (0, 1):
            soak.fail(f"search {seed} ended with {ended.returncode}: {ended.stderr[-300:]}")
        soak.did("searches from the command line")
        seed += 1


class Recorder:
    """Appends events to a run; `last` is the text of the last one that a page of the run must show. After one
    that somebody waits for, it appends no other until `go_on`: pages show the last event only."""

    def __init__(self, soak: Soak, folder: Path) -> None:
        self._soak = soak
        self._folder = folder
        self._wanted = threading.Event()
        self._given = threading.Event()
        self._arrived = threading.Event()
        self.last = ""

    def work(self) -> None:
        number = 0
        with Run(self._folder, writing=True) as run:
            while not self._soak.over:
                if self._wanted.wait(MARK_S):
                    self._wanted.clear()
                    self.last = f"{run.append('stopped', why=f'mark {number}').at}"
                    self._given.set()
                    self._arrived.wait(2 * PATIENCE_S)
                else:
                    run.append("stopped", why=f"mark {number}")
                self._soak.did("events recorded")
                number += 1

    def mark(self) -> str:
        """Have one event recorded now; returns its text, empty if the recorder has ended."""
        self._given.clear()
        self._arrived.clear()
        self._wanted.set()
        return self.last if self._given.wait(20) else ""

    def go_on(self) -> None:
        """Lets it append events again."""
        self._arrived.set()


def pages(soak: Soak, address: str, recorder: Recorder, run: str, count: int) -> None:
    """Pages that are opened anew each minute; at its end all must show the last event."""
    while not soak.over:
        viewers = Viewers(address, [f"/runs/{run}"] * (count // 2) + ["/"] * (count - count // 2))
        viewers.read(max(0.0, min(ROUND_S, soak.end - time.monotonic() - 2.0)))
        if soak.over:
            viewers.close()
            return
        mark = recorder.mark()
        took = viewers.arrival(mark, count) if mark else None
        recorder.go_on()
        if not mark and soak.over:
            viewers.close()
            return
        if took is None:
            soak.fail("an event was not at all pages within a minute")
        else:
            soak.slowest = max(soak.slowest, took)
            soak.write({"arrival_s": round(took, 2)})
        if viewers.lost:
            soak.fail(f"{viewers.lost} pages were dropped")
        soak.did("rounds of pages")
        viewers.close()


async def judging_agent(soak: Soak, call: Callable[..., Awaitable[Any]]) -> None:
    """Has candidates judged, each once, asks what to try next, and reads and notes."""
    task = "core/level1/relu"
    declaration = (await call("show_task", task=task))["declaration"]
    function = re.search(r'extern "C"[^;{]*\)', declaration)
    assert function is not None, declaration
    names = re.findall(r"(\w+)\s*[,)]", function[0])
    number = 0
    while not soak.over:
        text = CANDIDATE.format(
            declaration=function[0],
            target=names[0],
            source=names[1],
            count=" * ".join(f"(long long){name}" for name in names[2:-1]),
            blocks=264 + number,
            threads=(128, 256, 512)[number % 3],
        )
        first = number % EACH_RUN == 0
        wanted = {"new_run": first, "technique": None if first else "block_shape"}
        verdict = await call("evaluate", task=task, candidate=text, **wanted)
        if not verdict["correct"]:
            soak.fail(f"candidate {number}: {verdict['outcome']}: {verdict.get('why')}"[:300])
        soak.did("candidates judged for an agent")
        asked = await call("propose", task=task)
        await call("explain_state", state=asked["state"])
        if number % 5 == 0:
            await call("write_note", state=asked["state"], note=f"Note number {number} of a long soak.")
        await call("watch_search", run=verdict["run"], wait_s=0)
        number += 1


async def searching_agent(soak: Soak, call: Callable[..., Awaitable[Any]]) -> None:
    """Starts searches and watches each to its end."""
    number = 0
    while not soak.over:
        run = (await call("start_search", task=TASKS[number % len(TASKS)], budget=2))["run"]
        while True:
            state = await call("watch_search", run=run, wait_s=20)
            if state["state"] not in ("running", "starting"):
                break
        if state["state"] != "finished":
            soak.fail(f"{run} is {state['state']}: {state.get('notice', '')}"[:300])
        soak.did("searches by an agent")
        number += 1


def agent(soak: Soak, address: str, token: str, work: Callable[..., Awaitable[None]]) -> None:
    async def main() -> None:
        headers = {"authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=900) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):

            async def call(tool: str, **arguments: Any) -> Any:
                given = {name: value for name, value in arguments.items() if value is not None}
                result = await client.call_tool(tool, given)
                soak.did("calls of tools")
                if result.is_error:
                    raise RuntimeError(f"{tool}: {result.content}"[:400])
                return result.structured_content

            await work(soak, call)

    asyncio.run(main())


def children(process: int) -> list[int]:
    """The processes that one has started itself."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(one) for one in task.read_text().split()]
    return found


def sample(soak: Soak, processes: dict[str, int]) -> None:
    """Memory, open files and threads of the servers, and of the process that judges for agents."""
    while not soak.over:
        figures: dict[str, float] = {}
        judges = [one for one in children(processes["mcp"]) if b"spawn_main" in _command(one)]
        watched = processes | ({"judge": judges[-1]} if judges else {})
        for name, process in watched.items():
            with suppress(OSError):
                figures[f"{name}_mb"] = round(resident_mb(process), 1)
                figures[f"{name}_files"] = len(list(Path(f"/proc/{process}/fd").iterdir()))
                figures[f"{name}_threads"] = len(list(Path(f"/proc/{process}/task").iterdir()))
        soak.samples.append(figures)
        soak.write(figures | {what.replace(" ", "_"): count for what, count in soak.done.items()})
        time.sleep(min(SAMPLED_S, max(0.0, soak.end - time.monotonic())) or 0.01)


def _command(process: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def damaged(runs: Path) -> list[str]:
    """What is wrong with the logs of all runs."""
    found = []
    for folder in sorted(runs.iterdir()):
        if (folder / LOG).exists():
            followed = FollowedRun(folder)
            followed.update()
            if followed.damage:
                found.append(followed.damage)
    return found


def judged_for_agents(runs: Path) -> int:
    """The verdicts in the runs whose candidates agents wrote."""
    count = 0
    for folder in sorted(runs.iterdir()):
        followed = FollowedRun(folder)
        followed.update()
        if followed.events and followed.events[0].data.get("by") == "agent":
            count += sum(event.kind == "evaluation" for event in followed.events)
    return count


def table(soak: Soak, arrivals: int, recorded: int) -> list[str]:
    """The results as lines of a table."""
    seconds = time.monotonic() - soak.begun
    done = soak.done
    lines = [f"| {what} | {count:,} |" for what, count in sorted(done.items())]
    lines.append(f"| verdicts for agents that are in their runs | {recorded:,} of {arrivals:,} |")
    lines.append(f"| slowest arrival of an event at all pages | {soak.slowest:.2f} s |")
    for name in sorted({name for one in soak.samples for name in one}):
        values = [one[name] for one in soak.samples if name in one]
        thirds = [
            values[at : at + max(1, len(values) // 3)] for at in (0, len(values) // 3, 2 * len(values) // 3)
        ]
        words = ", ".join(f"{statistics.median(one):,.0f}" for one in thirds if one)
        lines.append(f"| {name.replace('_', ', ')}: medians of the thirds | {words} |")
    lines.append(f"| what went wrong | {len(soak.wrong)} |")
    return [f"{seconds / 60:.1f} minutes.", "", "| what | figure |", "|---|---|", *lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--log", type=Path, default=Path("build/serve-soak.jsonl"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        root = Path(scratch)
        data = root / "data"
        made_runs(data / "runs", 30, 12)
        environment = {**os.environ, "KERNELBLASTER_DATA": str(data)}
        os.environ["KERNELBLASTER_DATA"] = str(data)
        (root / "files").mkdir()
        address, page_process = stack.enter_context(dashboard(data, environment))
        mcp_address, token, mcp_process = stack.enter_context(mcp_server(root / "files", environment))
        soak = Soak(60 * options.minutes, options.log)
        run = "run-00003"
        recorder = Recorder(soak, data / "runs" / run)
        works = [
            lambda: search(soak, environment),
            recorder.work,
            lambda: pages(soak, address, recorder, run, options.pages),
            lambda: agent(soak, mcp_address, token, judging_agent),
            lambda: agent(soak, mcp_address, token, searching_agent),
            lambda: sample(soak, {"dashboard": page_process, "mcp": mcp_process}),
        ]
        threads = [threading.Thread(target=soak.guarded(work), daemon=True) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(1.0, soak.end + 3 * PATIENCE_S - time.monotonic()))
        stuck = sum(thread.is_alive() for thread in threads)
        if stuck:
            soak.fail(f"{stuck} of {len(threads)} kinds of work did not end")
        for words in damaged(data / "runs"):
            soak.fail(words)
        recorded = judged_for_agents(data / "runs")
        lines = table(soak, soak.done["candidates judged for an agent"], recorded)
    load = f"load {os.getloadavg()[2]:.1f} by all programs"
    machine = f"{os.cpu_count()} cores ({platform.machine()}), no GPU, {load}"
    text = "\n".join(
        ["# The dashboard and the MCP server over time", "", f"{machine}; {lines[0]}", *lines[1:], ""]
    )
    text += "".join(f"\n- {words}" for words in soak.wrong[:20]) + ("\n" if soak.wrong else "")
    print(text)
    if options.out:
        options.out.write_text(text)
    sys.exit(1 if soak.wrong else 0)


if __name__ == "__main__":
    main()
