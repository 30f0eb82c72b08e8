"""A bench: every task of a suite searched, and the results measured. It can be interrupted and continued.

    bench = Bench.open(folder, plan)
    bench.run(workers=4)
    for row in bench.rows(): ...

A bench is a folder with its event log (the plan, and the result of each task), the run of each task, and the
knowledge base that the searches share.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelblaster.bench.jobs import DIED, INITIAL, Job, JobResult, Measured, Setup, result_of
from kernelblaster.bench.measuring import measure_all, warm
from kernelblaster.bench.metrics import against_best
from kernelblaster.bench.pool import WorkerPool, search_all
from kernelblaster.bench.searching import News, Tell
from kernelblaster.bench.suite import Entry
from kernelblaster.bench.work_folder import WorkFolder, create_work, holds_work
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.judge.baseline import BaselineName
from kernelblaster.knowledge.initial import SEED, start_knowledge
from kernelblaster.records.record import Record

ARM = "bench"
KIND = "plan"
KNOWLEDGE = "knowledge.db"
BEST = "best"  # names the fastest baseline of each task


class BenchPlan(Record):
    """What a bench does: every task of `entries` is searched with every seed, as `setup` says. `start` is the
    initial knowledge base: `seed`, `empty`, or the path or URL of one that is copied. After the searches, the
    best candidates are measured against `baselines`, eager first. `suites` are the names as the user gave
    them."""

    suites: tuple[str, ...]
    entries: tuple[Entry, ...]
    setup: Setup
    seeds: tuple[int, ...] = (0,)
    baselines: tuple[BaselineName, ...] = ("eager",)
    start: str = SEED

    @property
    def jobs(self) -> list[Job]:
        """One job for each seed and task."""
        return [
            Job(arm=ARM, entry=entry, seed=seed, setup=self.setup)
            for seed in self.seeds
            for entry in self.entries
        ]


@dataclass(frozen=True)
class Row:
    """One task with one seed: the result of its search, and the final measurements of its best candidate by
    baseline, `initial` included; empty until measured."""

    result: JobResult
    measured: dict[str, Measured]

    @property
    def speedups(self) -> dict[str, float | None]:
        """Speedup over each baseline that runs, without `initial`; None: the candidate was not correct in
        that measurement."""
        return {
            name: one.speedup.estimate if one.speedup else None
            for name, one in self.measured.items()
            if not one.absent and name != INITIAL
        }

    def speedup(self, baseline: str) -> float | None:
        """The speedup over this baseline, or over the fastest of them (`best`); None if there is no valid
        candidate or the baseline does not run."""
        if self.result.status != "valid":
            return None
        if baseline == BEST:
            return against_best(self.speedups)
        one = self.measured.get(baseline)
        return one.speedup.estimate if one and one.speedup else None

    def faster(self, baseline: str) -> bool:
        """Whether the judge accepted the candidate as faster than this baseline (or `best`), beyond the
        uncertainty of the measurement."""
        one = self.beside_best if baseline == BEST else self.measured.get(baseline)
        return self.result.status == "valid" and one is not None and one.outcome == "Accepted"

    @property
    def died(self) -> bool:
        """Whether code of the task crashed the process in which it ran, in the search or the measurement."""
        return self.result.status == "died" or any(one.outcome == DIED for one in self.measured.values())

    @property
    def beside_best(self) -> Measured | None:
        """The measurement against the fastest baseline; None if there is none."""
        known = [one for name, one in self.measured.items() if name != INITIAL and one.speedup]
        return min(known, key=lambda one: one.speedup.estimate, default=None) if known else None  # type: ignore[union-attr]


@dataclass(frozen=True)
class Pace:
    """Throughput of a bench's searches: candidates judged, wall-clock seconds, and by kind of work
    (`evaluate`, `profile`, `prepare`) the share of that time for which a shared device was busy (`busy`)."""

    evaluations: int
    seconds: float
    busy: Mapping[str, float]

    @property
    def a_minute(self) -> float | None:
        """Candidates judged per minute; None if nothing was searched."""
        return 60 * self.evaluations / self.seconds if self.seconds else None

    def __str__(self) -> str:
        """A sentence; empty if nothing was searched."""
        if not self.seconds:
            return ""
        words = f"{self.evaluations} candidates judged in {self.seconds:.0f} s: {self.a_minute:.0f} a minute"
        names = {"evaluate": "verdicts", "profile": "profiles", "prepare": "preparing tasks"}
        shares = [f"{names[kind]} {share:.0%}" for kind, share in sorted(self.busy.items())]
        return f"{words}; the device: {', '.join(shares)}." if shares else f"{words}."


class Bench(WorkFolder):
    """An open bench in its folder: plan, results and measurements. `writing` takes the folder's lock, which
    only one process can hold. Raises KernelBlasterError if the folder holds something else."""

    def __init__(self, folder: Path, *, writing: bool) -> None:
        super().__init__(folder, KIND, "bench", writing=writing)
        self.plan = BenchPlan.model_validate(self._begun_with)

    @staticmethod
    def open(folder: Path, plan: BenchPlan | None = None) -> "Bench":
        """Open the bench in `folder` to continue it, or create it from `plan`. Raises KernelBlasterError if
        the plan differs from the recorded one, or there is neither."""
        if is_bench(folder):
            bench = Bench(folder, writing=True)
            different = _differences(bench.plan, plan) if plan else []
            if different:
                bench.close()
                raise KernelBlasterError(
                    f"{folder}: was begun with another {', '.join(different)}; leave these options out to "
                    "go on with it, or name another folder."
                )
            return bench
        if plan is None:
            raise KernelBlasterError(f"{folder}: there is no bench to go on with; name a suite.")
        create_work(folder, KIND, plan.model_dump(mode="json"))
        return Bench(folder, writing=True)

    # Working

    def run(
        self,
        workers: int,
        seconds: float | None = None,
        tell: Tell = lambda news: None,
        tell_measured: Callable[[Measured], None] = lambda one: None,
        *,
        apart: bool = False,
    ) -> None:
        """Search the jobs without a result with `workers` processes, then measure the best candidates that
        were not measured yet. Nothing is started after `seconds`; the rest is done by the next call. `tell`
        and `tell_measured` are called with progress. With `apart`, code of tasks, which may crash its
        process, never runs in this one, even with a single worker."""
        until = None if seconds is None else time.monotonic() + seconds
        start_knowledge(self.plan.start, self.folder / KNOWLEDGE)
        done = self._results()
        jobs = [self._with_knowledge(job) for job in self.plan.jobs if job.key not in done]
        if jobs:
            self._run.append("searching")
            start = time.monotonic()
            busy: Counter[str] = Counter()
            try:
                pool = WorkerPool(self.folder, workers, until, apart=apart)
                search_all(jobs, pool, self._recording(_counting(busy, tell)))
            finally:
                self._run.append("pace", seconds=time.monotonic() - start, busy=dict(busy))
        self._measure(workers, until, tell_measured, apart)

    def _with_knowledge(self, job: Job) -> Job:
        """The job with the path of this bench's knowledge base, wherever its folder is now."""
        setup = job.setup.model_copy(update={"knowledge": str(self.folder / KNOWLEDGE)})
        return job.model_copy(update={"setup": setup})

    def _measure(
        self, workers: int, until: float | None, tell: Callable[[Measured], None], apart: bool
    ) -> None:
        """Measure the valid results that have no measurements yet, until `until` (a `time.monotonic`). A lost
        device is started again once; then DeviceLost is raised."""
        known = self._measurements()
        waiting = [r for r in self._results().values() if r.status == "valid" and r.job not in known]
        if not waiting or (until is not None and time.monotonic() > until):
            return
        warm([(self.folder / "runs", r.run) for r in waiting if r.run], self.plan.baselines, workers)
        left = {result.job: result for result in waiting}

        def in_time() -> Iterator[JobResult]:
            for result in list(left.values()):
                if until is not None and time.monotonic() > until:
                    return
                yield result

        for last in (False, True):
            try:
                about = (self.plan.jobs[0], self.plan.baselines, self.folder)
                for measurements in measure_all(*about, in_time(), apart=apart):
                    for one in measurements:
                        self._run.once("measured", f"{one.job} {one.baseline}", _dumped(one))
                        tell(one)
                    left.pop(measurements[0].job)
                return
            except DeviceLost:
                if last:
                    raise

    # Reading

    @property
    def done(self) -> set[str]:
        """The keys of the jobs whose search has ended."""
        return set(self._results())

    def rows(self) -> list[Row]:
        """One row for each planned task and seed, in the order of the plan; those without a result yet are
        `unfinished`."""
        results, measured = self._results(), self._measurements()
        return [
            _row(results.get(job.key) or result_of(job, "unfinished"), measured.get(job.key, {}))
            for job in self.plan.jobs
        ]

    @property
    def device(self) -> str:
        """The device's name from a result; until there is one, the requested GPU or kind of device."""
        known = (result.device for result in self._results().values() if result.device)
        return next(known, self.plan.setup.gpu or self.plan.setup.device)

    @property
    def pace(self) -> Pace:
        """Over all searches and all interruptions. A process that was killed counts up to its last result;
        `busy` covers only those that ended."""
        busy: Counter[str] = Counter()
        seconds = known = mark = 0.0
        for event in self._run.events:
            after = event.at if event.after is None else event.after  # earlier versions had one clock
            if event.kind == "result":
                seconds += max(0.0, after - mark)
            if event.kind in ("searching", "result"):
                mark = after
            if event.kind == "pace":
                busy.update(event.data["busy"])
                known += event.data["seconds"]
        judged = sum(result.spent.evaluations for result in self._results().values())
        return Pace(judged, seconds, {kind: spent / known for kind, spent in busy.items() if known})

    def _results(self) -> dict[str, JobResult]:
        """The recorded results by job key."""
        return {e.key: JobResult.model_validate(e.data) for e in self._run.events if e.kind == "result"}

    def _measurements(self) -> dict[str, dict[str, Measured]]:
        """The recorded measurements by job key and baseline, of jobs that have one for every baseline."""
        by_job: dict[str, dict[str, Measured]] = {}
        for event in self._run.events:
            if event.kind == "measured":
                one = Measured.model_validate(event.data)
                by_job.setdefault(one.job, {})[one.baseline] = one
        return {
            job: by_baseline
            for job, by_baseline in by_job.items()
            if {*self.plan.baselines, INITIAL} <= by_baseline.keys()
        }


def is_bench(folder: Path) -> bool:
    """Whether the folder holds a bench."""
    return holds_work(folder, KIND)


def _row(result: JobResult, measured: dict[str, Measured]) -> Row:
    """A row for the reports. A candidate that is not correct in a final measurement makes the result
    `invalid`; a valid result without measurements is `unfinished`."""
    wrong = [one for one in measured.values() if one.speedup is None and not one.absent]
    if wrong:
        reason = f"judged afresh: {wrong[0].outcome}: {wrong[0].reason}"
        result = result.model_copy(update={"status": "invalid", "reason": reason})
    elif result.status == "valid" and not measured:
        result = result.model_copy(update={"status": "unfinished", "reason": "searched, not measured yet"})
    return Row(result, measured)


def _counting(busy: Counter[str], tell: Tell) -> Tell:
    """`tell`, which also adds the busy seconds of each message to `busy`."""

    def count(news: News) -> None:
        busy.update(news.busy)
        tell(news)

    return count


def _dumped(one: Measured) -> Callable[[], dict[str, Any]]:
    return lambda: one.model_dump(mode="json")


def _differences(begun: BenchPlan, now: BenchPlan) -> list[str]:
    """The names of the plan's fields that differ; the knowledge base's path is ignored, since the folder may
    have been moved."""
    old, new = (replaced.model_dump(exclude={"setup": {"knowledge"}}) for replaced in (begun, now))
    return [name for name in old if old[name] != new[name]]
