"""One job: load the task, search it in a run of its own, and say what came of it, whatever that is."""

import json
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kernelblaster.bench.jobs import NOTHING, Job, Result, Spent, Status, result_of
from kernelblaster.bench.spending import spent_on_models
from kernelblaster.bench.starting import copy_knowledge
from kernelblaster.errors import BadTask, DeviceLost, KernelBlasterError, KnowledgeError, StoreError
from kernelblaster.judge.judge import Judge
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.optimize import Optimized, Progress, optimize
from kernelblaster.policies.expert.graph import UncoveredOperators
from kernelblaster.policies.expert.unify import NotUniform
from kernelblaster.records import Evaluation, Task
from kernelblaster.records.outcome import CORRECT
from kernelblaster.store.results import leave_results
from kernelblaster.store.run import LOG, Run, create_run, open_run, run_folders
from kernelblaster.store.subject import keep_task, task_of
from kernelblaster.tasks.catalog import load_file


@dataclass(frozen=True)
class News:
    """What a watcher is told of a job: that it `began` (again when its run is opened, with what was judged
    before), went a step on, or `ended`, with its `result`; or that the device or a process was `lost`.
    Times are in microseconds; None as long as nothing was timed."""

    kind: Literal["began", "stepped", "ended", "lost"]
    job: str
    evaluations: int = 0
    first_us: float | None = None
    best_us: float | None = None
    baseline_us: float | None = None
    floor_us: float | None = None
    result: Result | None = None
    words: str = ""


Tell = Callable[[News], None]


def search(job: Job, judge: Judge, folder: Path, begun: str | None, tell: Tell) -> Result:
    """The result of a job; `begun` is the run that was begun for it before, which goes on. What is wrong
    with the task is a result. What is wrong with the device, the disk or a database is an error: the job
    stays unfinished."""
    start = time.monotonic()
    tell(News("began", job.key))
    try:
        task = load_file(job.entry.name, Path(job.entry.path), job.setup.dtype)
    except BadTask as error:
        return _without(job, "broken", error, start)
    try:
        judge.prepare(task)
        return _searched(job, task, judge, folder, begun, tell)
    except (UncoveredOperators, NotUniform) as error:
        return _without(job, "uncovered", error, start)
    except BadTask as error:
        return _without(job, "unfit", error, start)
    except (DeviceLost, KnowledgeError, StoreError):
        raise
    except KernelBlasterError as error:
        return _without(job, "failed", error, start)
    except Exception as error:  # of this program: it is told, and the other tasks go on
        (folder / "errors").mkdir(exist_ok=True)
        (folder / "errors" / f"{job.file_name}.txt").write_text(traceback.format_exc())
        return _without(job, "failed", RuntimeError(f"internal error: {error!r}"), start)


def begun_runs(folder: Path) -> dict[str, str]:
    """By job, the run that was begun for it; only the first line of each is read."""
    found: dict[str, str] = {}
    for run in run_folders(folder / "runs"):
        with (run / LOG).open("rb") as file:
            line = file.readline().partition(b" ")[2]
        try:
            found[json.loads(line)["data"]["job"]] = run.name
        except (ValueError, KeyError):
            continue  # killed before its first event was whole: the job gets a new one
    return found


def _searched(job: Job, task: Task, judge: Judge, folder: Path, begun: str | None, tell: Tell) -> Result:
    plan = job.setup.search.model_copy(update={"seed": job.seed})
    start = time.monotonic()

    def watched(progress: Progress) -> None:
        told = {name: getattr(progress, name) for name in ("first_us", "best_us", "baseline_us", "floor_us")}
        tell(News("stepped", job.key, evaluations=progress.evaluations, **told))

    with _run(job, folder, begun) as run, KnowledgeBase(_knowledge(job, folder)) as knowledge:
        judged = sum(event.kind == "evaluation" for event in run.events)
        tell(News("began", job.key, evaluations=judged))
        before = max((e.data["seconds"] for e in run.events if e.kind == "batch"), default=0.0)
        keep_task(run, task)
        found = optimize(task_of(run), judge, knowledge, run, plan, tell=watched)
        leave_results(run, found.candidate, found.applied, knowledge)
        return _result(job, run, found, before + time.monotonic() - start)


@contextmanager
def _run(job: Job, folder: Path, begun: str | None) -> Iterator[Run]:
    about: dict[str, Any] = {"job": job.key, "task": job.entry.name, "arm": job.arm}
    about |= {"device": job.setup.device, "gpu": job.setup.gpu, "dtype": job.setup.dtype}
    about |= {"search": job.setup.search.model_copy(update={"seed": job.seed}).model_dump()}
    runs = folder / "runs"
    with open_run(runs, begun, writing=True) if begun else create_run(runs, **about) as run:
        yield run


def _knowledge(job: Job, folder: Path) -> str:
    if not job.setup.alone:
        return job.setup.knowledge
    own = folder / "knowledge" / f"{job.file_name}.db"
    if not own.is_file():
        copy_knowledge(job.setup.knowledge, own)
    return str(own)


def _result(job: Job, run: Run, found: Optimized, seconds: float) -> Result:
    judged = [event.data["evaluation"] for event in run.events if event.kind == "evaluation"]
    timing, first = found.evaluation.timing, found.first.timing
    assert timing is not None and first is not None
    tokens, usd = spent_on_models(run.folder)
    spent = Spent(
        evaluations=len(judged),
        device_seconds=sum(verdict["device_seconds"] for verdict in judged),
        seconds=seconds,
        tokens=tokens,
        usd=usd,
    )
    return result_of(job, "valid").model_copy(
        update={
            "run": run.name,
            "device": found.evaluation.device,
            "modelled": timing.modelled,
            "first_us": first.candidate_us,
            "best_us": timing.candidate_us,
            "baseline_us": timing.baseline_us,
            "floor_us": timing.floor_us,
            "gain": _estimate(found.evaluation) / _estimate(found.first),
            "applied": found.applied,
            "judged": tuple(_speedup(verdict) for verdict in judged),
            "spent": spent,
        }
    )


def _without(job: Job, status: Status, error: Exception, start: float) -> Result:
    spent = NOTHING.model_copy(update={"seconds": time.monotonic() - start})
    return result_of(job, status, str(error)).model_copy(update={"spent": spent})


def _estimate(evaluation: Evaluation) -> float:
    assert isinstance(evaluation.outcome, CORRECT)
    return evaluation.outcome.speedup.estimate


def _speedup(verdict: dict[str, Any]) -> float | None:
    found = verdict["outcome"].get("speedup")
    return None if found is None else float(found["estimate"])
