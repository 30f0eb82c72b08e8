"""Creates runs, searches in them and continues them. The functions `optimize` and `resume` of the Python API,
and the commands of these names, are made of the functions here.

Nothing here prints. A `Watch` is called with progress; errors that the user can do something about are
raised.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from kernelblaster import opening
from kernelblaster.errors import DeviceLost, KernelBlasterError, KnowledgeError, NoDevice
from kernelblaster.fleet.fleet_judge import FleetJudge
from kernelblaster.fleet.lines import DirectLine
from kernelblaster.fleet.opening import FleetChoice, open_machines
from kernelblaster.fleet.requests import JudgeChoice
from kernelblaster.judge.protocol import Judge
from kernelblaster.knowledge.address import lacks_password, opened
from kernelblaster.knowledge.kept import open_knowledge
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.seed import plant
from kernelblaster.models.choice import ModelChoice
from kernelblaster.optimize import Optimized, expert_for
from kernelblaster.optimize import optimize as search_for
from kernelblaster.passwords import shown
from kernelblaster.records import Task
from kernelblaster.search.frozen_knowledge import FrozenKnowledge
from kernelblaster.search.model_use import (
    ModelUse,
    absolute_name,
    check_ledger,
    check_models,
    model_use_of,
    open_strategy,
    retries_with,
)
from kernelblaster.search.strategy import StrategyMaker
from kernelblaster.sessions.log import Progress
from kernelblaster.sessions.settings import Search
from kernelblaster.settings import settings
from kernelblaster.store.files import write_whole
from kernelblaster.store.leases import leases_of
from kernelblaster.store.results import leave_results
from kernelblaster.store.run import Run, SharedRuns, begin_run, create_run, discard_unbegun
from kernelblaster.store.subject import keep_task, task_of

NO_PASSWORD = "A run does not keep a password: give --kb URL again, or PGPASSWORD, or a line in ~/.pgpass."
RESTARTS = 1  # of a device that was lost, in one call


class Watch(Protocol):
    """Interface of an object that receives a search's progress. The object itself is called with a `Progress`
    whenever a candidate goes to the judge, a step has its result, or the knowledge base has learned from an
    iteration. `stage` is called with what the judge begins to do, such as "compiling"; `say` is called with
    messages for a person."""

    def __call__(self, progress: Progress) -> None: ...

    def stage(self, stage: str) -> None: ...

    def say(self, text: str) -> None: ...


@dataclass(frozen=True)
class SearchRequest:
    """The settings of a new run. `task` is as the user named it, `search` are the settings of the search.
    `knowledge` is the address of the knowledge base, a path or URL (see `knowledge_at`). `device` is the kind
    of device on which candidates run; `gpu` is the GPU that an emulated device stands for. `dtype` is the
    type to cast the task's floating tensors to, None for its own. `models` says which language models take
    part and in which roles, None if none does. With `filter` "emulated", the emulator checks candidates
    before the GPU runs them; with `sanitize`, compute-sanitizer checks the correct ones. `by` names who
    writes the candidates, if not a search of KernelBlaster."""

    task: str
    search: Search
    knowledge: str
    device: opening.DeviceKind = "auto"
    gpu: str | None = None
    dtype: str | None = None
    models: ModelUse | None = None
    filter: Literal["emulated"] | None = None
    sanitize: bool = False
    by: str | None = None

    @property
    def about(self) -> dict[str, Any]:
        """This request as JSON data, for the first event of the run's log; passwords are left out."""
        data: dict[str, Any] = {"task": self.task, "dtype": self.dtype}
        data |= {"device": self.device, "gpu": self.gpu}
        data |= {"kb": shown(self.knowledge), "search": self.search.model_dump()}
        data |= {"filter": self.filter, "sanitize": self.sanitize}
        data |= {"by": self.by} if self.by else {}
        return data | ({"models": self.models.model_dump(mode="json")} if self.models else {})


def runs_folder(given: str | Path | None) -> Path:
    """Returns the folder of runs: `given`, or the user's own if that is None."""
    return Path(given) if given else settings().data / "runs"


def named_models(model: str | ModelUse | None) -> ModelUse | None:
    """Returns which language models take part in a search, in which roles and by which strategy. `model` is
    the name of one model, KIND:NAME, such as `openai:gpt-x`: it then plays the roles that a model usually
    plays in the strategy MAIC-RL. A `ModelUse`, or None for no model, is returned as it is."""
    if isinstance(model, str):
        return model_use_of(ModelChoice(model=absolute_name(model)), (), "maic-rl")
    return model


def search_of(budget: int | Search | None, models: ModelUse | None) -> Search:
    """Returns the settings of a search. `budget` is the number of candidates to judge, None for the usual 60.
    A failed candidate is corrected at most once, or twice if language models take part (`models`), because
    they can use the judge's feedback. A `budget` that is a `Search`, which has all settings, is returned as
    it is."""
    if isinstance(budget, Search):
        return budget
    usual = Search(retries=retries_with(models))
    return usual if budget is None else Search(retries=usual.retries, evaluations=budget)


def new_run(
    task: Task, wanted: SearchRequest, runs: Path, folder: Path | None = None, store: str | None = None
) -> Run:
    """Creates a run with a copy of the task and returns it, open for writing. `wanted` describes the run:
    search settings, device, models. Its folder is a new one under `runs`, or `folder` if that was reserved
    for it. With `store`, the URL of a shared database, its events are kept there. Raises KernelBlasterError,
    before anything is created, if a model or the GPU that is asked for cannot be used."""
    if wanted.models is not None:
        check_models(wanted.models)
    if wanted.gpu is not None:
        opening.kind_here(wanted.device, wanted.gpu)  # an unknown name is an error before the run exists
    kept = None if store is None else SharedRuns(store)
    about = wanted.about
    run = begin_run(folder, kept=kept, **about) if folder else create_run(runs, kept=kept, **about)
    keep_task(run, task)
    return run


@contextmanager
def start_run(
    task: Task, wanted: SearchRequest, runs: Path, folder: Path | None = None, store: str | None = None
) -> Iterator[Run]:
    """A context that creates a run for `task` and gives it, open for writing. `wanted` describes the run:
    search settings, device, models. Its folder is a new one under `runs`, or `folder` if that was reserved
    for it; with `store`, the URL of a shared database, its events are kept there. When the block ends, also
    by a KernelBlasterError, the run is deleted again if nothing was judged in it."""
    with new_run(task, wanted, runs, folder, store) as run:
        try:
            yield run
            discard_unbegun(run)
        except KernelBlasterError as error:
            if not discard_unbegun(run):
                raise
            cause = error.__cause__  # without "go on"
            raise cause if isinstance(cause, KernelBlasterError) else error from None


def search_run(
    run: Run,
    models: ModelUse | None,
    knowledge: str | None,
    watch: Watch,
    fleet: FleetChoice | None = None,
) -> Optimized:
    """Searches in a run, or continues its search. Returns the best candidate with its evaluation and all
    steps tried, and writes the results into the run's folder; only the best source if the search was stopped
    early. `models` says which language models take part and in which roles, None if none does. `knowledge` is
    the URL of the run's knowledge base with its password, which the run does not record; None if it needs
    none. `watch` is called with progress. Candidates are judged on the devices of `fleet`, or on one of this
    process if it is None. If the device is lost, it is started again once and the run continues; if it is
    lost again, DeviceLost is raised."""
    where = opened(run.events[0].data["kb"], knowledge)
    for _ in range(RESTARTS):
        try:
            return _search_once(run, models, where, watch, fleet)
        except DeviceLost as error:
            watch.say(f"the device was lost ({error}); it is started again")
    try:
        return _search_once(run, models, where, watch, fleet)
    except DeviceLost as error:
        raise DeviceLost(f"the device was lost again after a restart: {error}") from error


def _search_once(
    run: Run, models: ModelUse | None, where: str, watch: Watch, fleet: FleetChoice | None
) -> Optimized:
    """Searches in a run, or continues its search, and writes the results into the run's folder. If the device
    is lost, DeviceLost is raised. `where` is the address of the knowledge base with its password. If the
    search was stopped early, only the best source is written."""
    about = run.events[0].data
    search = Search.model_validate(about["search"])
    with (
        _knowledge(run, models, where) as knowledge,
        _judging(run, watch, fleet) as judge,
        _strategy(run, models, judge, watch.say) as make,
    ):
        check_device(run, judge.device.name)
        optimized = search_for(task_of(run), judge, knowledge, run, search, watcher=watch, make=make)
        if optimized.stopped is None:
            leave_results(run, optimized.candidate, optimized.applied, knowledge)
        else:
            write_whole(run.folder / "best.cu", optimized.candidate.source)
    return optimized


@contextmanager
def _judging(run: Run, watch: Watch, fleet: FleetChoice | None) -> Iterator[Judge]:
    """A context with the judge of a search (it verifies and times candidates): on the devices of `fleet` or,
    if that is None, on a device of this process."""
    about = run.events[0].data
    device, gpu = about["device"], about["gpu"]
    checks = {name: about[name] for name in ("filter", "sanitize") if name in about}  # not in older runs
    if fleet is None:
        with opening.open_searching(device, gpu, progress=watch.stage, **checks) as judge:
            yield judge
        return
    with open_machines(fleet) as machines:
        kind = machines.kind(device, gpu)
        with (
            machines.dispatcher(kind, leases_of(run), watch.say) as dispatcher,
            closing(DirectLine(dispatcher)) as line,
            closing(FleetJudge.open(line, JudgeChoice(kind, gpu, **checks))) as judge,
        ):
            yield judge


def _knowledge(run: Run, models: ModelUse | None, where: str) -> KnowledgeBase:
    """The run's knowledge base at `where`, with the shipped initial knowledge in it. If the models' strategy
    uses no memory, an empty one that learns nothing. Raises KnowledgeError if it cannot be opened."""
    if models is not None and not models.remembers:
        return FrozenKnowledge(run.folder / "no-memory.db")
    try:
        knowledge = open_knowledge(where)
    except KnowledgeError as error:
        recorded = run.events[0].data["kb"]
        if lacks_password(recorded) and where == opened(recorded):
            raise KnowledgeError(f"{error} {NO_PASSWORD}") from error
        raise
    plant(knowledge)
    return knowledge


def _strategy(
    run: Run, models: ModelUse | None, judge: Judge, say: Callable[[str], None]
) -> AbstractContextManager[StrategyMaker | None]:
    """A context that gives a function that makes the search strategy with these models; it gives None if
    `models` is None, which means the default strategy without models."""
    if models is None:
        return nullcontext()
    check_ledger(run)
    return open_strategy(models, run.folder, expert_for(judge), say)


def check_device(run: Run, name: str) -> None:
    """Records `name`, the name of the device that is open now, in a new run. Raises NoDevice if the run was
    begun on a device of another name, because times of two devices cannot be compared."""
    first = run.once("device", "begun", lambda: {"name": name})["name"]
    if first != name:
        raise NoDevice(f"the run was begun on {first}; this is {name}, and the two cannot be compared.")
