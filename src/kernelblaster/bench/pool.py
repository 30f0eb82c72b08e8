"""Many searches side by side. On a GPU one process owns the device, and the others, which think and
have their candidates compiled, ask it; the emulated device is cheap, so each process has its own."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any

from kernelblaster.bench.cached_judge import CachedJudge
from kernelblaster.bench.deaths import death
from kernelblaster.bench.jobs import Job, result_of
from kernelblaster.bench.searching import BROKEN, News, Tell, begun_runs, search
from kernelblaster.bench.working import taking_part
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.judge.protocol import Judge
from kernelblaster.judge.shared import JudgeServer, SharedJudge
from kernelblaster.models.failures import ModelError
from kernelblaster.opening import open_searching
from kernelblaster.processes.workers import JobPipe, LostJob, Workers, run_with_retry
from kernelblaster.search.model_use import check_models

RESTARTS = 2  # of a device that was lost


@dataclass(frozen=True)
class WorkerPool:
    """`workers` processes that search; nothing new is started after `until` (by `time.monotonic`). Where
    `verdicts` are kept in a folder, what several searches ask for is judged once. A single worker is this
    process, unless it is to be kept `apart` from the code of tasks, which can end the process it runs in."""

    folder: Path
    workers: int
    until: float | None = None
    verdicts: Path | None = None
    apart: bool = False

    @property
    def over(self) -> bool:
        return self.until is not None and time.monotonic() > self.until


def default_workers(device: str) -> int:
    """On a GPU enough to keep it busy; else half of the cores, since each also compiles."""
    cores = os.cpu_count() or 1
    return max(2, min(8, cores // 2)) if device == "cuda" else max(1, cores // 2)


def search_all(jobs: Sequence[Job], pool: WorkerPool, tell: Tell) -> None:
    """Search them; each result is told. Jobs that could not be begun in time are left out. All jobs must be
    for the same kind of device. Raises what keeps a process from working when the others have ended, and a
    `ModelError` where a model that takes part cannot be used."""
    for model_use in {job.setup.model_use for job in jobs}:
        if model_use is not None:
            check_models(model_use)
    left = {job.key: job for job in jobs}
    lost = 0

    def watch(news: News) -> None:
        if news.kind == "ended":
            left.pop(news.job, None)
        tell(news)

    while left and not pool.over:
        before = len(left)
        try:
            _round(list(left.values()), pool, watch)
        except DeviceLost as error:
            lost += 1
            if lost > RESTARTS and len(left) == before:
                raise
            tell(News("lost", "", words=f"the device was lost ({error}); it is started again"))
            continue
        return


def _round(jobs: Sequence[Job], pool: WorkerPool, tell: Tell) -> None:
    if pool.workers == 1 and not pool.apart:
        begun = begun_runs(pool.folder)
        with Judges(pool) as judges:
            for job in jobs:
                if not pool.over:
                    tell(_ended(job, judges.of(job), pool, begun, tell))
    elif jobs[0].setup.device == "cuda":
        with open_searching("cuda") as judge:
            _sharing(judge, jobs, pool, tell)
    else:
        hearing = _Hearing(tell)
        workers = min(pool.workers, len(jobs))
        for news in run_with_retry(_work, (None, pool), _in_time(jobs, pool), workers):
            hearing(news)
        hearing.raise_what_broke()


class _Hearing:
    """What processes tell, passed on. An error that kept one of them from working is raised at the end."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._broke: list[KernelBlasterError] = []

    def __call__(self, news: News | LostJob | KernelBlasterError) -> None:
        if isinstance(news, KernelBlasterError):
            self._broke.append(news)
            self._tell(News("lost", "", words=str(news)))
        elif isinstance(news, LostJob):
            result = result_of(news.job, "died", death(news.code))
            self._tell(News("ended", news.job.key, result=result))
        else:
            self._tell(news)

    def raise_what_broke(self) -> None:
        if self._broke:
            raise self._broke[0]


def _sharing(judge: DeviceJudge, jobs: Sequence[Job], pool: WorkerPool, tell: Tell) -> None:
    """Processes that share this one's device; as `run_with_retry` for the rest."""

    def shared(some: Iterable[Job], workers: int) -> list[LostJob]:
        server = JudgeServer(judge)
        try:
            return side_by_side(some, workers, pool, tell, server.serve, server.connect)
        finally:
            tell(News("busy", "", busy=dict(server.busy)))

    waiting = _in_time(jobs, pool)
    doubtful: list[LostJob] = []
    while (first := next(waiting, None)) is not None:
        doubtful += shared(chain([first], waiting), min(pool.workers, len(jobs)))
    hearing = _Hearing(tell)
    for one in doubtful:
        for fallen in shared([one.job], 1):
            hearing(fallen)


class Judges:
    """The judge for each job: the one that is given, or one for each GPU that is modelled."""

    def __init__(self, pool: WorkerPool, given: SharedJudge | None = None) -> None:
        self._pool = pool
        self._given = given
        self._open = ExitStack()
        self._known: dict[tuple[str, str | None], Judge] = {}

    def __enter__(self) -> "Judges":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def of(self, job: Job) -> Judge:
        where = (job.setup.device, job.setup.gpu)
        judge: Any = self._given or self._known.get(where)
        if judge is None:
            judge = self._known[where] = self._open.enter_context(open_searching(*where))
        if self._given is None:
            judge.close()  # what it prepared for the task before
        return CachedJudge(judge, self._pool.verdicts) if self._pool.verdicts else judge  # type: ignore[return-value]


def _ended(job: Job, judge: Judge, pool: WorkerPool, begun: Mapping[str, str], tell: Tell) -> News:
    return News("ended", job.key, result=search(job, judge, pool.folder, begun.get(job.key), tell))


def side_by_side(
    jobs: Iterable[Job],
    workers: int,
    pool: WorkerPool,
    tell: Tell,
    serve: Callable[[], None],
    connect: Callable[[], SharedJudge],
) -> list[LostJob]:
    """Start the processes and listen to them while `serve` goes on; `connect` gives each its judge. The jobs
    whose processes ended before they did."""
    crew = Workers(_work, [(connect(), pool) for _ in range(workers)])
    wrong: list[BaseException] = []
    hearing = _Hearing(tell)

    def listen() -> None:
        try:
            for news in crew.replies(jobs):
                hearing(news)
        except BaseException as error:  # a full disk, for example: told by the first thread, below
            wrong.append(error)
            crew.kill()

    listener = Thread(target=listen, daemon=True)
    listener.start()
    try:
        serve()
        listener.join()
    except BaseException:  # Ctrl-C or a lost device: what they recorded is kept, the rest is done anew
        crew.kill()
        raise
    if wrong:
        raise wrong[0]
    hearing.raise_what_broke()
    return crew.lost_jobs


def _in_time(jobs: Sequence[Job], pool: WorkerPool) -> Iterator[Job]:
    """As they are asked for, until the time is over."""
    for job in jobs:
        if pool.over:
            return
        yield job


def _work(line: JobPipe, given: SharedJudge | None, pool: WorkerPool) -> None:
    """One process: a job after another."""
    try:
        with taking_part(pool.folder), Judges(pool, given) as judges:
            begun = begun_runs(pool.folder)
            for job in line.jobs():
                line.tell(_ended(job, judges.of(job), pool, begun, line.tell))
    except KernelBlasterError as error:
        line.disown_job()
        line.tell(_sendable(error))
    finally:
        if given is not None:
            given.close()


def _sendable(error: KernelBlasterError) -> KernelBlasterError:
    """The same words, as an error that needs nothing else."""
    if isinstance(error, BROKEN):
        return error
    return ModelError(str(error)) if isinstance(error, ModelError) else KernelBlasterError(str(error))
