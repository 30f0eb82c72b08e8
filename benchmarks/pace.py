"""How fast a real suite is searched: problems of a public one, rebuilt from facts about them.

    python benchmarks/pace.py FACTS.jsonl [--problems 44] [--seconds 300] [--out pace.md] [--folder FOLDER]

Only searches, several candidates each, without the final measurements of a bench. Told are evaluations a
minute, what the device was busy with, how long each task waited for its first verdict from when its turn
began, how often the model ranked candidates right, and the host's memory. FACTS.jsonl is read as by
rebuild.py; of its problems of levels 1 and 2 with at most MOST_MB and MOST_MS, evenly spread ones are taken,
and searched in an order in which each part of it is spread evenly, too.

The figures are written anew every EVERY_S seconds, so that the page is true whenever this is ended. After
--seconds of searching, and on SIGTERM, everything is stopped where it is, the figures are written for the
last time, and this process ends. FOLDER, which must be new, keeps tasks and bench. Runs on a GPU, or with
--device emulated to try it.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from statistics import median
from types import FrameType

from rebuild import rebuilt
from rebuilt.facts import Problem, read_problems

from kernelblaster.bench.bench import Bench
from kernelblaster.bench.jobs import JobResult, Setup
from kernelblaster.bench.record import BUSY_WITH, BenchPlan
from kernelblaster.bench.searching import News
from kernelblaster.bench.suite import Entry, entries_of
from kernelblaster.devices.emulated import DEFAULT_GPU, EmulatedDevice
from kernelblaster.opening import kind_here, open_device
from kernelblaster.sessions.ranking import Ranking
from kernelblaster.sessions.settings import Search
from kernelblaster.store.events import RunEvent
from kernelblaster.store.follow import FollowedRun
from kernelblaster.store.run import run_folders

MOST_MB, MOST_MS = 9000.0, 12.0
SAMPLED_S = 0.5
EVERY_S = 30.0
WANTED_A_MINUTE, WANTED_BUSY, WANTED_FIRST_S = 40.0, 0.6, 60.0


def _free_gb() -> float:
    """What the host has available, in GB."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    found = next(line for line in lines if line.startswith("MemAvailable"))
    return int(found.split()[1]) / 1e6


class Watch:
    """What the searches tell while they run: when each job began, for the first time, what ended, and the
    seconds that the device spent on each kind of work."""

    def __init__(self) -> None:
        self.began: dict[str, float] = {}
        self.results: dict[str, JobResult] = {}
        self.busy: Counter[str] = Counter()

    def __call__(self, news: News) -> None:
        if news.kind == "began":
            self.began.setdefault(news.job, time.time())
        self.busy.update(news.busy)
        if news.kind == "ended" and news.result is not None:
            self.results[news.job] = news.result
            print(f"{news.result.task}: {news.result.status} {news.result.reason[:90]}", flush=True)
        if news.words:
            print(news.words, flush=True)


class Verdicts:
    """When each job's candidates got their verdicts, from the logs that the searches write."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._followed: dict[str, FollowedRun] = {}

    def read(self) -> dict[str, list[float]]:
        """The times of all verdicts so far, in seconds since 1970, by job."""
        for folder in run_folders(self._runs):
            if folder.name not in self._followed:
                self._followed[folder.name] = FollowedRun(folder, _slim)
        found: dict[str, list[float]] = {}
        for run in self._followed.values():
            run.update()
            if run.events and "job" in run.events[0].data:
                judged = [event.at for event in run.events if event.kind == "evaluation"]
                found.setdefault(run.events[0].data["job"], []).extend(judged)
        return found


def _slim(event: RunEvent) -> RunEvent:
    """An event with the job's name only."""
    kept = {name: event.data[name] for name in ("job",) if name in event.data}
    return event.model_copy(update={"data": kept})


def chosen(facts: Path, count: int) -> list[Problem]:
    """`count` problems of levels 1 and 2 that are not too large, evenly spread over all of them."""
    known = [p for p in read_problems(facts) if p.level < 3 and p.megabytes <= MOST_MB]
    known = [p for p in known if (p.eager_ms or 0.0) <= MOST_MS]
    return [known[place * len(known) // count] for place in range(min(count, len(known)))]


def spread(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries in an order in which the first few are spread over all of them: every eighth first."""
    return tuple(entry for first in range(8) for entry in entries[first::8])


class Pace:
    """The figures of a bench while it is searched, from `begun` (seconds since 1970) on, as a page that is
    written to `out`."""

    def __init__(self, bench: Bench, problems: Sequence[Problem], watch: Watch, out: Path | None) -> None:
        self.begun = time.time()
        self._watch = watch
        self._verdicts = Verdicts(bench.folder / "runs")
        self._device = bench.device
        self._problems = {f"tasks/{problem.name}": problem for problem in problems}
        self._out = out
        self._marks: list[tuple[float, int, float]] = [(self.begun, 0, 0.0)]  # time, judged, busy seconds
        self._memory_gb, self._free_gb = 0.0, _free_gb()
        self._lock = threading.RLock()

    def sample_memory(self) -> None:
        self._memory_gb = max(self._memory_gb, self._free_gb - _free_gb())

    def write(self, why: str) -> list[str]:
        """The page as it is now, written to its file; a line about it is printed. `why` says what the
        searches are doing."""
        with self._lock:
            now, verdicts = time.time(), self._verdicts.read()
            judged = sum(map(len, verdicts.values()))
            self._marks.append((now, judged, sum(self._watch.busy.values())))
            lines = self._page(now, verdicts, why)
            if self._out:
                whole = self._out.with_suffix(".new")
                whole.write_text("\n".join(lines) + "\n")
                whole.replace(self._out)
            spent = now - self.begun
            rate = 60 * judged / spent if spent else 0.0
            print(f"{spent:.0f} s: {judged} judged, {rate:.0f} a minute, busy {self._busy(now)}", flush=True)
            return lines

    def _busy(self, now: float) -> str:
        busy = self._watch.busy
        if not busy:
            return "not known"
        parts = [
            f"{BUSY_WITH.get(kind, kind)} {s / (now - self.begun):.0%}" for kind, s in sorted(busy.items())
        ]
        return f"{sum(busy.values()) / (now - self.begun):.0%} ({', '.join(parts)})"

    def _page(self, now: float, verdicts: dict[str, list[float]], why: str) -> list[str]:
        watch, times = self._watch, sorted(at for found in verdicts.values() for at in found)
        spent = now - self.begun
        first = {
            job: found[0] - watch.began[job]
            for job, found in verdicts.items()
            if found and job in watch.began
        }
        waiting = {
            job: now - at for job, at in watch.began.items() if job not in first and job not in watch.results
        }
        minutes = spent / 60
        ranked = [result.ranked for result in watch.results.values()]
        ranking = Ranking(*(sum(pair[place] for pair in ranked) for place in (0, 1)))
        since_first = now - times[0] if times else 0.0
        late = sum(seconds > WANTED_FIRST_S for seconds in (*first.values(), *waiting.values()))
        waits = sorted(first.values()) or [0.0]
        lines = [
            f"# The pace of searches of {len(self._problems)} tasks, {self._device}",
            "",
            f"After {spent:.0f} s of searching, {why}: {len(times)} candidates of {len(verdicts)} tasks are "
            f"judged, {len(watch.results)} searches have ended.",
            "",
            "| | wanted | seen |",
            "|---|---|---|",
            f"| evaluations a minute, from the start | {WANTED_A_MINUTE:.0f} | {len(times) / minutes:.1f} |",
            "| the same from the first verdict on | | "
            + (f"{60 * len(times) / since_first:.1f} |" if since_first else " |"),
            f"| device busy, from the start | {WANTED_BUSY:.0%} | {self._busy(now)} |",
            f"| first verdict after its turn began, s | {WANTED_FIRST_S:.0f} at most | {waits[-1]:.0f} at "
            f"most, {median(waits):.0f} in the median; {late} later than {WANTED_FIRST_S:.0f} |",
            f"| the model's ranking | | {str(ranking) or 'not known yet'} |",
            f"| host memory beyond what was used before, GB | | {self._memory_gb:.1f} at most |",
            "",
            f"First verdict of all after {times[0] - self.begun:.0f} s." if times else "No verdict yet.",
            "Without a verdict yet, for s: "
            + (", ".join(f"{_task(job)} {s:.0f}" for job, s in waiting.items()) or "none")
            + ".",
            "",
            "| until s | judged | a minute | device busy |",
            "|---|---|---|---|",
            *self._course(),
            "",
            *HEAD,
        ]
        for job in watch.began:
            result, judged = watch.results.get(job), len(verdicts.get(job, []))
            problem = self._problems.get(result.task if result else _task(job))
            lines.append(row(_task(job), result, judged, first.get(job), problem))
        return lines

    def _course(self) -> list[str]:
        """A row for each time that the page was written: what was done since the time before."""
        return [
            f"| {at - self.begun:.0f} | {judged - before} | {60 * (judged - before) / (at - since):.0f} | "
            + (f"{(busy - idle) / (at - since):.0%} |" if busy else " |")
            for (since, before, idle), (at, judged, busy) in zip(self._marks, self._marks[1:], strict=False)
            if at - since >= 1.0
        ]


def _task(job: str) -> str:
    """The task in a job's key, which is arm/task/seed."""
    return job.partition("/")[2].rpartition("/")[0]


HEAD = [
    "| problem | best us | x eager | x compile | x floor | judged | device s | first verdict s | |",
    "|---|---|---|---|---|---|---|---|---|",
]


def row(
    task: str, result: JobResult | None, judged: int, first_s: float | None, problem: Problem | None
) -> str:
    """A line of the table about one task; the speedup over torch.compile is against the time in the facts."""
    values, device, words = ["", "", "", ""], "", "not ended"
    if result is not None:
        words = "" if result.status == "valid" else f"{result.status}: {result.reason[:80]}"
        device = f"{result.spent.device_seconds:.1f}"
        if result.best_us and result.baseline_us and result.floor_us:
            compile_ms = problem.compile_ms if problem else None
            values[0] = f"{result.best_us:.0f}"
            values[1] = f"{result.baseline_us / result.best_us:.2f}"
            values[2] = f"{1e3 * compile_ms / result.best_us:.2f}" if compile_ms else ""
            values[3] = f"{result.best_us / result.floor_us:.2f}"
    waited = "" if first_s is None else f"{first_s:.0f}"
    return f"| {task} | {' | '.join(values)} | {judged} | {device} | {waited} | {words} |"


def searched(pace: Pace, bench: Bench, watch: Watch, options: argparse.Namespace) -> None:
    """Search the tasks of a bench. Ends this process, after --seconds at the latest, when the page is
    written."""

    def end(why: str, code: int) -> None:
        print("\n".join(pace.write(why)), flush=True)
        if options.folder is None:
            shutil.rmtree(bench.folder.parent, ignore_errors=True)
        os._exit(code)  # children end with this process

    def stopped(number: int, frame: FrameType | None) -> None:
        end("stopped by a signal", 128 + number)

    def report() -> None:
        written = pace.begun
        while True:
            time.sleep(SAMPLED_S)
            pace.sample_memory()
            if time.time() > pace.begun + options.seconds:
                end("which was all that was given", 0)
            if time.time() > written + EVERY_S:
                pace.write("still going on")
                written = time.time()

    signal.signal(signal.SIGTERM, stopped)
    threading.Thread(target=report, daemon=True).start()
    bench.run(options.workers, options.seconds, watch, measure=False)
    end("which is all of them", 0)


def make_ready(device: str) -> None:
    """Build what is compiled once, here and side by side, and not while the clock runs."""
    with ThreadPoolExecutor() as pool:
        emulated = pool.submit(lambda: EmulatedDevice(DEFAULT_GPU).close())
        open_device(device).close()  # type: ignore[arg-type]
        emulated.result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument(
        "--folder", type=Path, help="a new folder, for tasks and bench; without it, a temporary one"
    )
    parser.add_argument("--problems", type=int, default=44)
    parser.add_argument("--budget", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=300.0, help="of searching; then all is stopped")
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--device", choices=["auto", "cuda", "emulated"], default="auto")
    parser.add_argument("--unranked", action="store_true", help="do not let the model rank candidates")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="kernelblaster-pace-"))
    if (folder / "bench").exists():
        sys.exit(f"{folder}: there is a bench in this folder; name a new one.")
    begun = time.monotonic()
    problems = chosen(options.facts, options.problems)
    tasks = folder / "tasks"
    for problem in problems:
        path = tasks / f"{problem.name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(rebuilt(problem))
    make_ready(options.device)
    print(f"{len(problems)} tasks in {folder}; ready after {time.monotonic() - begun:.0f} s", flush=True)
    kind = kind_here(options.device)
    search = Search(evaluations=options.budget, rollouts=1, choices=4, ranked=not options.unranked)
    plan = BenchPlan(
        suites=(str(tasks),),
        entries=spread(entries_of([str(tasks)])),
        setup=Setup(device=kind, gpu=None if kind == "cuda" else DEFAULT_GPU, search=search, knowledge=""),
    )
    watch = Watch()
    with closing(Bench.open(folder / "bench", plan)) as bench:
        searched(Pace(bench, problems, watch, options.out), bench, watch, options)


if __name__ == "__main__":
    main()
