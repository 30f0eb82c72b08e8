"""How many requests a fleet's dispatcher and PostgreSQL sustain: 10,000 queued evaluations, 8 writers.

python benchmarks/fleet_load.py [--out results/fleet-load.md]

The dispatcher with its leases on PostgreSQL, and 64 owners that answer at once: nothing is compiled or run,
so that what remains is the cost of handing a request on. Then eight processes that update one knowledge base.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from publish import publish

from kernelblaster.devices.specs import gpu_specs
from kernelblaster.fleet.dispatcher import Dispatcher
from kernelblaster.fleet.leases import Leases, PassingLeases
from kernelblaster.fleet.owner import Owner
from kernelblaster.fleet.requests import DescribeRequest, DeviceFacts, EvaluateRequest, JudgeChoice, Request
from kernelblaster.knowledge import KnowledgeBase, Provenance
from kernelblaster.records import Candidate, State, Task
from kernelblaster.store.database import open_store
from kernelblaster.store.leases import StoredLeases
from kernelblaster.tasks.catalog import load_task
from kernelblaster.testing.knowledge_contract import technique
from kernelblaster.testing.postgres_server import running_server

REQUESTS, DEVICES, CLIENTS = 10_000, 64, 128
WRITERS, UPDATES = 8, 500  # updates of each
GPU = JudgeChoice("cuda")
HERE = Provenance(architecture="sm_90a", family="rows")


class InstantOwner:
    """An owner that answers at once."""

    kind = "cuda"

    def __init__(self, name: str) -> None:
        self.name = name

    def ask(self, requests: Sequence[Request], compiled: Any = None) -> "Future[list[Any]]":
        answer: Future[list[Any]] = Future()
        facts = DeviceFacts(self.name, gpu_specs()["h200"], modelled=False)
        answer.set_result([facts if isinstance(one, DescribeRequest) else "done" for one in requests])
        return answer

    def end(self) -> None:
        pass


class InstantCompilers:
    """Compilers that are done at once."""

    slots = 64

    def compile(self, task: Task, candidate: Candidate, architecture: str) -> "Future[Any]":
        made: Future[Any] = Future()
        made.set_result(SimpleNamespace())
        return made

    def close(self) -> None:
        pass


class InstantFleet:
    """DEVICES owners."""

    demands_health = False
    compilers = InstantCompilers()

    def start(self, join: Callable[[Owner], None]) -> None:
        for number in range(DEVICES):
            join(InstantOwner(f"GPU {number}"))  # type: ignore[arg-type]

    def replace(self, lost: Owner, why: str, *, fruitful: bool) -> None:
        raise AssertionError(why)

    def refuse(self, owner: Owner, why: str) -> None:
        raise AssertionError(why)

    def note(self, owner: Owner, about: str) -> None:
        pass

    def hopeless(self) -> str | None:
        return None

    def close(self) -> None:
        pass


def resident_mb() -> float:
    """The memory of this process, in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def queue(leases: Leases) -> tuple[float, float, float]:
    """Milliseconds of wall time and of this process's processor time for each of REQUESTS evaluations that
    are queued at once, and how many megabytes memory has grown between the second and the last tenth."""
    task = load_task("core/level1/relu")
    with closing(Dispatcher(InstantFleet(), leases)) as dispatcher:
        while len(dispatcher.devices) < DEVICES:
            time.sleep(0.01)
        grown = [0.0, 0.0]
        wall, spent = time.perf_counter(), time.process_time()
        for part in range(10):
            asked = [
                dispatcher.submit(
                    EvaluateRequest(GPU, task, Candidate(source=f"// {part} {number}")), number % CLIENTS
                )
                for number in range(REQUESTS // 10)
            ]
            for one in asked:
                one.result(600)
            grown[part > 1] = resident_mb()
        wall, spent = time.perf_counter() - wall, time.process_time() - spent
    return 1e3 * wall / REQUESTS, 1e3 * spent / REQUESTS, grown[1] - grown[0]


def update(where: str, number: int) -> None:
    """Record UPDATES results of one technique, as a search does."""
    with KnowledgeBase(where, create=False) as knowledge:
        for _ in range(UPDATES):
            knowledge.observe("slow", f"technique {number}", 0.1, HERE)


def write(where: str) -> tuple[float, int]:
    """Updates a second of WRITERS processes, and how many were lost."""
    with KnowledgeBase(where) as knowledge:
        knowledge.add_state(State(name="slow", primary="latency"))
        for number in range(WRITERS):
            knowledge.add_optimization("slow", technique(f"technique {number}"))
    context = multiprocessing.get_context("spawn")
    with context.Pool(WRITERS) as pool:
        pool.starmap(ready, [()] * WRITERS * 4, chunksize=1)
        start = time.perf_counter()
        pool.starmap(update, [(where, number) for number in range(WRITERS)], chunksize=1)
        seconds = time.perf_counter() - start
    with KnowledgeBase(where, create=False) as knowledge:
        entries = [knowledge.content().entry("slow", f"technique {number}") for number in range(WRITERS)]
        seen = sum(one.evidence.total.seen for one in entries)
        assert knowledge.content() == knowledge.rebuilt()
    return WRITERS * UPDATES / seconds, WRITERS * UPDATES - seen


def ready() -> None:
    """Import what a writer needs."""
    time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    lines = [
        "# What a fleet's dispatcher and PostgreSQL sustain",
        "",
        f"On {os.cpu_count()} cores with a load of {os.getloadavg()[0]:.0f}, PostgreSQL on the same machine "
        "without waiting for its disk; owners and compilers that answer at once.",
        "",
        "| what | figure | wanted |",
        "|---|---|---|",
    ]
    with running_server() as server:
        store = open_store(server.database())
        for name, leases in (
            ("in memory", PassingLeases()),
            ("on PostgreSQL", StoredLeases(store, "a bench")),
        ):
            wall, spent, grown = queue(leases)
            what = f"{REQUESTS} evaluations on {DEVICES} devices, leases {name}"
            lines.append(f"| {what}, each | {wall:.2f} ms, {spent:.2f} ms of processor time | |")
            lines.append(f"| memory grown meanwhile | {grown:.1f} MB | 0 |")
        for _ in range(3):
            rate, lost = write(server.database())
            lines.append(
                f"| {WRITERS} writers of one knowledge base | {rate:.0f} updates a second | at least 500 |"
            )
            lines.append(f"| lost of {WRITERS * UPDATES} | {lost} | 0 |")
    publish(lines, out)


if __name__ == "__main__":
    sys.exit(main())
