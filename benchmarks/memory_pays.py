"""Does memory pay? How many evaluations a task needs with a trained knowledge base and with an empty one.

python benchmarks/memory_pays.py core --jobs 8 --out results/memory_pays.md
python benchmarks/memory_pays.py core --transfer a100 --out results/memory_pays_transfer.md

The covered tasks are split in two halves by a seed. One half trains a knowledge base that starts with no
states and no techniques. Each task of the other half is then searched with a copy of it and with an empty
one, with several seeds. Counted are the candidates judged until one reaches 95 % of the best speedup that
any search of that task found; a search that never gets there counts with its whole budget. Times are
modelled. Everything is kept in --folder: what was judged once is not judged again, and a second call goes
on where the first one ended.
"""

import argparse
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from math import exp, log
from multiprocessing import get_context
from pathlib import Path
from random import Random
from statistics import fmean

from kernelblaster.api import load_task, open_searching
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.judge import Judge
from kernelblaster.knowledge import KnowledgeBase
from kernelblaster.optimize import optimize
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.records import Candidate, Evaluation, Task
from kernelblaster.store.run import Run, create_run, open_run, run_folders
from kernelblaster.strategies.search import Search
from kernelblaster.tasks.catalog import find

REACHED = 0.95
RESAMPLED = 2000


@dataclass(frozen=True)
class Setting:
    """What all searches share. `gpu` is where the second half is searched, `trained_on` the first."""

    folder: str
    gpu: str
    trained_on: str
    evaluations: int
    split: int

    @property
    def training(self) -> str:
        return f"{self.trained_on}-split{self.split}-{self.evaluations}"

    @property
    def trained(self) -> Path:
        return Path(self.folder) / f"trained-{self.training}.db"


@dataclass(frozen=True)
class Job:
    """One search. `arm` is "train", "empty" or "trained"."""

    setting: Setting
    task: str
    arm: str
    seed: int

    @property
    def gpu(self) -> str:
        return self.setting.trained_on if self.arm == "train" else self.setting.gpu

    @property
    def folder(self) -> Path:
        setting = self.setting
        about = self.arm if self.arm == "empty" else f"{self.arm}-{setting.training}"
        group = f"{about}-{self.gpu}-{setting.evaluations}-{self.seed}"
        return Path(setting.folder) / "searches" / group / self.task.replace("/", "-")


class CachedJudge:
    """A judge that keeps its verdicts in a folder and gives them again for the same code."""

    def __init__(self, judge: Judge, folder: Path) -> None:
        self._judge = judge
        self._folder = folder
        self.options, self.device, self.prepare = judge.options, judge.device, judge.prepare

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        missing = [(task, one) for task, one in jobs if not self._path(task, one).is_file()]
        judged = self._judge.evaluate_many(missing) if missing else iter(())
        for (task, candidate), evaluation in zip(missing, judged, strict=True):
            path = self._path(task, candidate)
            path.parent.mkdir(parents=True, exist_ok=True)
            scratch = path.with_suffix(f".{os.getpid()}")
            scratch.write_text(evaluation.model_dump_json())
            scratch.rename(path)
        for task, candidate in jobs:
            kept = Evaluation.model_validate_json(self._path(task, candidate).read_text())
            yield kept.model_copy(update={"candidate": candidate.digest})

    def _path(self, task: Task, candidate: Candidate) -> Path:
        return self._folder / self.device.spec.name / task.digest / f"{candidate.code}.json"


def covered(name: str) -> bool:
    try:
        ExpertPolicy().initial(load_task(name))
    except KernelBlasterError:
        return False
    return True


def search(job: Job) -> list[float | None]:
    """The speedups of the candidates in the order in which they were judged; None for failures. A task
    that cannot be searched has none."""
    result = job.folder / "speedups.json"
    if result.is_file():
        return json.loads(result.read_text())  # type: ignore[no-any-return]
    job.folder.mkdir(parents=True, exist_ok=True)
    setting = job.setting
    where = setting.trained if job.arm == "train" else job.folder / "kb.db"
    if job.arm == "trained" and not where.is_file():
        copy_database(setting.trained, where)
    try:
        task = load_task(job.task)
        with open_searching("emulated", job.gpu) as judge, KnowledgeBase(where) as knowledge:
            cached = CachedJudge(judge, Path(setting.folder) / "verdicts")
            with run_in(job.folder / "runs") as run:
                plan = Search(seed=job.seed, evaluations=setting.evaluations)
                optimize(task, cached, knowledge, run, plan)  # type: ignore[arg-type]
                speedups = speedups_of(run)
    except KernelBlasterError as error:
        (job.folder / "refused.txt").write_text(f"{error}\n")
        speedups = []
    result.write_text(json.dumps(speedups))
    return speedups


def run_in(folder: Path) -> Run:
    """The run that was begun there, or a new one."""
    begun = run_folders(folder) if folder.is_dir() else []
    return open_run(folder, begun[0].name, writing=True) if begun else create_run(folder)


def copy_database(source: Path, target: Path) -> None:
    scratch = target.with_suffix(".copying")
    with sqlite3.connect(source) as one, sqlite3.connect(scratch) as other:
        one.backup(other)
    other.close()
    one.close()
    scratch.rename(target)


def speedups_of(run: Run) -> list[float | None]:
    judged = [event.data["evaluation"]["outcome"] for event in run.events if event.kind == "evaluation"]
    return [outcome["speedup"]["estimate"] if "speedup" in outcome else None for outcome in judged]


@dataclass(frozen=True)
class Row:
    """One task with one seed: evaluations until the goal, in both arms; and the best of each."""

    task: str
    seed: int
    empty: int
    trained: int
    best_empty: float
    best_trained: float
    reached_empty: bool
    reached_trained: bool


def rows_of(found: dict[tuple[str, str, int], list[float | None]], evaluations: int) -> list[Row]:
    tasks = sorted({task for _, task, _ in found})
    rows = []
    for task in tasks:
        all_of = [s for (_, t, _), speedups in found.items() if t == task for s in speedups if s is not None]
        for seed in sorted({seed for _, t, seed in found if t == task}):
            empty, trained = found["empty", task, seed], found["trained", task, seed]
            if not empty or not trained:
                continue
            goal = REACHED * max(all_of)
            counts = [until(speedups, goal) for speedups in (empty, trained)]
            best = [max(s for s in speedups if s is not None) for speedups in (empty, trained)]
            rows.append(
                Row(
                    task,
                    seed,
                    counts[0] or evaluations,
                    counts[1] or evaluations,
                    *best,
                    counts[0] is not None,
                    counts[1] is not None,
                )
            )
    return rows


def until(speedups: Sequence[float | None], goal: float) -> int | None:
    places = (place for place, found in enumerate(speedups, 1) if found is not None and found >= goal)
    return next(places, None)


def geometric_mean(values: Sequence[float]) -> float:
    return exp(fmean(log(value) for value in values))


def interval(by_task: dict[str, list[float]], random: Random) -> tuple[float, float]:
    """95 %, by drawing tasks with replacement."""
    tasks = sorted(by_task)
    means = []
    for _ in range(RESAMPLED):
        drawn = random.choices(tasks, k=len(tasks))
        means.append(geometric_mean([ratio for task in drawn for ratio in by_task[task]]))
    means.sort()
    return means[int(0.025 * RESAMPLED)], means[int(0.975 * RESAMPLED)]


def report(rows: list[Row], setting: Setting, halves: tuple[list[str], list[str]]) -> str:
    by_task: dict[str, list[float]] = {}
    for row in rows:
        by_task.setdefault(row.task, []).append(row.trained / row.empty)
    ratio = geometric_mean([r for ratios in by_task.values() for r in ratios])
    low, high = interval(by_task, Random(0))
    quality = geometric_mean([row.best_trained / row.best_empty for row in rows])
    missed = [sum(not getattr(row, f"reached_{arm}") for row in rows) for arm in ("empty", "trained")]
    lines = [
        "# Memory pays",
        "",
        f"Trained on {len(halves[0])} tasks, modelled for {setting.trained_on}; {len(by_task)} other tasks "
        f"searched, modelled for {setting.gpu}, {len(rows) // len(by_task)} seeds, at most "
        f"{setting.evaluations} candidates each.",
        "",
        f"Evaluations until {REACHED:.0%} of the best, trained over empty: **{ratio:.2f}** "
        f"({low:.2f} to {high:.2f}). The goal was not reached in {missed[0]} searches without memory and "
        f"in {missed[1]} with it, of {len(rows)} each. Best candidate, trained over empty: {quality:.3f}x.",
        "",
        "| task | empty | trained | ratio | best, empty | best, trained |",
        "|---|---|---|---|---|---|",
    ]
    for task in by_task:
        mine = [row for row in rows if row.task == task]
        empty, trained = (geometric_mean([getattr(r, arm) for r in mine]) for arm in ("empty", "trained"))
        best = [max(getattr(r, f"best_{arm}") for r in mine) for arm in ("empty", "trained")]
        lines.append(
            f"| {task} | {empty:.1f} | {trained:.1f} | {trained / empty:.2f} "
            f"| {best[0]:.2f}x | {best[1]:.2f}x |"
        )
    return "\n".join([*lines, "", f"Trained on: {', '.join(halves[0])}."]) + "\n"


def split(names: list[str], seed: int) -> tuple[list[str], list[str]]:
    shuffled = Random(seed).sample(names, len(names))
    half = len(shuffled) // 2
    return sorted(shuffled[:half]), sorted(shuffled[half:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=["core"])
    parser.add_argument("--gpu", default="h200", help="which GPU is modelled")
    parser.add_argument("--transfer", metavar="GPU", help="train for this GPU instead")
    parser.add_argument("--evaluations", type=int, default=40, help="candidates of each search")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--split", type=int, default=0, help="seed of the halves")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2))
    parser.add_argument("--folder", type=Path, default=Path(".memory_pays"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    trained_on = options.transfer or options.gpu
    setting = Setting(str(options.folder), options.gpu, trained_on, options.evaluations, options.split)
    options.folder.mkdir(parents=True, exist_ok=True)
    names = [name for given in options.tasks for name, _ in find(given)]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        known = [n for n, is_covered in zip(names, pool.map(covered, names), strict=True) if is_covered]
        halves = split(known, options.split)
        print(f"{len(known)} of {len(names)} tasks are covered; training on {len(halves[0])}", flush=True)
        train = [Job(setting, name, "train", 0) for name in halves[0]]
        for job, _ in zip(train, pool.map(search, train), strict=True):
            print(f"trained on {job.task}", flush=True)
        jobs = [
            Job(setting, name, arm, seed)
            for name in halves[1]
            for seed in range(options.seeds)
            for arm in ("empty", "trained")
        ]
        found = {}
        for job, speedups in zip(jobs, pool.map(search, jobs), strict=True):
            found[job.arm, job.task, job.seed] = speedups
            print(f"{job.task} {job.arm} {job.seed}: {len(speedups)} judged", flush=True)
    rows = rows_of(found, options.evaluations)
    text = report(rows, setting, halves)
    (options.folder / f"rows-{trained_on}-{options.gpu}.json").write_text(
        json.dumps([asdict(row) for row in rows], indent=1)
    )
    if options.out:
        options.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
