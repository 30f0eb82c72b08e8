"""`covered` divides the tasks of a suite into those that can be searched and those that cannot, with the
reason. Benches and ablations use it before they begin."""

from collections.abc import Callable, Iterator, Sequence

from kernelblaster.bench.deaths import death
from kernelblaster.bench.jobs import Setup, Status
from kernelblaster.bench.suite import Entry, load_entry
from kernelblaster.errors import BadTask, KernelBlasterError
from kernelblaster.policies.expert.graph import UncoveredOperators
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.policies.expert.unify import NotUniform
from kernelblaster.processes.workers import JobPipe, LostJob, run_with_retry
from kernelblaster.records.record import Record
from kernelblaster.tasks.fitness import fitness_of


class LeftOut(Record):
    """A task of a suite that cannot be searched: its `name`, the `status` that a bench would give it (broken,
    unfit, uncovered, died, or failed for an internal error) and the reason."""

    name: str
    status: Status
    reason: str


def covered(
    entries: Sequence[Entry],
    setup: Setup,
    workers: int,
    tell: Callable[[int], None] = lambda done: None,
    *,
    apart: bool = False,
) -> tuple[list[Entry], list[LeftOut]]:
    """Divides the tasks `entries` into those that can be searched with this setup and those that cannot.
    Returns (the former, a `LeftOut` with the reason for each of the others), both in the given order. Each
    task is loaded and checked, by `workers` processes; `tell` is called with the number checked so far.
    Loading a task may crash its process; with `apart`, no task is loaded in this process."""
    refused: dict[int, LeftOut | None] = {}
    for index, problem in _refusals(entries, setup, workers, apart):
        refused[index] = problem
        tell(len(refused))
    kept = [entry for index, entry in enumerate(entries) if refused[index] is None]
    left_out = (refused[index] for index in range(len(entries)))
    return kept, [one for one in left_out if one is not None]


def refusal(entry: Entry, setup: Setup) -> LeftOut | None:
    """Returns why the task `entry` cannot be searched with this setup; None if it can. It can be searched if
    the judge can judge candidates for it, and if something can write the first candidate: either the expert
    (the built-in code generator) has kernels for all operators of the task, or a language model takes
    part."""
    try:
        task = load_entry(entry, setup.dtype)
    except BadTask as error:
        return LeftOut(name=entry.name, status="broken", reason=str(error))
    try:
        problems = fitness_of(task).problems
        if problems:
            return LeftOut(name=entry.name, status="unfit", reason="; ".join(problems))
        if setup.model_use is None or not setup.model_use.writes_first:
            ExpertPolicy().initial(task)
    except KernelBlasterError as error:
        return LeftOut(name=entry.name, status=status_of(error), reason=str(error))
    except Exception as error:  # of this program: reported, and the other tasks are studied
        return LeftOut(name=entry.name, status="failed", reason=f"internal error: {error!r}")
    return None


def status_of(error: KernelBlasterError) -> Status:
    """Returns the status of a task that could be loaded, but whose search ended with `error`: "uncovered" if
    the expert (the built-in code generator) has no kernels for its operators, "unfit" if candidates for it
    cannot be judged, "failed" for any other error."""
    if isinstance(error, UncoveredOperators | NotUniform):
        return "uncovered"
    return "unfit" if isinstance(error, BadTask) else "failed"


def _refusals(
    entries: Sequence[Entry], setup: Setup, workers: int, apart: bool
) -> Iterator[tuple[int, LeftOut | None]]:
    """Checks tasks in `workers` processes and yields, in any order, a task's position in `entries` and why it
    cannot be searched with `setup` (None if it can). With `apart`, no task is loaded in this process."""
    if workers == 1 and not apart:
        yield from ((index, refusal(entry, setup)) for index, entry in enumerate(entries))
        return
    for news in run_with_retry(_look, (setup,), enumerate(entries), min(workers, len(entries))):
        if isinstance(news, LostJob):
            index, entry = news.job
            yield index, LeftOut(name=entry.name, status="died", reason=death(news.code))
        else:
            yield news


def _look(pipe: JobPipe, setup: Setup) -> None:
    """What a worker process does: takes tasks from `pipe` one after another, and sends back for each why it
    cannot be searched with `setup` (None if it can)."""
    for index, entry in pipe.jobs():
        pipe.tell((index, refusal(entry, setup)))
