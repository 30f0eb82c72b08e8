"""An hour of searches, verdicts and benches, with kills in between: what grows?

python benchmarks/soak.py [--minutes 60] [--seed 0] [--log FILE] [--out FILE]

Three kinds of work take turns: a search inside this process, which lives through the whole hour; a command
that may end; and a command that is killed (SIGKILL of its first process) at a random moment. Each minute,
when no command is at work, one line of figures is logged. Runs are results and are removed when they end;
whatever else stays behind counts.
"""

import argparse
import ctypes
import gc
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from faults import PR_SET_CHILD_SUBREAPER, ROOT, TASK, Place, Tally, adopted, kill
from publish import publish

from kernelblaster.api import Search, evaluate, optimize

CANDIDATE = ROOT / "examples" / "softmax.cu"
SOFTMAX = "core/level1/softmax"
SEEDS = 3  # searches repeat after so many: what they compile is the same, and the cache need not grow
LONGEST_S = 9.0  # that a command is left alone before it is killed
FIGURES = {
    "rss_kb": "memory of this process, kB",
    "descriptors": "open descriptors of this process",
    "threads": "threads of this process",
    "processes": "processes in the tree, besides this one",
    "temporary": "files in the temporary folder",
    "cached": "files in the cache",
    "cached_kb": "cache, kB",
    "shared_memory": "files in `/dev/shm`",
}


class Soak:
    def __init__(self, root: Path, rng: random.Random) -> None:
        self._rng = rng
        self._place = Place(root)
        self._task = root / "task.py"
        self._suite = root / "suite"
        self._suite.mkdir()
        self._task.write_text(TASK)
        shutil.copy(self._task, self._suite / "good.py")
        (self._suite / "broken.py").write_text(TASK.replace("relu(x)", "relu(x"))
        os.environ["KERNELBLASTER_CACHE"] = str(self._place.cache)
        os.environ["KERNELBLASTER_DATA"] = str(root / "data")
        tempfile.tempdir = str(self._place.temporary)
        self._work = root / "work"
        self.tally = Tally()
        self.done = 0
        self.failed: list[str] = []

    def turn(self, number: int) -> None:
        """One search here, one command that may end, one that is killed."""
        self._work.mkdir()
        self._search(number % SEEDS)
        words = self._commands()
        self._command(words[number % len(words)], killed=False)
        self._command(self._rng.choice(words), killed=True)
        shutil.rmtree(self._work)

    def _search(self, seed: int) -> None:
        plan = Search(iterations=1, rollouts=1, evaluations=2, seed=seed)
        own = {"knowledge": self._work / "kb.db", "runs": self._work / "runs"}
        optimize(self._task, device="emulated", budget=plan, **own)  # type: ignore[arg-type]
        evaluate(SOFTMAX, CANDIDATE, device="emulated")

    def _commands(self) -> list[list[str]]:
        own = ["--runs", str(self._work / "other"), "--kb", str(self._work / "other.db")]
        small = ["--device", "emulated", "--budget", "1"]
        bench = ["--workers", "1", "--folder", str(self._work / f"bench-{self.done}")]
        return [
            ["optimize", str(self._task), *small, *own],
            ["evaluate", SOFTMAX, str(CANDIDATE), "--device", "emulated"],
            ["bench", str(self._suite), *small, *bench],
        ]

    def _command(self, words: list[str], *, killed: bool) -> None:
        process = self._place.start(words)
        try:
            code = process.wait(self._rng.uniform(0.3, LONGEST_S) if killed else None)
            if code not in (0, 1):
                self.failed.append(f"{words[0]}: code {code}")
        except subprocess.TimeoutExpired:
            kill(process, self.tally, wait=True)
        self.done += 1

    def figures(self) -> dict[str, int]:
        """Of a quiet moment: no command is at work."""
        gc.collect()
        status = Path("/proc/self/status").read_text().splitlines()
        known = dict(line.split(":", 1) for line in status)
        cached = [path for path in self._place.cache.rglob("*") if path.is_file()]
        return {
            "rss_kb": int(known["VmRSS"].split()[0]),
            "descriptors": len(list(Path("/proc/self/fd").iterdir())),
            "threads": int(known["Threads"]),
            "processes": len(adopted()),
            "temporary": sum(1 for _ in self._place.temporary.rglob("*")),
            "cached": len(cached),
            "cached_kb": sum(path.stat().st_size for path in cached) >> 10,
            "shared_memory": len(list(Path("/dev/shm").iterdir())),
        }


def slope(points: Sequence[tuple[float, int]]) -> float:
    """Per minute, as the median of all pairs (Theil and Sen); `points` are minutes and values."""
    pairs = [(y - b) / (x - a) for i, (a, b) in enumerate(points) for x, y in points[i + 1 :]]
    return statistics.median(pairs) if pairs else 0.0


def table(rows: Sequence[dict[str, int]], minutes: Sequence[float]) -> list[str]:
    """The first quarter beside the last; what the first turns load and compile is in the first, not in the
    slope."""
    quarter = max(1, len(rows) // 4)
    lines = ["| | first quarter | last quarter | most | slope, an hour |", "|---|---|---|---|---|"]
    for name, title in FIGURES.items():
        values = [row[name] for row in rows]
        first, last = statistics.median(values[:quarter]), statistics.median(values[-quarter:])
        late = slope(list(zip(minutes, values, strict=True))[quarter:])
        lines.append(f"| {title} | {first:g} | {last:g} | {max(values)} | {60 * late:+.1f} |")
    return lines


def soak(minutes: float, seed: int, log: Path | None) -> list[str]:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    rows: list[dict[str, int]] = []
    at: list[float] = []
    with tempfile.TemporaryDirectory() as made:
        one = Soak(Path(made), random.Random(seed))
        start = logged = time.monotonic()
        number = 0
        while time.monotonic() - start < 60 * minutes:
            one.turn(number)
            number += 1
            if time.monotonic() - logged < 60 and rows:
                continue
            logged = time.monotonic()
            rows.append(one.figures())
            at.append((logged - start) / 60)
            words = f"{at[-1]:.1f} min, {number} turns, {one.tally.kills} kills: {rows[-1]}"
            print(words, *one.failed, flush=True)
            if log:
                with log.open("a") as file:
                    print(words, *one.failed, file=file)
        output = (Path(made) / "output").read_text()
        left = one.figures()["processes"]
    told = (
        f"{minutes:g} minutes, {number} searches inside the process, {one.done} commands, {one.tally.kills} "
        f"of them killed; {one.tally.orphans} processes lived on for 5 s after a kill, {left} at the end; "
        f"{len(one.failed)} commands failed, {output.count('Traceback')} tracebacks."
    )
    return [told, "", *table(rows, at)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    publish(soak(given.minutes, given.seed, given.log), given.out)


if __name__ == "__main__":
    main()
