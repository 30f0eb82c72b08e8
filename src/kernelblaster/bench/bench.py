"""A bench: every task of a suite searched, and the results measured. It can be interrupted and continued.

    bench = Bench.open(folder, plan)  # a BenchPlan: the tasks, how to search them, what to compare with
    bench.run(workers=4)  # searches and measures what is missing; interrupted, call it again
    for row in bench.rows():  # one for each task and seed
        print(row.result.task, row.speedups)  # by baseline: {"eager": 1.8}

A bench is a folder with its event log (the plan, and the result of each task), the run of each task, and the
knowledge base that the searches share.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kernelblaster.bench.jobs import Job, JobResult, Measured
from kernelblaster.bench.measuring import measure_all, warm
from kernelblaster.bench.pool import WorkerPool, open_fleet, search_all
from kernelblaster.bench.record import KIND, KNOWLEDGE, BenchPlan, BenchRecord, Pace, Row
from kernelblaster.bench.searching import News, Tell
from kernelblaster.bench.work_folder import WorkFolder, create_work, holds_work
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.fleet.dispatcher import Dispatcher
from kernelblaster.fleet.opening import Machines
from kernelblaster.knowledge.address import opened
from kernelblaster.knowledge.initial import start_knowledge
from kernelblaster.store.database import own_schema
from kernelblaster.store.pointer import pointer_of


class Bench(WorkFolder):
    """An open bench: its plan, its results and its final measurements, all kept in `folder`. With `writing`,
    it is opened to be continued and the folder is locked, so that no other process can do so; without, it can
    only be read. Making this object raises KernelBlasterError if the folder holds something else, StoreError
    if another process is writing."""

    def __init__(self, folder: Path, *, writing: bool) -> None:
        super().__init__(folder, KIND, "bench", writing=writing)
        self.plan = BenchPlan.model_validate(self._begun_with)

    @staticmethod
    def open(folder: Path, plan: BenchPlan | None = None, store: str | None = None) -> "Bench":
        """Opens the bench in `folder` to continue it, or creates it from `plan`. For a new bench, `store` may
        be the URL of a shared store (database); the bench's events, those of its runs and its knowledge base
        are then kept there. None: they are in the folder. Raises KernelBlasterError if `plan` differs from
        the recorded one, or if there is neither a bench nor a plan."""
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
        create_work(folder, KIND, plan.model_dump(mode="json"), store)
        return Bench(folder, writing=True)

    @property
    def knowledge(self) -> str:
        """The address (file path or URL) of the knowledge base that the searches of this bench share."""
        return bench_knowledge(self.folder)

    # Working

    def run(
        self,
        workers: int,
        seconds: float | None = None,
        tell: Tell = lambda news: None,
        tell_measured: Callable[[Measured], None] = lambda one: None,
        *,
        apart: bool = False,
        machines: Machines | None = None,
        measure: bool = True,
    ) -> None:
        """Does the searches that have no result yet, with `workers` processes, then measures the best
        candidates that were not measured yet; without `measure`, it only searches. Nothing is started later
        than `seconds` from now (None: no limit); the next call does the rest. `tell` and `tell_measured` are
        called with progress. With `apart`, code of tasks, which may crash its process, never runs in this
        one, even with a single worker. With `machines`, candidates are judged and measured on the devices of
        a fleet; None: on this machine."""
        until = None if seconds is None else time.monotonic() + seconds
        start_knowledge(self.plan.start, self.knowledge)
        done = self.record.results()
        jobs = [self._with_knowledge(job) for job in self.plan.jobs if job.key not in done]
        with open_fleet(machines, self.plan.setup.device, self._run, tell) as dispatcher:
            if jobs:
                self._run.append("searching")
                start = time.monotonic()
                busy: Counter[str] = Counter()
                try:
                    pool = WorkerPool(self.folder, workers, until, apart=apart)
                    search_all(jobs, pool, self._recording(_counting(busy, tell)), dispatcher)
                finally:
                    self._run.append("pace", seconds=time.monotonic() - start, busy=dict(busy))
            if measure:
                self._measure(workers, until, tell_measured, apart, dispatcher)

    def _with_knowledge(self, job: Job) -> Job:
        """The job with the present address of this bench's knowledge base, which changes when its folder is
        moved."""
        setup = job.setup.model_copy(update={"knowledge": self.knowledge})
        return job.model_copy(update={"setup": setup})

    def _measure(
        self,
        workers: int,
        until: float | None,
        tell: Callable[[Measured], None],
        apart: bool,
        dispatcher: Dispatcher | None,
    ) -> None:
        """Measure the valid results that have no measurements yet, and call `tell` with each measurement. No
        measurement is begun after `until` (a `time.monotonic`; None for no limit). A lost device is started
        again once; then DeviceLost is raised."""
        known = self.record.measurements()
        waiting = [r for r in self.record.results().values() if r.status == "valid" and r.job not in known]
        if not waiting or (until is not None and time.monotonic() > until):
            return
        if dispatcher is None:
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
                how: dict[str, Any] = {"apart": apart, "dispatcher": dispatcher}
                for measurements in measure_all(*about, in_time(), **how, workers=min(workers, len(left))):
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
    def record(self) -> BenchRecord:
        """Everything that this bench has recorded so far, read from its event log."""
        return BenchRecord(self.plan, self._run.events)

    @property
    def done(self) -> set[str]:
        """The keys of the searches that have ended. A key is a text made of arm ("bench", or the way to
        search in an ablation), task and seed."""
        return self.record.done

    def rows(self) -> list[Row]:
        """One row for each planned task and seed, in the order of the plan. Where there is no result yet, the
        row's result has the status "unfinished"."""
        return self.record.rows()

    @property
    def device(self) -> str:
        """Name of the device, from a recorded result; until there is one, the GPU that was asked for, or the
        kind of device ("cuda", "emulated")."""
        return self.record.device

    @property
    def pace(self) -> Pace:
        """The throughput of all searches together: how many candidates were judged in how much time; pauses
        between commands do not count."""
        return self.record.pace


def bench_knowledge(folder: Path) -> str:
    """Returns the address of the knowledge base of the bench in a folder: a file in the folder or, if the
    bench's events are in a shared store, the URL of a schema for it there."""
    pointer = pointer_of(folder)
    if pointer is None:
        return str(folder / KNOWLEDGE)
    return own_schema(pointer.open(), opened(pointer.store), f"kb_{pointer.id[:16]}")


def is_bench(folder: Path) -> bool:
    """Whether the folder holds a bench."""
    return holds_work(folder, KIND)


def _counting(busy: Counter[str], tell: Tell) -> Tell:
    """A function that adds the device seconds in each message to `busy`, by kind of work, and passes it to
    `tell`."""

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
