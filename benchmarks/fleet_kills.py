"""Kill parts of a fleet at random moments of benches, and compare what these come to with one left alone.

python benchmarks/fleet_kills.py run [--only actor,worker,node,driver,postgres] [--kills 30] [--minutes 60]
python benchmarks/fleet_kills.py report [--log FILE] [--out results/fleet-kills.md]

Two nodes on this machine (fleet_here.py). During each bench, again and again after a random time, one victim
is killed with SIGKILL: an actor, a process that searches or compiles, all processes of a node (which joins
again), the command itself (which is then gone on with), or those of the database (which is back after a
moment). What was being done when a victim was killed is let be done before the next kill, since what is lost
twice is abandoned by design; for the same reason a process that searches is killed once at most in each run
of the command. Afterwards the same candidates must have been judged, each once, with the same verdicts, and
the same knowledge recorded, as by the same bench without a fleet; no process of the bench may be left, and no
shared memory. Each kill and each bench adds a line to the log, so that it can be done in slices: a later call
with the same log goes on where an earlier one was ended.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fleet_here import Fleet, descendants, differences, result, running_fleet, words_of
from publish import publish
from sqlalchemy import select

from kernelblaster.fleet.dispatcher import LOSSES
from kernelblaster.store.database import open_store
from kernelblaster.store.leases import StoredLeases
from kernelblaster.store.pointer import pointer_of
from kernelblaster.store.run import Run
from kernelblaster.store.tables import leases

VICTIMS = ("actor", "worker", "node", "driver", "postgres")
TASKS = 2
FORGETS = 3  # each such bench compiles all that it judges; the others find it in a cache
GONE_S = 20.0  # that processes of an ended bench may live on
PAUSES_S = (0.2, 6.0)  # before a kill
SEEK_S = 8.0  # at most, to find a process that compiles
LIMIT_S = 1500.0  # for one bench: after that it counts as hanging
NOBODY = "nobody"


@dataclass
class Round:
    """One bench: who was killed in it (the victim, and which), how long it took, and all that was wrong."""

    seed: int
    killed: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


class Killing:
    """A bench in which parts of the fleet are killed."""

    def __init__(self, fleet: Fleet, seed: int, log: Path) -> None:
        self.fleet = fleet
        self.log = log
        self._search_killed = False
        self.rng = random.Random(seed)
        self.store = fleet.new_store()
        self.folder = fleet.root / f"bench-{seed}"
        self.done = Round(seed)
        self.began = time.monotonic()
        self.process = fleet.begin(self.folder, self.store)

    def kill(self, victim: str) -> None:
        """Kill a victim after a random time, unless the bench ends before; then bring back what does not come
        back by itself, and wait until what was lost has been done."""
        if self._ends_within(self.rng.uniform(*PAUSES_S)):
            return
        name, kill = self._victim(victim)
        if name == NOBODY:
            return
        kill()
        self.done.killed.append((victim, name))
        add(self.log, {"seed": self.done.seed, "victim": victim, "name": name, "seconds": self._seconds})
        self._ends_within(self.rng.uniform(0.2, 3.0))
        if victim == "postgres":
            self.fleet.server.start()
        if victim == "node":
            self.fleet.other.start()
        open_work = self._work()[0]
        if victim == "driver":
            self.done.wrong += leftovers(self.fleet)
            begun = (self.folder / "store.json").exists()
            go_on = self.fleet.go_on(self.folder) if begun else self.fleet.begin(self.folder, self.store)
            self.process = go_on
            self._search_killed = False
        while not self._ends_within(0.5):
            leased, lost = self._work()
            if not lost and not open_work & leased:
                break

    def end(self, expected: dict[str, Any]) -> Round:
        """Wait for the end of the bench, and look at what it has come to and left."""
        while not self._ends_within(1.0):
            pass
        if self.process.returncode != 0:
            self.done.wrong.append(f"exit code {self.process.returncode}: {self.fleet.said[-300:]}")
        try:
            self.done.wrong += self._differences(expected)
        except Exception as error:
            self.done.wrong.append(repr(error)[:300])
        self.done.wrong += leftovers(self.fleet)
        if self.done.wrong:
            shutil.copytree(self.folder, self.log.with_name(f"{self.folder.name}.wrong"), dirs_exist_ok=True)
            self.log.with_name(f"{self.folder.name}.said").write_text(self.fleet.said)
        self.done.seconds = self._seconds
        open_store.cache_clear()
        shutil.rmtree(self.folder, ignore_errors=True)
        return self.done

    @property
    def _seconds(self) -> float:
        """Since the bench began."""
        return round(time.monotonic() - self.began, 1)

    @property
    def over(self) -> bool:
        return self.process.poll() is not None

    def _ends_within(self, seconds: float) -> bool:
        """Whether the bench ends within this time; one that takes longer than LIMIT_S in all is ended."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
            return True
        if time.monotonic() - self.began > LIMIT_S:
            self.done.wrong.append(f"does not end in {LIMIT_S:g} s: {self.fleet.said[-300:]}")
            self.process.kill()
        return False

    def _victim(self, victim: str) -> tuple[str, Callable[[], None]]:
        """Who is killed now, in words, and how."""
        if victim == "driver":
            return "the command", self.process.kill
        if victim == "node":
            return "the second node", self.fleet.other.kill
        if victim == "postgres":
            return "the server", self.fleet.server.kill
        known = self._workers() if victim == "worker" else self.fleet.actors()
        if not known:
            return NOBODY, lambda: None
        chosen = self.rng.choice(known)
        self._search_killed |= "spawn_main" in words_of(chosen)
        return words_of(chosen)[:60].strip(), lambda: _kill(chosen)

    def _workers(self) -> list[int]:
        """Processes that compile, waited for a while since that is short; if there is none, those that
        search."""
        until = time.monotonic() + self.rng.uniform(0, SEEK_S)
        while not (compiling := self.fleet.compilers()) and time.monotonic() < until and not self.over:
            time.sleep(0.02)
        if compiling or self._search_killed:
            return compiling
        return [pid for pid in descendants(self.process.pid) if "spawn_main" in words_of(pid)]

    def _work(self) -> tuple[set[str], set[str]]:
        """(the work that is leased now, that of it which was lost before)."""
        if not (self.folder / "store.json").exists():
            return set(), set()
        query = select(leases.c.work, leases.c.losses)
        rows = open_store(self.store).transact(lambda one: one.execute(query).all())
        return {row.work for row in rows}, {row.work for row in rows if row.losses}

    def _differences(self, expected: dict[str, Any]) -> list[str]:
        """What the bench has come to otherwise than `expected`."""
        found = result(self.folder)
        wrong = [f"other {what}" for what in differences(expected, found)]
        for job, codes in found["candidates and verdicts"].items():
            wrong += [f"judged twice in {job}"] if len(codes) != len(set(codes)) else []
        pointer = pointer_of(self.folder)
        assert pointer is not None
        with Run(self.folder, writing=False) as run:
            lost = StoredLeases(pointer.open(), run.id).lost_works()
        words = ("a loss of what was done since is remembered", "given up")
        return wrong + [f"{words[one.losses >= LOSSES]}: {one.about} ({one.why})" for one in lost]


def add(log: Path, entry: dict[str, Any]) -> None:
    """Add a line to the log."""
    with log.open("a") as file:
        print(json.dumps(entry), file=file)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def leftovers(fleet: Fleet) -> list[str]:
    """What an ended bench has left after GONE_S seconds: processes, and shared memory that nobody uses."""
    until = time.monotonic() + GONE_S
    while (left := living(fleet) + unused_memory(fleet)) and time.monotonic() < until:
        time.sleep(0.2)
    return left


def unused_memory(fleet: Fleet) -> list[str]:
    """The new files in shared memory that no living process has mapped or open."""
    new = {str(path) for path in set(Path("/dev/shm").iterdir()) - fleet.shared_memory}
    if not new:
        return []
    used = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            used |= {line.split()[-1] for line in (process / "maps").read_text().splitlines()}
            used |= {str(handle.readlink()) for handle in (process / "fd").iterdir()}
    return [f"left in shared memory: {path}" for path in sorted(new - used)]


def living(fleet: Fleet) -> list[str]:
    """Processes that only a bench has: actors, and whatever else speaks of our folders but the nodes' own."""
    known = {*fleet.head.processes, *fleet.other.processes}
    found = [f"a process is left: {words_of(pid)[:80]}" for pid in fleet.actors()]
    for path in Path("/proc").glob("[0-9]*"):
        pid = int(path.name)
        words = words_of(pid)
        if pid not in known and pid != os.getpid() and str(fleet.root) in words and "postgres" not in words:
            found.append(f"a process is left: {words[:80]}")
    return found


def run(only: list[str], kills: int, minutes: float, log: Path) -> int:
    """Benches until every victim was killed `kills` times, or so many minutes are over; what the log has
    already is counted. Returns how many of them had something wrong."""
    until = time.monotonic() + 60 * minutes
    rounds = rounds_of(log)
    counts = Counter(victim for one in rounds for victim, _ in one.killed)
    seed = max((one.seed for one in rounds), default=-1) + 1
    wrong = 0
    with running_fleet(TASKS) as fleet:
        alone = _undisturbed(fleet, None)
        if not log.exists():
            fleet.forget()
            other = differences(alone, _undisturbed(fleet, fleet.new_store()))
            add(log, {"undisturbed": other})
            print(f"undisturbed, without a fleet and on it, differs: {other or 'nothing'}", flush=True)
        while min(counts[one] for one in only) < kills and time.monotonic() < until:
            if seed % FORGETS == 0:
                fleet.forget()
            killing = Killing(fleet, seed, log)
            missed: Counter[str] = Counter()
            try:
                while (
                    not killing.over and time.monotonic() < until and min(counts[one] for one in only) < kills
                ):
                    victim = min(only, key=lambda one: (counts[one] + missed[one], killing.rng.random()))
                    before = len(killing.done.killed)
                    killing.kill(victim)
                    hit = len(killing.done.killed) > before
                    (counts if hit else missed)[victim] += 1
                done = killing.end(alone)
            finally:
                killing.process.kill()
            add(log, asdict(done))
            print(f"{seed}: {done.seconds:.0f} s, {done.killed}: {done.wrong}", flush=True)
            wrong += bool(done.wrong)
            seed += 1
    return wrong


def _undisturbed(fleet: Fleet, store: str | None) -> dict[str, Any]:
    """What a bench comes to: without a fleet, or on it if there is a `store`."""
    folder = fleet.root / ("together" if store else "alone")
    start = time.monotonic()
    if fleet.begin(folder, store).wait() != 0:
        raise SystemExit(fleet.said)
    print(f"{folder.name}: {time.monotonic() - start:.0f} s", flush=True)
    return result(folder)


def entries_of(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def rounds_of(log: Path) -> list[Round]:
    """The benches of a log that came to their end."""
    return [Round(**one) for one in entries_of(log) if "killed" in one]


def report(log: Path) -> list[str]:
    rounds = rounds_of(log)
    killed = Counter(victim for one in rounds for victim, _ in one.killed)
    bad = [one for one in rounds if one.wrong]
    total = sum(killed.values())
    undisturbed = [line for one in entries_of(log) for line in one.get("undisturbed", [])]
    lines = [
        "# Parts of a fleet killed at random moments",
        "",
        f"{len(rounds)} benches of {TASKS} tasks on two nodes, {total} kills in the middle of them.",
        "",
        "| killed | times |",
        "|---|---|",
        *(f"| {victim} | {killed[victim]} |" for victim in VICTIMS),
        "",
        "Same candidates, each judged once, same verdicts, same knowledge, nothing left over: "
        f"{len(rounds) - len(bad)} of {len(rounds)} benches. Without kills, on the fleet against without it, "
        f"differs: {', '.join(undisturbed) or 'nothing'}.",
    ]
    lines += ["", *(f"- bench {one.seed}: {'; '.join(one.wrong)}" for one in bad)] if bad else []
    took = sorted(one.seconds for one in rounds)
    return [*lines, "", f"A bench took {took[0]:.0f} to {took[-1]:.0f} s, kills and restarts included."]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("--only", default=",".join(VICTIMS))
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--log", type=Path, default=Path("fleet-kills.jsonl"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.what == "report":
        publish(report(given.log), given.out)
        return 0
    return 1 if run(given.only.split(","), given.kills, given.minutes, given.log) else 0


if __name__ == "__main__":
    sys.exit(main())
