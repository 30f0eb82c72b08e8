"""Kill whole process trees at random moments, and flip bits in everything that is stored.

python benchmarks/faults.py kills [--kills 60] [--tasks 500] [--only COMMAND] [--seed 0] [--out FILE]
python benchmarks/faults.py flips [--flips 500] [--seed 0] [--out FILE]

Kills: an `optimize`, a `bench` of many tasks and an `ablate`, each killed (SIGKILL of its first process) and
resumed several times before it may end; half of the resumes follow at once. This process adopts whatever is
left of a killed tree, so that nothing is overlooked. What each comes to must be what it came to undisturbed.
Flips: one bit at a time in a knowledge base, in the log that a killed process leaves beside one, in a run's
events and in a cached candidate. Each must be named, be mended, or have no effect.
"""

import argparse
import ctypes
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from publish import publish

from kernelblaster import cache
from kernelblaster.bench.ablation import Ablation
from kernelblaster.bench.bench import Bench
from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge import KnowledgeBase, Provenance, plant
from kernelblaster.settings import settings
from kernelblaster.store.run import LOG, create_run, open_run, run_folders

ROOT = Path(__file__).parents[1]
PR_SET_CHILD_SUBREAPER = 36
ORPHAN_S = 5.0
KILLS_A_RUN = 5
SMALL = ["--device", "emulated", "--budget"]
TASK = """import torch, torch.nn as nn
rows = 64
SMALL = {"rows": 5}
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0 + 1.0
def get_inputs():
    return [torch.randn(rows, 64)]
def get_init_inputs():
    return []
"""


@dataclass
class Kind:
    """A command that can be killed and gone on with. `words` and `again` are given its folder, `result` reads
    everything that must not depend on kills."""

    name: str
    words: Callable[[Path], list[str]]
    again: Callable[[Path], list[str] | None]
    result: Callable[[Path], Any]
    seconds: float = 0.0
    code: int = 0  # undisturbed: of `optimize`, 1 if what it found is not surely faster
    expected: Any = None


@dataclass
class Tally:
    """`watched`: kills after which it was looked for what lives on. `ended` and `same` leave out runs that
    nobody killed, unless they came to something else."""

    kills: int = 0
    watched: int = 0
    same: int = 0
    ended: int = 0
    orphans: int = 0
    slowest_s: float = 0.0
    left: list[str] = field(default_factory=list)


class Place:
    """A folder for everything that commands here write: cache, temporary files, data."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.temporary = root / "tmp"
        self.cache = root / "cache"
        self.temporary.mkdir()
        self.cache.mkdir()
        for built in ("ptx", "native"):
            shared = settings().cache / built
            shared.mkdir(parents=True, exist_ok=True)
            (self.cache / built).symlink_to(shared)
        self.shared_memory = set(Path("/dev/shm").iterdir())

    def start(self, words: list[str]) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(self.temporary)}
        environment |= {"KERNELBLASTER_CACHE": str(self.cache), "KERNELBLASTER_DATA": str(self.root / "data")}
        with (self.root / "output").open("ab") as output:
            command = [sys.executable, "-m", "kernelblaster", *words, "--json"]
            return subprocess.Popen(command, stdout=output, stderr=output, env=environment)

    def left(self, folder: Path) -> list[str]:
        """What processes that have ended left lying about."""
        found = [str(path) for path in self.temporary.glob("kernelblaster-*")]
        own = [kind for kind in self.cache.iterdir() if not kind.is_symlink()]  # the others are shared
        for pattern in (".scratch-*", "kernelblaster-*"):  # also in the parts of the cache that tasks fill
            found += [str(path) for kind in own for path in kind.rglob(pattern)]
        found += [str(path) for path in folder.rglob(".writing-*")]
        new = set(Path("/dev/shm").iterdir()) - self.shared_memory
        return found + [str(path) for path in new if "kernelblaster" in path.name or "torch" in path.name]


def adopted() -> list[int]:
    """Processes whose parent this one is, those included whose own parent was killed."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == os.getpid() and state != "Z":
            found.append(int(stat.parent.name))
    return found


def kill(process: "subprocess.Popen[bytes]", tally: Tally, wait: bool) -> None:
    """Kill the first process of a tree, and see how long the others live on."""
    process.send_signal(signal.SIGKILL)
    process.wait()
    tally.kills += 1
    tally.watched += wait
    start = time.monotonic()
    while wait and adopted():
        if time.monotonic() - start > ORPHAN_S:
            tally.orphans += len(adopted())
            break
        time.sleep(0.01)
    tally.slowest_s = max(tally.slowest_s, time.monotonic() - start)
    while wait:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            break


def kill_often(kind: Kind, place: Place, folder: Path, rng: random.Random, tally: Tally, kills: int) -> None:
    words, before = kind.words(folder), tally.kills
    for _ in range(kills):
        process = place.start(words)
        try:
            process.wait(rng.uniform(0.3, kind.seconds))
        except subprocess.TimeoutExpired:
            kill(process, tally, wait=rng.random() < 0.5)
        words = kind.again(folder) or words
        if process.returncode == kind.code:
            break
    code = place.start(words).wait()
    result = kind.result(folder)
    same = code == kind.code and result == kind.expected
    if tally.kills > before or not same:
        tally.ended += 1
        tally.same += same
    if not same:
        print(f"{folder.name}: code {code}, not {kind.code}; {result}; and not {kind.expected}", flush=True)
    tally.left += place.left(folder)


def optimizing(task: Path) -> Kind:
    def words(folder: Path) -> list[str]:
        own = ["--runs", str(folder / "runs"), "--kb", str(folder / "kb.db"), "--seed", "5"]
        return ["optimize", str(task), *SMALL, "2", *own]

    def again(folder: Path) -> list[str] | None:
        begun = [run for run in run_folders(folder / "runs") if b"\n" in (run / LOG).read_bytes()]
        return ["resume", begun[0].name, "--runs", str(folder / "runs")] if begun else None

    def result(folder: Path) -> Any:
        ended = [run for run in run_folders(folder / "runs") if (run / "trajectory.json").is_file()]
        with KnowledgeBase(folder / "kb.db") as knowledge:
            changes = [event.change.model_dump(mode="json") for event in knowledge.log()]
        read = [(run / name).read_text() for run in ended for name in ("best.cu", "trajectory.json")]
        return [read, changes]

    return Kind("optimize", words, again, result)


def told(results: list[Any], folder: Path) -> Any:
    """Results without what they cost and where they lie; and how many runs there are for each job."""
    kept = [one.model_dump(mode="json", exclude={"spent", "run"}) for one in results]
    jobs: Counter[str] = Counter()
    for run in run_folders(folder / "runs"):
        with open_run(folder / "runs", run.name) as opened:
            jobs.update(event.data["job"] for event in opened.events[:1])
    return [sorted(kept, key=lambda one: one["job"]), sorted(jobs.items())]


def benching(suite: Path) -> Kind:
    def words(folder: Path) -> list[str]:
        return ["bench", str(suite), *SMALL, "2", "--workers", "2", "--folder", str(folder)]

    def result(folder: Path) -> Any:
        with Bench(folder, writing=False) as bench:
            return told([row.result for row in bench.rows()], folder)

    return Kind("bench", words, lambda folder: None, result)


def ablating(task: Path) -> Kind:
    def words(folder: Path) -> list[str]:
        own = ["--studies", "depth", "--seeds", "0", "--workers", "2", "--folder", str(folder)]
        return ["ablate", str(task), *SMALL, "1", *own]

    def result(folder: Path) -> Any:
        with Ablation(folder, writing=False) as ablation:
            return told(list(ablation.results.values()), folder)

    return Kind("ablate", words, lambda folder: None, result)


def kills(count: int, tasks: int, seed: int, only: str | None) -> list[str]:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        task, suite = root / "task.py", root / "suite"
        task.write_text(TASK)
        suite.mkdir()
        (suite / "good.py").write_text(TASK)
        for number in range(tasks - 1):
            (suite / f"broken_{number}.py").write_text(TASK.replace("relu(x)", "relu(x"))
        place = Place(root)
        lines = []
        kinds = [optimizing(task), benching(suite), ablating(task)]
        for kind in [one for one in kinds if only in (None, one.name)]:
            for number in range(2):  # what is built once for a machine has its own time
                start = time.monotonic()
                kind.code = place.start(kind.words(root / f"{kind.name}-whole-{number}")).wait()
                if kind.code not in (0, 1):
                    raise SystemExit(f"{kind.name} failed: {(root / 'output').read_text()[-2000:]}")
                kind.seconds = time.monotonic() - start
            kind.expected = kind.result(root / f"{kind.name}-whole-1")
            tally = Tally()
            for number in itertools.count():
                if tally.kills >= count // 3:
                    break
                folder = root / f"{kind.name}-{number}"
                kill_often(kind, place, folder, rng, tally, min(KILLS_A_RUN, count // 3 - tally.kills))
                print(kind.name, tally, flush=True)
            lines.append(
                f"| {kind.name} | {kind.seconds:.0f} s | {tally.kills} | {tally.same} of {tally.ended} "
                f"| {tally.orphans} ({tally.watched} kills) | {tally.slowest_s:.2f} s | {len(tally.left)} |"
            )
            print(lines[-1], *tally.left[:5], flush=True)
        output = (root / "output").read_text()
        lines += ["", f"Tracebacks in all output: {output.count('Traceback')}."]
    head = "| command | undisturbed | kills | killed runs that ended the same "
    head += "| orphans after 5 s (kills watched) | last one gone | left behind |"
    return [head, "|---|---|---|---|---|---|---|", *lines]


@dataclass
class Target:
    """Files to flip bits in. `read` gives what they hold, or the word `mended` where it was made again."""

    name: str
    files: list[Path]
    read: Callable[[], Any]


def flipped(target: Target, rng: random.Random, count: int) -> Counter[str]:
    expected, found = target.read(), Counter[str]()
    for _ in range(count):
        file = rng.choices(target.files, [path.stat().st_size for path in target.files])[0]
        good = file.read_bytes()
        data = bytearray(good)
        place, bit = rng.randrange(len(data)), rng.randrange(8)
        data[place] ^= 1 << bit
        file.write_bytes(data)
        try:
            read = target.read()
            kind = "mended" if read == "mended" else "without effect" if read == expected else "WRONG"
        except KernelBlasterError:
            kind = "named"
        except Exception as error:
            kind = f"TRACEBACK {error!r}"
        found[kind] += 1
        if kind.isupper() or kind.startswith("TRACEBACK"):
            print(target.name, file.name, place, bit, kind, flush=True)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(good)
    return found


def knowledge_target(root: Path) -> Target:
    path = root / "kb.db"
    with KnowledgeBase(path) as kb:
        plant(kb)
        for number, (state, entries) in enumerate(kb.content().entries.items()):
            for technique in entries:
                kb.observe(state, technique, 0.01 * number, Provenance(run="r", architecture="sm_90a"))

    def read() -> Any:
        with KnowledgeBase(path, create=False) as kb:
            return kb.content(), kb.log()

    return Target("knowledge base", [path], read)


LEAVE_A_LOG = """
import os, sys
from kernelblaster.knowledge import KnowledgeBase, Provenance, plant
kb = KnowledgeBase(sys.argv[1])
plant(kb)
state, entries = next(iter(kb.content().entries.items()))
for technique in entries:
    kb.observe(state, technique, 0.1, Provenance(run="r", architecture="sm_90a"))
os._exit(0)
"""


def log_target(root: Path) -> Target:
    """A knowledge base as a killed process leaves it: what was written last is in SQLite's log alone. It is
    read from a copy, since reading ends the log."""
    folder = root / "left"
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", LEAVE_A_LOG, str(folder / "kb.db")]
    subprocess.run(command, check=True, env=environment, timeout=300)

    def read() -> Any:
        with tempfile.TemporaryDirectory(dir=root) as made:
            copy = Path(shutil.copytree(folder, Path(made) / "copy"))
            (copy / "kb.db-shm").unlink(missing_ok=True)  # as after a restart of the machine
            with KnowledgeBase(copy / "kb.db", create=False) as kb:
                return kb.content(), kb.log()

    return Target("its log", [folder / "kb.db-wal"], read)


def events_target(root: Path) -> Target:
    with create_run(root / "runs", task="t") as run:
        for number in range(20):
            run.once("evaluation", str(number), lambda n=number: {"us": 1.5 * n, "text": "kernel " * 20})  # type: ignore[misc]

    def read() -> Any:
        with open_run(root / "runs", run.name) as opened:
            return list(opened.events)

    return Target("events", [run.folder / LOG], read)


def cache_target(root: Path) -> Target:
    """Six files as a compiled candidate has; a damaged one is removed, which is mending: it is made again."""
    os.environ["KERNELBLASTER_CACHE"] = str(root / "cache")
    target = cache.entry("candidate", "ab" * 16)
    contents = {f"file_{number}": random.Random(number).randbytes(20_000) for number in range(6)}

    def fill() -> None:
        with cache.filling(target) as folder:
            for name, data in contents.items():
                (folder / name).write_bytes(data)

    def read() -> Any:
        if not cache.is_stored(target):
            fill()
            return "mended"
        return {name: (target / name).read_bytes() for name in contents}

    fill()
    return Target("cache", [target / name for name in (*contents, "contents.json")], read)


def flips(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    lines = ["| stored | flips | named | mended | without effect | silently wrong | tracebacks |"]
    lines += ["|---|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as made:
        for make in (knowledge_target, log_target, events_target, cache_target):
            target = make(Path(made))
            share = count // 2 if make is knowledge_target else count // 4
            found = flipped(target, rng, share)
            broken = sum(n for kind, n in found.items() if kind.startswith("TRACEBACK"))
            counts = [found[kind] for kind in ("named", "mended", "without effect", "WRONG")]
            lines.append(f"| {target.name} | {share} | {' | '.join(map(str, counts))} | {broken} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["kills", "flips"])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--only", choices=["optimize", "bench", "ablate"])
    parser.add_argument("--flips", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.what == "kills":
        lines = kills(given.kills, given.tasks, given.seed, given.only)
    else:
        lines = flips(given.flips, given.seed)
    publish(lines, given.out)


if __name__ == "__main__":
    main()
