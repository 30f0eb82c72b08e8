"""Which tasks a study can be about: those that a policy covers, and what is wrong with the others."""

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
    """A task that is not searched. `status` is what a bench would say of it: broken, unfit, uncovered, died,
    or failed where this program fails at it."""

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
    """The tasks that can be searched so, and the others. `tell` hears how many were looked at; `apart`: not
    in this process, which a task could end."""
    refused: dict[int, LeftOut | None] = {}
    for number, found in _refusals(entries, setup, workers, apart):
        refused[number] = found
        tell(len(refused))
    kept = [entry for number, entry in enumerate(entries) if refused[number] is None]
    left_out = (refused[number] for number in range(len(entries)))
    return kept, [one for one in left_out if one is not None]


def refusal(entry: Entry, setup: Setup) -> LeftOut | None:
    """Why a task cannot be searched; None where it can. A model that may write the first candidate covers
    every task."""
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
    except Exception as error:  # of this program: it is told, and the other tasks are studied
        return LeftOut(name=entry.name, status="failed", reason=f"internal error: {error!r}")
    return None


def status_of(error: KernelBlasterError) -> Status:
    """What an error says of a task that could be loaded."""
    if isinstance(error, UncoveredOperators | NotUniform):
        return "uncovered"
    return "unfit" if isinstance(error, BadTask) else "failed"


def _refusals(
    entries: Sequence[Entry], setup: Setup, workers: int, apart: bool
) -> Iterator[tuple[int, LeftOut | None]]:
    """By the number of the entry, in any order."""
    if workers == 1 and not apart:
        yield from ((number, refusal(entry, setup)) for number, entry in enumerate(entries))
        return
    for news in run_with_retry(_look, (setup,), enumerate(entries), min(workers, len(entries))):
        if isinstance(news, LostJob):
            number, entry = news.job
            yield number, LeftOut(name=entry.name, status="died", reason=death(news.code))
        else:
            yield news


def _look(line: JobPipe, setup: Setup) -> None:
    for number, entry in line.jobs():
        line.tell((number, refusal(entry, setup)))
