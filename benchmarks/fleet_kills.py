"""Kill parts of a fleet at random moments of a bench, and compare what it comes to with one left alone.

python benchmarks/fleet_kills.py run [--only actor,worker,node,driver,postgres] [--trials 30] [--log FILE]
python benchmarks/fleet_kills.py report [--log FILE] [--out results/fleet-kills.md]

Two simulated nodes on this machine, each with a PTX machine and a cache of its own, and a PostgreSQL server
that has the bench's events, leases and knowledge. One trial is a bench of two small tasks, during which one
process (of a node or of the server: all of them) is killed with SIGKILL: an actor, a process that searches or
compiles, a node, the command itself (which is then gone on with), or the database (which is back after a
moment). Afterwards the same candidates must have been judged, each once, with the same verdicts, and the same
knowledge recorded; no process of the bench may be left, and nothing in shared memory. Results are added to
the log, so that it can be done in slices (--seed).
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from publish import publish

from kernelblaster.bench.bench import Bench, bench_knowledge
from kernelblaster.fleet.node_file import NodeFile
from kernelblaster.knowledge import KnowledgeBase
from kernelblaster.settings import settings
from kernelblaster.store.database import open_store
from kernelblaster.store.leases import StoredLeases
from kernelblaster.store.pointer import pointer_of
from kernelblaster.store.run import Run, run_folders
from kernelblaster.testing.postgres_server import PostgresServer, running_server

ROOT = Path(__file__).parents[1]
VICTIMS = ("actor", "worker", "node", "driver", "postgres")
PORT, CLIENT_PORT = 26479, 20101
GONE_S = 20.0  # that processes of an ended bench may live on
HEAD = "import torch, torch.nn as nn\nrows = 4096\nSMALL = {'rows': 5}\n"
TAIL = "def get_inputs():\n    return [torch.randn(rows, 1024)]\ndef get_init_inputs():\n    return []\n"
TASKS = {"relu": "torch.relu(x) * 2.0 + 1.0", "sums": "(x * 3.0).sum(dim=1)"}


@dataclass
class Trial:
    """What became of one bench: the victim, when it was killed (seconds after the start, of how many an
    undisturbed one takes), what the fleet was doing, and everything that is wrong afterwards."""

    victim: str
    seed: int
    cold: bool
    after_s: float
    of_s: float
    seconds: float
    hit: str
    wrong: list[str]


class Node:
    """A node of the fleet with a data folder and a cache of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.cache.mkdir(parents=True)
        for built in ("native", "ptx"):
            shared = settings().cache / built
            shared.mkdir(parents=True, exist_ok=True)
            (self.cache / built).symlink_to(shared)
        self._options = ["--cores", "1", "--ptx-machines", "1", *options]
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(folder)}
        self.environment |= {
            "KERNELBLASTER_CACHE": str(self.cache),
            "KERNELBLASTER_DATA": str(folder / "data"),
        }
        self.environment |= {"PGPASSWORD": "secret"}
        self.start()

    def start(self) -> None:
        self._command("fleet", "start", *self._options)

    def stop(self) -> None:
        self._command("fleet", "stop")

    @property
    def processes(self) -> list[int]:
        """All processes of the node."""
        path = self.folder / "data" / "fleet" / "node.json"
        return session(NodeFile.model_validate_json(path.read_text()).pid)

    def kill(self) -> None:
        """All at once, as if the machine had lost its power."""
        for pid in self.processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def forget(self) -> None:
        """Forget what was compiled here."""
        shutil.rmtree(self.cache / "candidate", ignore_errors=True)

    def _command(self, *words: str) -> None:
        command = [sys.executable, "-m", "kernelblaster", *words]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{words}: {done.stderr}")


class Fleet:
    """The two nodes, the server, and the benches on them."""

    def __init__(self, root: Path, server: PostgresServer) -> None:
        self.root = root
        self.server = server
        self.head = Node(root / "a", "--port", str(PORT), "--client-port", str(CLIENT_PORT))
        token = root / "a" / "data" / "fleet" / "token"
        self.other = Node(root / "b", "--join", f"127.0.0.1:{PORT}", "--token", str(token))
        self.suite = root / "suite"
        self.suite.mkdir()
        for name, body in TASKS.items():
            model = f"class Model(nn.Module):\n    def forward(self, x):\n        return {body}\n"
            (self.suite / f"{name}.py").write_text(HEAD + model + TAIL)
        self.shared_memory = set(Path("/dev/shm").iterdir())

    def close(self) -> None:
        self.other.stop()
        self.head.stop()

    def begin(self, folder: Path, store: str) -> "subprocess.Popen[bytes]":
        words = ["bench", str(self.suite), "--folder", str(folder), "--store", store, "--budget", "4"]
        return self._start(*words, "--device", "emulated", "--seeds", "3")

    def go_on(self, folder: Path) -> "subprocess.Popen[bytes]":
        return self._start("bench", "--folder", str(folder))

    def _start(self, *words: str) -> "subprocess.Popen[bytes]":
        command = [
            sys.executable,
            "-m",
            "kernelblaster",
            *words,
            "--fleet",
            "auto",
            "--workers",
            "1",
            "--json",
        ]
        with (self.root / "output").open("ab") as output:
            return subprocess.Popen(command, env=self.head.environment, stdout=output, stderr=output)

    def actors(self) -> list[int]:
        """The actors that own devices, on both nodes."""
        return [pid for pid in self._ray() if "DeviceActor" in words_of(pid)]

    def compilers(self) -> list[int]:
        """Ray's processes that compile, or have just compiled."""
        return [pid for pid in self._ray() if words_of(pid).startswith(("ray::compile_packed", "ray::IDLE"))]

    def _ray(self) -> list[int]:
        return [pid for pid in (*self.head.processes, *self.other.processes) if words_of(pid)[:5] == "ray::"]


def session(leader: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, own, *_ = path.read_text().rpartition(")")[2].split()
            if int(own) == leader and state != "Z":
                found.append(int(path.parent.name))
    return found


def descendants(pid: int) -> list[int]:
    """The living processes below one."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent, *_ = path.read_text().rpartition(")")[2].split()
            if state != "Z":
                children.setdefault(int(parent), []).append(int(path.parent.name))
    found, waiting = [], [pid]
    while waiting:
        new = children.get(waiting.pop(), [])
        found += new
        waiting += new
    return found


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def result(folder: Path) -> dict[str, Any]:
    """All that must not depend on kills. Times are modelled and vary in the third digit with the addresses
    that are drawn, so that speedups are compared by two."""
    judged: dict[str, list[str]] = {}
    for path in run_folders(folder / "runs"):
        with Run(path, writing=False) as run:
            kinds = [
                (e.key, e.data["evaluation"]["outcome"]["kind"]) for e in run.events if e.kind == "evaluation"
            ]
            judged.setdefault(str(run.events[0].data["job"]), []).extend(
                f"{code} {kind}" for code, kind in kinds
            )
    with KnowledgeBase(bench_knowledge(folder), create=False) as knowledge:
        changes = [rounded(event.change.model_dump(mode="json")) for event in knowledge.log()]
        whole = knowledge.content() == knowledge.rebuilt()
    with Bench(folder, writing=False) as bench:
        rows = [(row.result.task, row.result.status, sorted(row.measured)) for row in bench.rows()]
    return {"candidates and verdicts": judged, "knowledge": changes, "rows": rows, "whole": whole}


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.2g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


def victims_of(
    fleet: Fleet, victim: str, process: "subprocess.Popen[bytes]"
) -> tuple[str, Callable[[], None]]:
    """Who is killed now, in words, and how."""
    if victim == "driver":
        return "the command", process.kill
    if victim == "node":
        return "the second node", fleet.other.kill
    if victim == "postgres":
        return "the server", fleet.server.kill
    if victim == "actor":
        known = fleet.actors()
    else:
        own = [pid for pid in descendants(process.pid) if "spawn_main" in words_of(pid)]
        known = own + fleet.compilers()
    if not known:
        return "nobody: none had started", lambda: None
    chosen = random.choice(known)
    return words_of(chosen)[:40].strip(), lambda: kill_one(chosen)


def kill_one(pid: int) -> None:
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


def one(
    fleet: Fleet, victim: str, seed: int, cold: bool, after_s: float, of_s: float, expected: Any
) -> Trial:
    """One bench with one kill."""
    rng = random.Random(seed)
    random.seed(seed)
    store = fleet.server.database().replace(":secret@", "@")
    folder = fleet.root / f"bench-{victim}-{seed}"
    if cold:
        fleet.head.forget()
        fleet.other.forget()
    start = time.monotonic()
    process = fleet.begin(folder, store)
    with suppress(subprocess.TimeoutExpired):
        process.wait(after_s)
    hit, kill = victims_of(fleet, victim, process)
    hit = hit if process.poll() is None else "nobody: it had ended"
    kill()
    wrong: list[str] = []
    if victim == "postgres":
        time.sleep(rng.uniform(0.2, 3.0))
        fleet.server.start()
    process.wait()
    if victim == "driver":
        wrong += leftovers(fleet)
        begun = (folder / "store.json").exists()
        process = fleet.go_on(folder) if begun else fleet.begin(folder, store)
        process.wait()
    if victim == "node":
        fleet.other.start()
    if process.returncode != 0:
        wrong.append(f"exit code {process.returncode}")
    try:
        found = result(folder)
        wrong += [f"other {name}" for name in expected if expected[name] != found[name]]
        for job, codes in found["candidates and verdicts"].items():
            wrong += [f"judged twice in {job}"] if len(codes) != len(set(codes)) else []
        pointer = pointer_of(folder)
        assert pointer is not None
        with Run(folder, writing=False) as run:
            wrong += [
                f"lost for good: {one.about}" for one in StoredLeases(pointer.open(), run.id).lost_works()
            ]
    except Exception as error:
        wrong.append(repr(error)[:300])
    wrong += leftovers(fleet)
    open_store.cache_clear()
    shutil.rmtree(folder, ignore_errors=True)
    return Trial(victim, seed, cold, after_s, of_s, time.monotonic() - start, hit, wrong)


@contextmanager
def running() -> Iterator[Fleet]:
    os.environ["PGPASSWORD"] = "secret"
    with tempfile.TemporaryDirectory(prefix="kf-") as made, running_server() as server:
        fleet = Fleet(Path(made), server)
        try:
            yield fleet
        finally:
            fleet.close()


def undisturbed(fleet: Fleet, name: str, cold: bool) -> tuple[float, Any]:
    """How long a bench takes, and what it comes to."""
    folder = fleet.root / name
    if cold:
        fleet.head.forget()
        fleet.other.forget()
    start = time.monotonic()
    process = fleet.begin(folder, fleet.server.database().replace(":secret@", "@"))
    if process.wait() != 0:
        raise SystemExit((fleet.root / "output").read_text()[-3000:])
    return time.monotonic() - start, result(folder)


def run(only: list[str], trials: int, seed: int, log: Path) -> int:
    wrong = 0
    with running() as fleet:
        cold_s, expected = undisturbed(fleet, "cold", cold=True)
        warm_s, again = undisturbed(fleet, "warm", cold=False)
        differs = [name for name in expected if expected[name] != again[name]]
        print(
            f"undisturbed: {cold_s:.0f} s, then {warm_s:.0f} s; differs in {differs or 'nothing'}", flush=True
        )
        for number in range(seed, seed + trials):
            for victim in only:
                rng = random.Random(f"{victim} {number}")
                cold = number % 2 == 0
                of_s = cold_s if cold else warm_s
                trial = one(fleet, victim, number, cold, rng.uniform(0.1, of_s), of_s, expected)
                wrong += bool(trial.wrong)
                with log.open("a") as file:
                    print(json.dumps(asdict(trial)), file=file)
                print(
                    f"{victim} {number}: {trial.hit!r} after {trial.after_s:.0f} s: {trial.wrong}", flush=True
                )
    return wrong


def report(log: Path) -> list[str]:
    trials = [Trial(**json.loads(line)) for line in log.read_text().splitlines()]
    lines = [
        "# Parts of a fleet killed at random moments",
        "",
        "| killed | benches | while it was at work | same candidates, verdicts, knowledge | left over |",
        "|---|---|---|---|---|",
    ]
    for victim in VICTIMS:
        own = [trial for trial in trials if trial.victim == victim]
        hit = sum(not trial.hit.startswith("nobody") for trial in own)
        same = sum(not any("left" not in one for one in trial.wrong) for trial in own)
        left = sum(any("left" in one for one in trial.wrong) for trial in own)
        lines.append(f"| {victim} | {len(own)} | {hit} | {same} of {len(own)} | {left} |")
    lines += ["", *(f"- {t.victim} {t.seed} ({t.hit}): {'; '.join(t.wrong)}" for t in trials if t.wrong)]
    took = sorted(trial.seconds for trial in trials)
    lines += ["", f"A bench took {took[0]:.0f} to {took[-1]:.0f} s, kills and restarts included."]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("--only", default=",".join(VICTIMS))
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, default=Path("fleet-kills.jsonl"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.what == "report":
        publish(report(given.log), given.out)
        return 0
    return 1 if run(given.only.split(","), given.trials, given.seed, given.log) else 0


if __name__ == "__main__":
    sys.exit(main())
