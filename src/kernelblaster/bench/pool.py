"""Runs the searches of a bench or an ablation in parallel processes. On a GPU or a fleet, other processes own
the devices and judge the candidates that the searching processes send to them. An emulated device needs no
hardware, so on a single machine each searching process has one of its own."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kernelblaster.bench.cached_judge import CachedJudge
from kernelblaster.bench.deaths import death
from kernelblaster.bench.jobs import Job, result_of
from kernelblaster.bench.searching import BROKEN, News, Tell, begun_runs, search
from kernelblaster.bench.work_lock import share_work_lock
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.fleet.dispatcher import Dispatcher
from kernelblaster.fleet.fleet_judge import FleetJudge
from kernelblaster.fleet.leases import PassingLeases
from kernelblaster.fleet.lines import LineServer, PipeLine
from kernelblaster.fleet.local_fleet import LocalFleet
from kernelblaster.fleet.opening import Machines
from kernelblaster.fleet.requests import JudgeChoice, OwnedKind
from kernelblaster.judge.protocol import Judge
from kernelblaster.models.failures import ModelError
from kernelblaster.opening import open_searching
from kernelblaster.processes.cores import usable_cores
from kernelblaster.processes.workers import JobPipe, LostJob, run_with_retry
from kernelblaster.search.model_use import check_models
from kernelblaster.store.leases import leases_of
from kernelblaster.store.run import Run
from kernelblaster.store.verdicts import open_verdicts

RESTARTS = 2  # of a device that was lost


@dataclass(frozen=True)
class WorkerPool:
    """Settings for running the jobs (searches of a task) of a bench. At most `workers` processes run jobs;
    runs and results are kept in the bench's `folder`. No job is started after `until` (a `time.monotonic`, in
    seconds; None: no limit). `verdicts` is a folder or a database's URL where the judge's evaluations are
    kept, so that a candidate which several searches try is judged once; None: they are not kept. With one
    worker, jobs run in this process. If `apart` is set, they always run in other processes, so that code of a
    task that crashes does not end this one."""

    folder: Path
    workers: int
    until: float | None = None
    verdicts: Path | str | None = None
    apart: bool = False

    @property
    def over(self) -> bool:
        """Whether the time limit `until` has passed, so that no further job may be started."""
        return self.until is not None and time.monotonic() > self.until


def default_workers(device: OwnedKind, machines: Machines | None = None) -> int:
    """Returns how many searches run side by side, each in a process, if the user does not say. On the
    emulated device, half of the number of cores, because each search also compiles. On a GPU, the same
    number, but at least 2 and at most 8, so that the GPU does not wait for candidates. On a fleet, two for
    each device: while one search has a candidate judged, the other chooses its next one; but at most eight
    for each core of this machine. `machines` are those of the fleet, None without one."""
    cores = usable_cores()
    if machines is not None:
        return max(1, min(2 * machines.devices(device), 8 * cores))
    return max(2, min(8, cores // 2)) if device == "cuda" else max(1, cores // 2)


def search_all(
    jobs: Sequence[Job], pool: WorkerPool, tell: Tell, dispatcher: Dispatcher | None = None
) -> None:
    """Searches all jobs, which must be for the same kind of device. `tell` is called with progress and each
    result. With a `dispatcher`, the devices of its fleet judge. Jobs that could not be started before the
    pool's time limit are left out.

    A device that is lost is opened again, and the jobs that have not ended are begun again. DeviceLost is
    raised when it is lost for the third time or later (RESTARTS) and no job has ended since it was opened.
    With a `dispatcher` it is raised at the first loss, because its fleet then has no device left. An error
    that stopped a worker is raised once the other workers have ended; `ModelError` if a language model cannot
    be used.
    """
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
            _round(list(left.values()), pool, watch, dispatcher)
        except DeviceLost as error:
            lost += 1
            if dispatcher is not None or (lost > RESTARTS and len(left) == before):
                raise
            tell(News("lost", "", words=f"the device was lost ({error}); it is started again"))
            continue
        return


def _round(jobs: Sequence[Job], pool: WorkerPool, tell: Tell, dispatcher: Dispatcher | None) -> None:
    """Search each of the jobs once: in this process, or in workers. Workers on the emulated device have one
    each; others share the devices of a fleet (by `dispatcher`) or, if that is None, a GPU. Raises DeviceLost
    if the device is lost; jobs that ended before have been reported."""
    if dispatcher is not None:
        _search_in_workers(jobs, pool, tell, dispatcher)
    elif pool.workers == 1 and not pool.apart:
        begun = begun_runs(pool.folder)
        with Judges(pool) as judges:
            for job in jobs:
                if not pool.over:
                    tell(_search_job(job, judges.of(job), pool, begun, tell))
    elif jobs[0].setup.device == "cuda":
        with closing(Dispatcher(LocalFleet([None]), PassingLeases(), partial(_say, tell))) as own:
            _search_in_workers(jobs, pool, tell, own)
    else:
        _search_in_workers(jobs, pool, tell, None)


def _search_in_workers(
    jobs: Sequence[Job], pool: WorkerPool, tell: Tell, dispatcher: Dispatcher | None
) -> None:
    """Search the jobs in worker processes, whose candidates are judged by the devices of the dispatcher
    (which hands requests to a fleet's devices); without one, each worker has a device of its own. A job whose
    worker crashed is tried once more alone, then reported as `died`."""
    messages = _Messages(tell)
    workers = min(pool.workers, len(jobs))
    if dispatcher is None:
        for news in run_with_retry(_work, (None, pool), _in_time(jobs, pool), workers):
            messages(news)
        messages.raise_first_error()
        return
    busy = _BusyDelta(dispatcher, tell)
    try:
        with LineServer(dispatcher) as server:
            for news in run_with_retry(_work, (pool,), _in_time(jobs, pool), workers, server.connect):
                messages(news)
                busy.tell()
    finally:
        busy.tell()
    messages.raise_first_error()


class _BusyDelta:
    """Tells how long the devices of a dispatcher (which hands requests to a fleet's devices) were in use
    since the last time that it was asked: seconds by kind of work, on average over the devices."""

    def __init__(self, dispatcher: Dispatcher, tell: Tell) -> None:
        self._dispatcher = dispatcher
        self._tell = tell
        self._told = Counter(dispatcher.busy)

    def tell(self) -> None:
        """Sends a message with the seconds by kind of work since the last call; none if the devices did
        nothing."""
        now = Counter(self._dispatcher.busy)
        new, self._told = now - self._told, now
        if new:
            devices = max(1, len(self._dispatcher.devices))
            self._tell(News("busy", "", busy={kind: seconds / devices for kind, seconds in new.items()}))


class _Messages:
    """Passes messages of workers on to `tell`: a crashed job as a result with status `died`; an error that
    stopped a worker as a message, to be raised at the end by `raise_first_error`."""

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

    def raise_first_error(self) -> None:
        """Raise the first error that stopped a worker, if there was one."""
        if self._broke:
            raise self._broke[0]


def open_fleet(
    machines: Machines | None, kind: OwnedKind, run: Run, tell: Tell
) -> AbstractContextManager[Dispatcher | None]:
    """A context that yields a dispatcher (an object that distributes requests for judging) over all devices
    of a `kind` on the `machines` of a fleet; None if `machines` is None. `run` is the record of a bench, in
    which leases are recorded too: the requests that each device is working on. `tell` is called with messages
    about devices."""
    if machines is None:
        return nullcontext()
    return machines.dispatcher(kind, leases_of(run), partial(_say, tell))


def _say(tell: Tell, words: str) -> None:
    """Call `tell` with a message for a person that is about no single job."""
    tell(News("lost", "", words=words))


class Judges:
    """A context manager that opens the judges that jobs need, each when it is first needed, and closes them
    at its end. There is one judge for each kind of device and, on the emulator, for each GPU that it
    emulates. With `line`, a connection to the process that owns the devices, candidates are judged by that
    process; with None, by this one. If `pool.verdicts` is set, evaluations are stored there and reused."""

    def __init__(self, pool: WorkerPool, line: PipeLine | None = None) -> None:
        self._pool = pool
        self._line = line
        self._open = ExitStack()
        self._known: dict[tuple[str, str | None], Judge] = {}

    def __enter__(self) -> "Judges":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def of(self, job: Job) -> Judge:
        """Returns the judge for this job. Jobs for the same device share one. What the judge has prepared for
        the task of an earlier job is freed first."""
        where = (job.setup.device, job.setup.gpu)
        judge: Any = self._known.get(where)
        if judge is None:
            judge = self._known[where] = self._opened(*where)
        judge.close()  # what it prepared for the task before
        return CachedJudge(judge, open_verdicts(self._pool.verdicts)) if self._pool.verdicts else judge

    def _opened(self, device: OwnedKind, gpu: str | None) -> Judge:
        if self._line is not None:
            return self._open.enter_context(closing(FleetJudge.open(self._line, JudgeChoice(device, gpu))))
        return self._open.enter_context(open_searching(device, gpu))


def _search_job(job: Job, judge: Judge, pool: WorkerPool, begun: Mapping[str, str], tell: Tell) -> News:
    """Search one job and return the message with its result; `begun` are the names of earlier runs by job
    key."""
    return News("ended", job.key, result=search(job, judge, pool.folder, begun.get(job.key), tell))


def _in_time(jobs: Sequence[Job], pool: WorkerPool) -> Iterator[Job]:
    """The jobs one by one; none after the pool's time limit has passed."""
    for job in jobs:
        if pool.over:
            return
        yield job


def _work(pipe: JobPipe, line: PipeLine | None, pool: WorkerPool) -> None:
    """Body of a worker process: searches each job that it receives, and sends progress and results. Its
    judge is reached over `line`, a connection to the process that owns the devices; if `line` is None, the
    worker opens a device of its own."""
    try:
        with share_work_lock(pool.folder), Judges(pool, line) as judges:
            begun = begun_runs(pool.folder)
            for job in pipe.jobs():
                pipe.tell(_search_job(job, judges.of(job), pool, begun, pipe.tell))
    except KernelBlasterError as error:
        pipe.disown_job()
        pipe.tell(_sendable(error))
    finally:
        if line is not None:
            line.close()


def _sendable(error: KernelBlasterError) -> KernelBlasterError:
    """The error itself, or one with the same message that can be pickled and sent to another process."""
    if isinstance(error, BROKEN):
        return error
    return ModelError(str(error)) if isinstance(error, ModelError) else KernelBlasterError(str(error))
