"""The search of one job (a task with a seed): loads the task, searches it in a run of its own, and returns
the result."""

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from kernelblaster.bench.coverage import status_of
from kernelblaster.bench.jobs import NOTHING, Job, JobResult, Spent, Status, result_of
from kernelblaster.bench.suite import load_entry
from kernelblaster.errors import (
    BadTask,
    DeviceLost,
    KernelBlasterError,
    KnowledgeError,
    NoCompiler,
    NoDevice,
    Shortage,
    StoreError,
)
from kernelblaster.judge.protocol import Judge
from kernelblaster.knowledge.address import opened
from kernelblaster.knowledge.initial import copy_knowledge
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.models.failures import BadAnswer, BudgetSpent, ModelError
from kernelblaster.models.spending import spent_on_models
from kernelblaster.optimize import Optimized, expert_for, optimize
from kernelblaster.records import Evaluation, Task
from kernelblaster.records.outcome import CORRECT
from kernelblaster.search.frozen_knowledge import FrozenKnowledge
from kernelblaster.search.model_use import check_ledger, open_strategy
from kernelblaster.search.strategy import StrategyMaker
from kernelblaster.sessions.log import Progress
from kernelblaster.sessions.ranking import ranking_in
from kernelblaster.shortage import shortage
from kernelblaster.store.pointer import pointer_of
from kernelblaster.store.results import leave_results
from kernelblaster.store.run import Run, SharedRuns, create_run, first_event_of, open_run, run_folders
from kernelblaster.store.subject import keep_task, task_of

BROKEN = (DeviceLost, NoDevice, NoCompiler, Shortage, KnowledgeError, StoreError)
"""Errors that no task is to blame for."""


@dataclass(frozen=True)
class News:
    """A progress message about the job with the key `job`. Its `kind` says what happened. "began": the search
    began or was continued, and has had `evaluations` so far. "stepped": a candidate was tried. "says":
    `words` are for a person. "ended": with `result`. Two kinds are about no single job. "lost": a device or a
    process was lost. "busy": for how many seconds a shared device did each kind of work since the last such
    message.

    `first_us` and `best_us` are the times of the first and the best candidate so far in microseconds,
    `baseline_us` that of the baseline, `floor_us` the least time that the GPU allows; None until something
    was timed. `modelled`: they come from a model of the GPU.
    """

    kind: Literal["began", "stepped", "says", "ended", "lost", "busy"]
    job: str
    evaluations: int = 0
    first_us: float | None = None
    best_us: float | None = None
    baseline_us: float | None = None
    floor_us: float | None = None
    modelled: bool = False
    result: JobResult | None = None
    words: str = ""
    busy: Mapping[str, float] = field(default_factory=dict)


Tell = Callable[[News], None]


def search(job: Job, judge: Judge, folder: Path, begun: str | None, tell: Tell) -> JobResult:
    """Searches the task of `job`, in a run in the bench's `folder`, and returns the result. `judge` judges
    the candidates, `tell` is called with progress. `begun` is the name of an earlier run of the job to
    continue; None begins a new one. A problem with the task or with a model's answers gives a result that
    says so. A problem with the device, the disk, a database or a model's server is raised, and the job stays
    unfinished."""
    start = time.monotonic()
    run: Run | None = None
    tell(News("began", job.key))
    try:
        task = load_entry(job.entry, job.setup.dtype)
    except BadTask as error:
        return _without(job, "broken", str(error), run, start)
    try:
        judge.prepare(task)
        with _run(job, folder, begun) as run, _knowledge(job, folder, run) as knowledge:
            start -= max((e.data["seconds"] for e in run.events if e.kind == "batch"), default=0.0)
            optimized = _searched(job, task, judge, run, knowledge, tell)
            return _result(job, run, optimized, start)
    except BROKEN:
        raise
    except KernelBlasterError as error:
        if isinstance(error, ModelError) and not isinstance(error, BudgetSpent | BadAnswer):
            raise
        return _without(job, status_of(error), str(error), run, start)
    except (Exception, SystemExit) as error:  # of this program: reported, and the other tasks go on
        short = shortage(error)
        if short is not None:
            raise Shortage(short) from error
        (folder / "errors").mkdir(exist_ok=True)
        (folder / "errors" / f"{job.file_name}.txt").write_text(traceback.format_exc())
        return _without(job, "failed", f"internal error: {error!r}", run, start)


def begun_runs(folder: Path) -> dict[str, str]:
    """Returns the names of the runs in a bench's folder, by the key of the job that each run belongs to (a
    text made of arm, task and seed). Only the first event of each run is read; a run without one is left
    out."""
    names: dict[str, str] = {}
    for run in run_folders(folder / "runs"):
        first = first_event_of(run)
        if first is not None and "job" in first.data:  # else killed before its first event was whole
            names[first.data["job"]] = run.name
    return names


def _searched(
    job: Job, task: Task, judge: Judge, run: Run, knowledge: KnowledgeBase, tell: Tell
) -> Optimized:
    """Search the task within an open run, and write the results into the run's folder."""
    plan = job.setup.search.model_copy(update={"seed": job.seed})

    def watched(progress: Progress) -> None:
        times = {name: getattr(progress, name) for name in ("first_us", "best_us", "baseline_us", "floor_us")}
        times |= {"evaluations": progress.evaluations, "modelled": progress.modelled}
        tell(News("stepped", job.key, **times))

    judged = sum(event.kind == "evaluation" for event in run.events)
    tell(News("began", job.key, evaluations=judged))
    keep_task(run, task)
    with _strategy(job, run, judge, tell) as make:
        optimized = optimize(task_of(run), judge, knowledge, run, plan, watcher=watched, make=make)
    leave_results(run, optimized.candidate, optimized.applied, knowledge)
    return optimized


@contextmanager
def _run(job: Job, folder: Path, begun: str | None) -> Iterator[Run]:
    """The job's run: the earlier one named `begun`, else a new one whose first event records the job."""
    about: dict[str, Any] = {"job": job.key, "task": job.entry.name, "arm": job.arm}
    about |= {"device": job.setup.device, "gpu": job.setup.gpu, "dtype": job.setup.dtype}
    about |= {"search": job.setup.search.model_copy(update={"seed": job.seed}).model_dump()}
    if job.model_use is not None:
        about["models"] = job.model_use.model_dump(mode="json")
    runs, pointer = folder / "runs", pointer_of(folder)
    kept = None if pointer is None else SharedRuns(opened(pointer.store), pointer.id)
    with open_run(runs, begun, writing=True) if begun else create_run(runs, kept=kept, **about) as run:
        yield run


def _strategy(job: Job, run: Run, judge: Judge, tell: Tell) -> AbstractContextManager[StrategyMaker | None]:
    """A context that gives a function that makes the search strategy with the job's models; without models it
    gives None, which means the default strategy. If the setup says `alone`, the model's answers are not
    shared with other searches."""
    if job.model_use is None:
        return nullcontext()
    check_ledger(run)
    answers = run.folder / "answers" if job.setup.alone else None
    say = partial(_say, tell, job)
    return open_strategy(job.model_use, run.folder, expert_for(judge), say, answers)


def _say(tell: Tell, job: Job, words: str) -> None:
    """Call `tell` with a message for a person about a job."""
    tell(News("says", job.key, words=words))


def _knowledge(job: Job, folder: Path, run: Run) -> KnowledgeBase:
    """The knowledge base of a job: the shared one, its own copy with `alone`, or an empty one that learns
    nothing if the strategy has no memory."""
    if not job.setup.remembers:
        return FrozenKnowledge(run.folder / "no-memory.db")
    if not job.setup.alone:
        return KnowledgeBase(job.setup.knowledge)
    own = folder / "knowledge" / f"{job.file_name}.db"
    if not own.is_file():
        copy_knowledge(job.setup.knowledge, own)
    return KnowledgeBase(own)


def _result(job: Job, run: Run, optimized: Optimized, start: float) -> JobResult:
    """The result of a search that found a correct candidate; `start` is the `time.monotonic` from which its
    seconds count."""
    timing, first = optimized.evaluation.timing, optimized.first.timing
    assert timing is not None and first is not None
    ranking = ranking_in(run)
    return result_of(job, "valid", optimized.stopped or "").model_copy(
        update={
            "run": run.name,
            "device": optimized.evaluation.device,
            "modelled": timing.modelled,
            "first_us": first.candidate_us,
            "best_us": timing.candidate_us,
            "baseline_us": timing.baseline_us,
            "floor_us": timing.floor_us,
            "gain": _estimate(optimized.evaluation) / _estimate(optimized.first),
            "applied": optimized.applied,
            "judged": _judged(run, _estimate(optimized.evaluation)),
            "spent": _spent(job, run, start),
            "ranked": (ranking.right, ranking.pairs),
        }
    )


def _without(job: Job, status: Status, reason: str, run: Run | None, start: float) -> JobResult:
    """The result of a job whose search found no correct candidate. `run` is its run, None if none was
    created; `start` is the `time.monotonic` from which its seconds count."""
    return result_of(job, status, reason).model_copy(update={"spent": _spent(job, run, start)})


def _spent(job: Job, run: Run | None, start: float) -> Spent:
    """What the job cost so far; without a run only its time, from `start`."""
    seconds = time.monotonic() - start
    if run is None:
        return NOTHING.model_copy(update={"seconds": seconds})
    judged = [event.data["evaluation"] for event in run.events if event.kind == "evaluation"]
    paid = spent_on_models(run.folder, job.setup.models.prices)
    return Spent(
        evaluations=len(judged),
        device_seconds=sum(verdict["device_seconds"] for verdict in judged),
        seconds=seconds,
        tokens=paid.tokens,
        usd=paid.usd,
        estimated=paid.estimated,
    )


def _judged(run: Run, best: float) -> tuple[float | None, ...]:
    """Speedups in the order of judging; None for failures. `best` is the result's speedup: if a review
    rejected candidates, those faster than it count as failures."""
    events = run.events
    speedups = [_speedup(event.data["evaluation"]) for event in events if event.kind == "evaluation"]
    if any(event.kind == "review" and event.data["verdict"] == "rejected" for event in events):
        speedups = [None if speedup is None or speedup > best else speedup for speedup in speedups]
    return tuple(speedups)


def _estimate(evaluation: Evaluation) -> float:
    """The estimated speedup of a correct candidate."""
    assert isinstance(evaluation.outcome, CORRECT)
    return evaluation.outcome.speedup.estimate


def _speedup(verdict: dict[str, Any]) -> float | None:
    """The speedup of a recorded verdict (JSON data); None if the candidate was not correct."""
    interval = verdict["outcome"].get("speedup")
    return None if interval is None else float(interval["estimate"])
