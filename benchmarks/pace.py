"""How fast a real suite is searched: problems of a public one, rebuilt from facts about them.

    python benchmarks/pace.py FACTS.jsonl FOLDER [--problems 44] [--seconds 300] [--out pace.md]

Only searches, several candidates each, without the final measurements of a bench. Told are evaluations a
minute, what the device was busy with, how long each task waited for its first verdict from when its turn
began, how often the model ranked candidates right, and the host's memory. FACTS.jsonl is read as by
rebuild.py; of its problems of levels 1 and 2 with at most MOST_MB and MOST_MS, evenly spread ones are taken.
FOLDER keeps tasks and bench; the same command goes on with it. Runs on a GPU, or with --device emulated to
try it.
"""

import argparse
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median

from publish import publish
from rebuild import rebuilt
from rebuilt.facts import Problem, read_problems

from kernelblaster.bench.bench import Bench
from kernelblaster.bench.jobs import JobResult, Setup
from kernelblaster.bench.record import BenchPlan
from kernelblaster.bench.searching import News
from kernelblaster.bench.suite import entries_of
from kernelblaster.devices.emulated import DEFAULT_GPU, EmulatedDevice
from kernelblaster.opening import kind_here, open_device
from kernelblaster.sessions.settings import Search
from kernelblaster.store.run import open_run

MOST_MB, MOST_MS = 9000.0, 12.0
SAMPLED_S = 0.5


class PeakMemory:
    """The most memory that the host had in use beyond what it had at first, in GB, as a context."""

    def __init__(self) -> None:
        self.gigabytes = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        first = _free_gb()
        while not self._over.wait(SAMPLED_S):
            self.gigabytes = max(self.gigabytes, first - _free_gb())


def _free_gb() -> float:
    """What the host has available, in GB."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    found = next(line for line in lines if line.startswith("MemAvailable"))
    return int(found.split()[1]) / 1e6


class Watch:
    """Notes when each job began, for the first time, and prints what ends."""

    def __init__(self) -> None:
        self.began: dict[str, float] = {}

    def __call__(self, news: News) -> None:
        if news.kind == "began":
            self.began.setdefault(news.job, time.time())
        if news.kind == "ended" and news.result is not None:
            print(f"{news.result.task}: {news.result.status} {news.result.reason[:90]}", flush=True)
        if news.words:
            print(news.words, flush=True)


def chosen(facts: Path, count: int) -> list[Problem]:
    """`count` problems of levels 1 and 2 that are not too large, evenly spread over all of them."""
    known = [p for p in read_problems(facts) if p.level < 3 and p.megabytes <= MOST_MB]
    known = [p for p in known if (p.eager_ms or 0.0) <= MOST_MS]
    return [known[place * len(known) // count] for place in range(min(count, len(known)))]


def first_verdicts(bench: Bench, began: dict[str, float]) -> dict[str, float]:
    """Seconds from when each job's turn began to its first recorded verdict."""
    found = {}
    for key, result in bench.record.results().items():
        if result.run is not None and key in began:
            with open_run(bench.folder / "runs", result.run) as run:
                first = next((event.at for event in run.events if event.kind == "evaluation"), None)
            if first is not None:
                found[key] = first - began[key]
    return found


def row(result: JobResult, first_s: float | None, compile_ms: float | None) -> str:
    """A line of the table about one task; the speedup over torch.compile is against the time in the facts."""
    values = ["", "", "", ""]
    if result.best_us and result.baseline_us and result.floor_us:
        values[0] = f"{result.best_us:.0f}"
        values[1] = f"{result.baseline_us / result.best_us:.2f}"
        values[2] = f"{1e3 * compile_ms / result.best_us:.2f}" if compile_ms else ""
        values[3] = f"{result.best_us / result.floor_us:.2f}"
    waited = "" if first_s is None else f"{first_s:.0f}"
    cost = f"{result.spent.evaluations} | {result.spent.device_seconds:.1f} | {waited}"
    words = "" if result.status == "valid" else f"{result.status}: {result.reason[:80]}"
    return f"| {result.task} | {' | '.join(values)} | {cost} | {words} |"


HEAD = [
    "| problem | best us | x eager | x compile | x floor | judged | device s | first verdict s | |",
    "|---|---|---|---|---|---|---|---|---|",
]


def searched(tasks: Path, options: argparse.Namespace, watch: Watch) -> Bench:
    """The bench of the tasks in a folder after its searches, without final measurements, open for reading."""
    kind = kind_here(options.device)
    search = Search(evaluations=options.budget, rollouts=1, choices=4, ranked=not options.unranked)
    plan = BenchPlan(
        suites=(str(tasks),),
        entries=tuple(entries_of([str(tasks)])),
        setup=Setup(device=kind, gpu=None if kind == "cuda" else DEFAULT_GPU, search=search, knowledge=""),
    )
    with closing(Bench.open(options.folder / "bench", plan)) as bench:
        bench.run(options.workers, options.seconds, watch, measure=False)
        return bench


def table(bench: Bench, problems: Sequence[Problem], watch: Watch, peak: PeakMemory) -> list[str]:
    """The lines of the page."""
    results = bench.record.results()
    first = first_verdicts(bench, watch.began)
    compiled = {f"tasks/{problem.name}": problem.compile_ms for problem in problems}
    waited = sorted(first.values()) or [0.0]
    pace = bench.pace
    busy = sum(pace.busy.values())
    lines = [
        f"# The pace of {len(results)} searches of {len(problems)} tasks, {bench.device}",
        "",
        str(pace),
        "",
    ]
    lines += [
        f"Device busy {busy:.0%}. First verdict after {median(waited):.0f} s in the median, "
        f"{waited[-1]:.0f} s at most. Host memory: {peak.gigabytes:.1f} GB more than before, at most.",
        "",
        *HEAD,
    ]
    return lines + [row(r, first.get(key), compiled.get(r.task)) for key, r in results.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--problems", type=int, default=44)
    parser.add_argument("--budget", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=300.0, help="begin nothing new after that")
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--device", choices=["auto", "cuda", "emulated"], default="auto")
    parser.add_argument("--unranked", action="store_true", help="do not let the model rank candidates")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    problems = chosen(options.facts, options.problems)
    tasks = options.folder / "tasks"
    for problem in problems:
        path = tasks / f"{problem.name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(rebuilt(problem))
    begun = time.monotonic()
    EmulatedDevice(DEFAULT_GPU).close()  # built here, once, and not while the clock runs
    open_device(options.device).close()
    print(f"{len(problems)} tasks; ready after {time.monotonic() - begun:.0f} s", flush=True)
    watch = Watch()
    with PeakMemory() as peak:
        bench = searched(tasks, options, watch)
    publish(table(bench, problems, watch, peak), options.out)


if __name__ == "__main__":
    main()
