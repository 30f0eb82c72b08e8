"""A fleet of two nodes on this machine with a PostgreSQL server, and benches on it, for benchmarks.

Each node has a PTX machine and a cache of its own. A bench searches small tasks; on the fleet, the
server has its events, leases and knowledge.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kernelblaster.bench.bench import Bench, bench_knowledge
from kernelblaster.fleet.node_file import NodeFile
from kernelblaster.knowledge import KnowledgeBase
from kernelblaster.settings import settings
from kernelblaster.store.run import Run, run_folders
from kernelblaster.testing.postgres_server import PostgresServer, running_server

ROOT = Path(__file__).parents[1]
PORT, CLIENT_PORT = 26479, 20101
BUDGET, SEED = 4, 3
HEAD = "import torch, torch.nn as nn\nrows = 4096\nSMALL = {'rows': 5}\n"
TAIL = "def get_inputs():\n    return [torch.randn(rows, 1024)]\ndef get_init_inputs():\n    return []\n"
TASKS = {
    "relu": "torch.relu(x) * 2.0 + 1.0",
    "sums": "(x * 3.0).sum(dim=1)",
    "tanh": "torch.tanh(x) + x",
    "largest": "(x - 1.0).amax(dim=1)",
    "squares": "(x * x).mean(dim=1)",
    "sigmoid": "torch.sigmoid(x) * x",
    "shifted": "torch.exp(-torch.abs(x)) + 0.5",
    "lengths": "torch.sqrt((x * x).sum(dim=1))",
    "clamped": "torch.clamp(x * 2.0, -1.0, 1.0)",
    "softmax": "torch.softmax(x, dim=1)",
}
"""Small tasks, by name: what `forward(x)` returns."""


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
    """The two nodes, the server, and the benches of the first `tasks` of TASKS on them."""

    def __init__(self, root: Path, server: PostgresServer, tasks: int) -> None:
        self.root = root
        self.server = server
        self.head = Node(root / "a", "--port", str(PORT), "--client-port", str(CLIENT_PORT))
        token = root / "a" / "data" / "fleet" / "token"
        try:
            self.other = Node(root / "b", "--join", f"127.0.0.1:{PORT}", "--token", str(token))
        except BaseException:
            self.head.stop()
            raise
        self.suite = root / "suite"
        self.suite.mkdir()
        for name, body in list(TASKS.items())[:tasks]:
            model = f"class Model(nn.Module):\n    def forward(self, x):\n        return {body}\n"
            (self.suite / f"{name}.py").write_text(HEAD + model + TAIL)
        self.shared_memory = set(Path("/dev/shm").iterdir())

    def close(self) -> None:
        try:
            self.other.stop()  # fails if it was killed
        finally:
            self.head.stop()

    @property
    def said(self) -> str:
        """What the benches have printed, the end of it."""
        return (self.root / "output").read_text(errors="replace")[-3000:]

    def new_store(self) -> str:
        """The URL of a new database, without its password."""
        return self.server.database().replace(":secret@", "@")

    def forget(self) -> None:
        """Forget what was compiled."""
        self.head.forget()
        self.other.forget()

    def processes(self) -> list[int]:
        """All processes of both nodes and of the database."""
        return [*self.head.processes, *self.other.processes, *self.server.processes()]

    def begin(self, folder: Path, store: str | None, workers: int = 1) -> "subprocess.Popen[bytes]":
        """Start a bench on the fleet; without a `store`, one without a fleet, in its folder alone. The tasks
        are trusted, since what runs confined reaches neither a fleet nor a database."""
        words = ["bench", str(self.suite), "--folder", str(folder), "--budget", str(BUDGET)]
        words += ["--device", "emulated", "--seeds", str(SEED)]
        words += ["--workers", str(workers)]
        return self._start(*words, *(["--store", store, "--fleet", "auto"] if store else []))

    def go_on(self, folder: Path) -> "subprocess.Popen[bytes]":
        """Go on with a bench that was killed."""
        return self._start("bench", "--folder", str(folder), "--fleet", "auto", "--workers", "1")

    def _start(self, *words: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "kernelblaster", "--trust-tasks", *words, "--json"]
        with (self.root / "output").open("ab") as output:
            return subprocess.Popen(command, env=self.head.environment, stdout=output, stderr=output)

    def actors(self) -> list[int]:
        """The actors that own devices, on both nodes."""
        return [pid for pid in self._ray() if "DeviceActor" in words_of(pid)]

    def compilers(self) -> list[int]:
        """Ray's processes that compile at this moment."""
        return [pid for pid in self._ray() if words_of(pid).startswith("ray::compile_packed")]

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
    return {"candidates and verdicts": judged, "knowledge": changes, "rows": sorted(rows), "whole": whole}


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.2g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


@contextmanager
def running_fleet(tasks: int) -> Iterator[Fleet]:
    """A context with the fleet, which is ended with this process where that is asked to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    os.environ["PGPASSWORD"] = "secret"
    with tempfile.TemporaryDirectory(prefix="kf-") as made, running_server() as server:
        fleet = Fleet(Path(made), server, tasks)
        try:
            yield fleet
        finally:
            fleet.close()


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """The names of what differs between two results, each with what is missing and what is there instead."""
    return [
        f"{name}: {_instead(_parts(expected[name]), _parts(found[name]))}"
        for name in expected
        if expected[name] != found[name]
    ]


def _parts(value: Any) -> list[str]:
    """The entries of a list or of lists by name, as texts."""
    if isinstance(value, dict):
        return [f"{key}: {one}" for key, many in value.items() for one in many]
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _instead(expected: Sequence[str], found: Sequence[str]) -> str:
    missing = list((Counter(expected) - Counter(found)).elements())
    more = list((Counter(found) - Counter(expected)).elements())
    return f"missing {missing[:4]}, instead {more[:4]}" if missing or more else "the order"
