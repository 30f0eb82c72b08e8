"""How many requests a fleet's dispatcher and PostgreSQL sustain: 10,000 queued evaluations, 8 writers.

python benchmarks/fleet_load.py [--out results/fleet-load.md] [--only queue|write]

The dispatcher with its leases in memory and on PostgreSQL, and owners that answer at once: nothing is
compiled or run, so that what remains is the cost of handing a request on. Then eight processes that update
one knowledge base. Each figure is printed, and written to the file, as soon as it is known.
"""

import argparse
import gc
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from publish import keep

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
from kernelblaster.testing.postgres_server import PostgresServer, running_server

REQUESTS, CLIENTS = 10_000, 128
DEVICES = (2, 64, 512)
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
    """So many owners."""

    demands_health = False
    compilers = InstantCompilers()

    def __init__(self, devices: int) -> None:
        self._devices = devices

    def start(self, join: Callable[[Owner], None]) -> None:
        for number in range(self._devices):
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


@dataclass(frozen=True)
class Cost:
    """What handing on one request costs: milliseconds of wall time, and of this process's processor time."""

    wall_ms: float
    processor_ms: float

    def __str__(self) -> str:
        return f"{self.wall_ms:.2f} ms, {self.processor_ms:.2f} ms of processor time"


def queue(dispatcher: Dispatcher, name: str, requests: int) -> Cost:
    """The cost of each of so many evaluations that are queued at once; `name` makes them different from
    others."""
    task = load_task("core/level1/relu")
    made = [EvaluateRequest(GPU, task, Candidate(source=f"// {name} {number}")) for number in range(requests)]
    wall, spent = time.perf_counter(), time.process_time()
    for answer in [dispatcher.submit(one, number % CLIENTS) for number, one in enumerate(made)]:
        answer.result()
    wall, spent = time.perf_counter() - wall, time.process_time() - spent
    return Cost(1e3 * wall / requests, 1e3 * spent / requests)


def queues(leases: Leases, devices: int, name: str) -> Iterator[str]:
    """Lines of the table for so many devices: the cost with 1,000 and with REQUESTS evaluations queued, and
    how much memory has grown from one such queue to the next."""
    with closing(Dispatcher(InstantFleet(devices), leases)) as dispatcher:
        while len(dispatcher.devices) < devices:
            time.sleep(0.01)
        what = f"on {devices} devices, leases {name}"
        few = queue(dispatcher, "few", REQUESTS // 10)
        yield f"| one of {REQUESTS // 10} evaluations queued at once {what} | {few} | |"
        many = queue(dispatcher, "many", REQUESTS)
        yield f"| one of {REQUESTS} | {many} | as before |"
        queue(dispatcher, "once more", REQUESTS)
        before, objects = resident_mb(), len(gc.get_objects())
        for again in range(3):
            queue(dispatcher, f"again {again}", REQUESTS)
        grown = f"{len(gc.get_objects()) - objects} objects, {resident_mb() - before:.1f} MB"
        yield f"| grown by {3 * REQUESTS} more | {grown} | nothing |"


def update(where: str, number: int) -> float:
    """Record UPDATES results of one technique, as a search does. Returns the seconds of this process's
    processor time that this took."""
    with KnowledgeBase(where, create=False) as knowledge:
        knowledge.content()
        start = time.process_time()
        for _ in range(UPDATES):
            knowledge.observe("slow", f"technique {number}", 0.1, HERE)
        return time.process_time() - start


def write(server: PostgresServer) -> Iterator[str]:
    """Lines of the table: updates a second of WRITERS processes, what one costs, and how many were lost."""
    where = server.database()
    with KnowledgeBase(where) as knowledge:
        knowledge.add_state(State(name="slow", primary="latency"))
        for number in range(WRITERS):
            knowledge.add_optimization("slow", technique(f"technique {number}"))
    context = multiprocessing.get_context("spawn")
    with context.Pool(WRITERS) as pool:
        pool.starmap(ready, [()] * WRITERS * 4, chunksize=1)
        start, spent = time.perf_counter(), processor_s(server)
        used = sum(pool.starmap(update, [(where, number) for number in range(WRITERS)], chunksize=1))
        seconds, spent = time.perf_counter() - start, processor_s(server) - spent
    with KnowledgeBase(where, create=False) as knowledge:
        entries = [knowledge.content().entry("slow", f"technique {number}") for number in range(WRITERS)]
        seen = sum(one.evidence.total.seen for one in entries)
        assert knowledge.content() == knowledge.rebuilt()
    updates = WRITERS * UPDATES
    rate = f"{updates / seconds:.0f} updates a second"
    yield f"| {WRITERS} writers of one knowledge base | {rate} | at least 500 |"
    each = f"{1e3 * used / updates:.2f} ms of the writer's, {1e3 * spent / updates:.2f} ms of the server's"
    yield f"| processor time of an update | {each} | |"
    yield f"| lost of {updates} | {updates - seen:.0f} | 0 |"


def processor_s(server: PostgresServer) -> float:
    """The processor time in seconds that all processes of a server have used, those that have ended
    included."""
    ticks = 0
    for number, pid in enumerate(server.processes()):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11 : 13 if number else 15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def ready() -> None:
    """Import what a writer needs."""
    time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=["queue", "write"])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    lines = [
        "# What a fleet's dispatcher and PostgreSQL sustain",
        "",
        f"On {os.cpu_count()} cores with a load of {os.getloadavg()[0]:.0f}, PostgreSQL on the same machine "
        "without waiting for its disk; owners and compilers that answer at once.",
        "",
        "| what | figure | wanted |",
        "|---|---|---|",
    ]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    with running_server() as server:
        for line in figures(server, given.only):
            lines.append(line)
            keep(lines, given.out)
            print(line, flush=True)


def figures(server: PostgresServer, only: str | None) -> Iterator[str]:
    """The lines of the table."""
    if only != "write":
        store = open_store(server.database())
        for devices in DEVICES:
            yield from queues(PassingLeases(), devices, "in memory")
            yield from queues(StoredLeases(store, f"{devices}"), devices, "on PostgreSQL")
    if only != "queue":
        for _ in range(3):
            yield from write(server)


if __name__ == "__main__":
    sys.exit(main())
