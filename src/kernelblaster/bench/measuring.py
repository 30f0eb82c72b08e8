"""Final measurements of a bench: the best candidate of each search, judged again against each baseline.

Candidate and baseline are run in turns within one measurement. A baseline is never another candidate. So the
gain over the search's first candidate is not measured but computed: both candidates are judged against eager
PyTorch, and the best one's speedup is divided by the first one's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from kernelblaster.bench.deaths import death
from kernelblaster.bench.jobs import DIED, INITIAL, Job, JobResult, Measured
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.fleet.dispatcher import Dispatcher
from kernelblaster.fleet.fleet_judge import FleetJudge
from kernelblaster.fleet.lines import LineServer, PipeLine
from kernelblaster.fleet.requests import JudgeChoice
from kernelblaster.judge.baseline import COMPILED, forget_compiled
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.judge.options import EvaluationOptions
from kernelblaster.judge.protocol import Judge
from kernelblaster.opening import open_device
from kernelblaster.processes.workers import JobPipe, LostJob, run_with_retry
from kernelblaster.records import Candidate, Evaluation, Task
from kernelblaster.records.evaluation import BaselineName
from kernelblaster.records.outcome import CORRECT, Speedup
from kernelblaster.store.history import History
from kernelblaster.store.run import open_run
from kernelblaster.store.subject import task_of

OPTIONAL: tuple[BaselineName, ...] = (*COMPILED, "iree")
"""Baselines that may be unable to run a module; it is measured without them then."""


class Measuring:
    """Measures candidates against several baselines (eager PyTorch, torch.compile and so on). `judges` has
    one judge for each baseline, by the baseline's name."""

    def __init__(self, judges: "Mapping[BaselineName, DeviceJudge | FleetJudge]") -> None:
        self._judges = judges

    def measure(self, folder: Path, result: JobResult) -> list[Measured]:
        """Judges the best candidate of a result's run once more. Returns one measurement for each baseline,
        and one with the name "initial", which has the gain over the run's first candidate. `folder` is the
        bench's. Frees device memory afterwards. Raises DeviceLost if the device fails."""
        assert result.run is not None
        with open_run(folder / "runs", result.run) as run:
            history = History(run)
            task = task_of(run)
            best, _ = history.best_candidate()
            start = next(judged for judged in history.judged if judged.speedup is not None)
            first = Candidate(source=history.source_of(start), origin="first")
        measurements: list[Measured] = []
        try:
            for name, judge in self._judges.items():
                measurements.append(self._beside(name, judge, task, best, result.job))
            measurements.append(self._over_first(task, first, best, measurements[0], result.job))
        except RuntimeError as error:
            if "CUDA error" in str(error):
                raise DeviceLost(f"the GPU failed: {str(error).splitlines()[0]}.") from error
            raise
        finally:
            for judge in self._judges.values():
                judge.close()
            if any(name in COMPILED for name in self._judges):
                forget_compiled()
        return measurements

    def _beside(self, name: BaselineName, judge: Judge, task: Task, best: Candidate, job: str) -> Measured:
        """Has the candidate `best` judged anew by `judge`, against the baseline called `name`; `job` is the
        key of the search. If the baseline does not run, the outcome is "Absent". Only for optional baselines
        (OPTIONAL), `absent` is then set, so that reports do not count this against the candidate; without
        eager PyTorch, nothing is known of it. Raises DeviceLost, and CUDA errors."""
        try:
            return _measured(_evaluated(judge, task, best), name, job)
        except DeviceLost:
            raise
        except Exception as error:
            if "CUDA error" in str(error):
                raise
            words = str(error).strip().splitlines()
            reason = f"the baseline does not run: {words[0] if words else type(error).__name__}"
            absent = name in OPTIONAL
            return Measured(job=job, baseline=name, outcome="Absent", reason=reason, absent=absent)

    def _over_first(
        self, task: Task, first: Candidate, best: Candidate, beside: Measured, job: str
    ) -> Measured:
        """How much faster the candidate `best` is than the search's `first` one: both are timed against eager
        PyTorch, and the speedups divided. `beside` is the measurement of `best` against eager, `job` the key
        of the search."""
        if beside.speedup is None:
            return beside.model_copy(update={"baseline": INITIAL})
        if first.code == best.code:
            same = Speedup(estimate=1.0, low=1.0, high=1.0, confidence=beside.speedup.confidence)
            return beside.model_copy(
                update={"baseline": INITIAL, "speedup": same, "baseline_us": beside.us, "outcome": "Same"}
            )
        other = _measured(_evaluated(self._judges["eager"], task, first), INITIAL, job)
        if other.speedup is None:
            return other.model_copy(update={"absent": True, "reason": f"the first one: {other.reason}"})
        return other.model_copy(
            update={
                "speedup": quotient(beside.speedup, other.speedup),
                "us": beside.us,
                "baseline_us": other.us,
                "outcome": beside.outcome,
            }
        )


@contextmanager
def open_judges(
    job: Job, baselines: Sequence[BaselineName], line: PipeLine | None
) -> "Iterator[Mapping[BaselineName, DeviceJudge | FleetJudge]]":
    """A context that yields judges by the name of their baseline: one for each of `baselines` (eager PyTorch,
    torch.compile, ...). A judge times candidates against its baseline, on the kind of device that `job`
    names. `line` is a connection to the process that owns the devices; all judges share it. None: a device is
    opened in this process."""
    setup = job.setup
    if line is not None:
        with closing(line):
            yield {
                name: FleetJudge.open(line, JudgeChoice(setup.device, setup.gpu, name, searching=False))
                for name in baselines
            }
        return
    with ExitStack() as opened:
        device = opened.enter_context(closing(open_device(setup.device, setup.gpu)))
        judges = {name: DeviceJudge(device, EvaluationOptions(baseline=name)) for name in baselines}
        for judge in judges.values():
            opened.enter_context(closing(judge))
        yield judges


def measure_all(
    job: Job,
    baselines: tuple[BaselineName, ...],
    folder: Path,
    results: Iterable[JobResult],
    *,
    apart: bool,
    dispatcher: Dispatcher | None = None,
    workers: int = 1,
) -> Iterator[list[Measured]]:
    """Judges the best candidate of each of the `results` again, against each of `baselines`. Yields one list
    of measurements for each result, as `Measuring.measure` makes them. `job` says on what kind of device;
    `folder` is the bench's.

    Without a `dispatcher` (which sends work to the devices of a fleet), results are measured one after
    another: in this process or, with `apart`, in another one, so that code of a task that crashes does not
    end this process. With a dispatcher, `workers` processes measure on the devices of its fleet. If a result
    crashed its process twice, its measurements have the outcome `Died`.
    """
    if dispatcher is None and not apart:
        with open_judges(job, baselines, None) as judges:
            for result in results:
                yield Measuring(judges).measure(folder, result)
        return
    about = (job, baselines, folder)
    if dispatcher is None:
        yield from _measured_apart(run_with_retry(_measure, (None, *about), results, 1), baselines)
        return
    with LineServer(dispatcher) as server:
        told = run_with_retry(_measure, about, results, workers, server.connect)
        yield from _measured_apart(told, baselines)


def _measured_apart(told: Iterator[Any], baselines: tuple[BaselineName, ...]) -> Iterator[list[Measured]]:
    """Collects the measurements that worker processes send (`told`), one list for each result. A result whose
    worker crashed twice has the outcome `Died` for each of `baselines`. Raises an error that a worker
    sends."""
    for news in told:
        if isinstance(news, KernelBlasterError):
            raise news
        if isinstance(news, LostJob):
            died = Measured(job=news.job.job, baseline=INITIAL, outcome=DIED, reason=death(news.code))
            yield [died.model_copy(update={"baseline": name}) for name in (*baselines, INITIAL)]
        else:
            yield news


def _measure(
    pipe: JobPipe, line: PipeLine | None, job: Job, baselines: tuple[BaselineName, ...], folder: Path
) -> None:
    """What a worker process does: takes results of searches from `pipe`, measures each one's best candidate
    against `baselines`, and sends the measurements back. `line` connects it to the fleet's devices (None: it
    opens a device of the kind in `job` itself); `folder` is the bench's. An error that no task is to blame
    for (a lost device, say) is sent instead, and ends the worker."""
    try:
        with open_judges(job, baselines, line) as judges:
            for result in pipe.jobs():
                pipe.tell(Measuring(judges).measure(folder, result))
    except KernelBlasterError as error:
        pipe.disown_job()
        pipe.tell(error)


def quotient(one: Speedup, other: Speedup) -> Speedup:
    """Returns the speedup of one candidate over another. `one` and `other` are their speedups over the same
    baseline. The interval is the widest that both allow: from `one.low / other.high` to `one.high /
    other.low`."""
    return Speedup(
        estimate=one.estimate / other.estimate,
        low=one.low / other.high,
        high=one.high / other.low,
        confidence=one.confidence,
    )


def warm(jobs: Sequence[tuple[Path, str]], names: Sequence[BaselineName], workers: int) -> None:
    """Fills the disk cache of torch.compile before anything is timed: compiles the module of each of `jobs`
    for those baselines among `names` that use torch.compile, in `workers` processes. `jobs` are (folder of
    runs, name of a run). Failures and crashes are ignored here: they show again when the baseline is
    measured."""
    wanted = [(folder, run, name) for folder, run in jobs for name in names if name in COMPILED]
    if wanted:
        for _ in run_with_retry(_warm, (), wanted, min(workers, len(wanted))):
            pass


def _warm(pipe: JobPipe) -> None:
    """What a worker process does: takes (folder, run, baseline) from `pipe`, compiles that baseline, and
    sends back whether that worked."""
    for what in pipe.jobs():
        pipe.tell(_compile_baseline(*what))


def _compile_baseline(folder: Path, name: str, baseline: BaselineName) -> bool:
    """Compiles the module of a run's task as this baseline does and calls it once; returns whether that
    worked. The run is called `name` and lies in `folder`."""
    import torch

    from kernelblaster.tasks.reference import open_reference

    try:
        with open_run(folder, name) as run:
            task = task_of(run)
        reference = open_reference(task, task.primary, torch.device("cuda"))
        mode = "max-autotune-no-cudagraphs" if baseline == "max-autotune" else "default"
        shapes = [(t, task.primary.shape(t)) for t in task.signature.input_tensors]
        inputs = [torch.ones(shape, device="cuda").to(getattr(torch, t.dtype)) for t, shape in shapes]
        reference.compiled(mode)(inputs)
        torch.cuda.synchronize()
    except Exception:  # of any kind: it shows again, with its words, when it is measured
        return False
    return True


def _measured(evaluation: Evaluation, baseline: str, job: str) -> Measured:
    """Turns the judge's evaluation of a candidate against `baseline` into a bench's measurement; `job` is the
    key of the search. Without times, but with a reason, if the candidate was not correct."""
    outcome, timing = evaluation.outcome, evaluation.timing
    if timing is None or not isinstance(outcome, CORRECT):
        reason = getattr(outcome, "reason", "") or getattr(outcome, "stage", "")
        return Measured(job=job, baseline=baseline, outcome=outcome.kind, reason=reason)
    return Measured(
        job=job,
        baseline=baseline,
        outcome=outcome.kind,
        speedup=outcome.speedup,
        us=timing.candidate_us,
        baseline_us=timing.baseline_us,
        floor_us=timing.floor_us,
    )


def _evaluated(judge: Judge, task: Task, candidate: Candidate) -> Evaluation:
    """Has one candidate for `task` verified and timed by the judge, and returns the evaluation."""
    [evaluation] = judge.evaluate_many([(task, candidate)])
    return evaluation
