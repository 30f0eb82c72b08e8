"""`kernelblaster optimize TASK` and `kernelblaster resume RUN`."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelblaster.cli.going_on import going_on
from kernelblaster.cli.live import Silent, View, watching
from kernelblaster.cli.options import (
    DtypeOption,
    JsonOption,
    JudgeOptions,
    RunsOption,
    SearchOptions,
    runs_folder,
)
from kernelblaster.cli.show import out, print_evaluation
from kernelblaster.cli.terminal import Terminal
from kernelblaster.cli.with_model import (
    ModelOptions,
    bill,
    choice_of,
    expected,
    print_bill,
    print_estimate,
)
from kernelblaster.errors import DeviceLost, KernelBlasterError, KnowledgeError, NoDevice, StoreError
from kernelblaster.knowledge.address import is_url, lacks_password, opened, shown
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.seed import plant
from kernelblaster.records import Task
from kernelblaster.records.outcome import CORRECT
from kernelblaster.settings import settings
from kernelblaster.store.files import write_whole
from kernelblaster.store.results import leave_results
from kernelblaster.store.run import Run, create_run, discard_unbegun, open_run
from kernelblaster.store.subject import keep_task, task_of
from kernelblaster.strategies.frozen_knowledge import FrozenKnowledge
from kernelblaster.strategies.search import Search
from kernelblaster.strategies.strategy import Arrange
from kernelblaster.strategies.taking import Taking, arranged, check_models, retries_with, taking, taking_of
from kernelblaster.tasks.catalog import load_task
from kernelblaster.tasks.cuda_prepare import inferred_lines

if TYPE_CHECKING:
    from kernelblaster.judge.judge import Judge
    from kernelblaster.optimize import Optimized

KbOption = Annotated[
    str | None, typer.Option("--kb", help="A knowledge base: a file, or postgresql://...; else your own.")
]
DEFAULTS = Search()
NO_PASSWORD = "A run does not keep a password: give --kb URL again, or PGPASSWORD, or a line in ~/.pgpass."
RESTARTS = 1  # of a device that was lost, in one command


def optimize(
    task: Annotated[str, typer.Argument(help="A task, see docs/tasks.md.")],
    kb: KbOption = None,
    device: JudgeOptions.Device = "auto",
    gpu: JudgeOptions.Gpu = None,
    budget: Annotated[
        int, typer.Option("--budget", help="Candidates to judge.", min=1)
    ] = DEFAULTS.evaluations,
    seconds: Annotated[float | None, typer.Option(help="Stop after this time.", min=1)] = None,
    gpu_seconds: Annotated[
        float | None, typer.Option(help="Stop after this time on the device.", min=1)
    ] = None,
    iterations: SearchOptions.Iterations = DEFAULTS.iterations,
    rollouts: SearchOptions.Rollouts = DEFAULTS.rollouts,
    steps: SearchOptions.Steps = DEFAULTS.steps,
    choices: SearchOptions.Choices = DEFAULTS.choices,
    selection: SearchOptions.Selection = DEFAULTS.selection,
    seed: Annotated[int, typer.Option(help="All choices follow from it.")] = 0,
    model: ModelOptions.Model = None,
    role: ModelOptions.Roles = None,
    usd: ModelOptions.Usd = None,
    tokens: ModelOptions.Tokens = None,
    prices: ModelOptions.Prices = None,
    record: ModelOptions.Record = None,
    replay: ModelOptions.Replay = None,
    strategy: ModelOptions.Strategy = "maic-rl",
    runs: RunsOption = None,
    dtype: DtypeOption = "float32",
    json_: JsonOption = False,
) -> None:
    """Make a task faster: profile, name the state, apply what paid in it, judge, and remember.

    Needs no language model, and can use one (docs/llm.md); without a GPU, times are modelled. A run that
    was interrupted goes on with `kernelblaster resume`.
    """
    choice = choice_of(model, usd, tokens, prices=prices, record=record, replay=replay)
    models = taking(choice, role or [], strategy)
    search = Search(
        iterations=iterations,
        rollouts=rollouts,
        steps=steps,
        choices=choices,
        evaluations=budget,
        wall_seconds=seconds,
        gpu_seconds=gpu_seconds,
        retries=retries_with(models),
        selection=selection,
        seed=seed,
    )
    if models is not None:
        check_models(models)
    loaded = load_task(task, dtype)  # a bad task is told of before anything is made
    if not json_:
        _show_inferred(loaded)
    about: dict[str, Any] = {"task": task, "dtype": dtype, "device": device, "gpu": gpu}
    where = _absolute(kb or str(settings().data / "knowledge.db"))
    about |= {"kb": shown(where), "search": search.model_dump()}
    if models is not None:
        about["models"] = models.model_dump(mode="json")
        print_estimate(expected(models, search))
    with create_run(runs_folder(runs), **about) as run:
        try:
            _go(run, loaded, models, where, json_)
        except KernelBlasterError as error:
            if not discard_unbegun(run):
                raise
            cause = error.__cause__  # without "go on": there is nothing to go on with
            raise cause if isinstance(cause, KernelBlasterError) else error from None


def _show_inferred(task: Task) -> None:
    """What a CUDA source did not declare and was read off it, or assumed."""
    lines = inferred_lines(task.source)
    if lines:
        out.print("not declared, so taken (put these lines into the file to change them):", highlight=False)
        for line in lines:
            out.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)


def resume(
    run: Annotated[str, typer.Argument(help="A run, or the beginning of its name: see `runs list`.")],
    usd: ModelOptions.Usd = None,
    tokens: ModelOptions.Tokens = None,
    kb: Annotated[
        str | None,
        typer.Option("--kb", help="The run's knowledge base again, with the password that is not recorded."),
    ] = None,
    runs: RunsOption = None,
    json_: JsonOption = False,
) -> None:
    """Go on with a run exactly where it was; where a budget for models was spent, with a larger one."""
    with open_run(runs_folder(runs), run, writing=True) as begun:
        if not begun.events:
            raise StoreError(f"{begun.folder}: was stopped before it began; remove it, and start again.")
        models = taking_of(begun.events[0].data)
        if models is not None:
            check_models(models)
        where = opened(begun.events[0].data["kb"], kb)
        _go(begun, task_of(begun), models and models.allowing(usd, tokens), where, json_)


def _go(run: Run, task: Task, models: Taking | None, kb: str, json_: bool) -> None:
    how = f"resume {run.name} --runs {run.folder.parent}"
    with (
        going_on(how, "what was judged is recorded"),
        watching(f"run {run.name}: {task.name}", json_) as view,
    ):
        keep_task(run, task)
        found = _search(run, task_of(run), models, kb, view)
    told = bill(models, run) if models else None
    if json_:
        print(json.dumps(_summary(run, found) | ({"models": told} if told else {}), indent=1))
        return
    _show_result(run, found)
    if told:
        print_bill(told, lambda line: out.print(line, highlight=False, markup=False, soft_wrap=True))


def _search(run: Run, task: Task, models: Taking | None, kb: str, view: View) -> "Optimized":
    """The search; a device that is lost is started once more, and the run goes on where it was."""
    for _ in range(RESTARTS):
        try:
            return _search_once(run, task, models, kb, view)
        except DeviceLost as error:
            view.say(f"the device was lost ({error}); it is started again")
    try:
        return _search_once(run, task, models, kb, view)
    except DeviceLost as error:
        raise DeviceLost(f"the device was lost again after a restart: {error}") from error


def _search_once(run: Run, task: Task, models: Taking | None, kb: str, view: View) -> "Optimized":
    from kernelblaster.api import open_searching
    from kernelblaster.optimize import optimize as search_for

    about = run.events[0].data
    search = Search.model_validate(about["search"])
    with (
        _knowledge(run, models, kb) as knowledge,
        open_searching(about["device"], about["gpu"], progress=view.stage) as judge,
        _arranged(run, models, judge, view) as arrange,
    ):
        _check_device(run, judge.device.name)
        found = search_for(task, judge, knowledge, run, search, tell=view, arrange=arrange)
        if found.stopped is None:
            leave_results(run, found.candidate, found.applied, knowledge)
        else:
            write_whole(run.folder / "best.cu", found.candidate.source)
    return found


def _knowledge(run: Run, models: Taking | None, kb: str) -> KnowledgeBase:
    """The run's knowledge base; an empty one of its own where the strategy has no memory."""
    if models is not None and not models.remembers:
        return FrozenKnowledge(run.folder / "no-memory.db")
    try:
        knowledge = KnowledgeBase(kb)
    except KnowledgeError as error:
        recorded = run.events[0].data["kb"]
        if lacks_password(recorded) and kb == opened(recorded):
            raise KnowledgeError(f"{error} {NO_PASSWORD}") from error
        raise
    plant(knowledge)
    return knowledge


def _arranged(
    run: Run, models: Taking | None, judge: "Judge", view: View
) -> AbstractContextManager[Arrange | None]:
    """The strategy with the models that take part in it; None: the usual one, without any."""
    if models is None:
        return nullcontext()
    from kernelblaster.optimize import expert_for

    return arranged(models, run.folder, expert_for(judge), _saying(view))


def _saying(view: View) -> Callable[[str], None]:
    """How to say where a hand-off waits; beside JSON, on standard error."""
    if not isinstance(view, Silent):
        return view.say
    console = Terminal(stderr=True)
    return lambda text: console.print(text, highlight=False, markup=False, soft_wrap=True)


def _check_device(run: Run, name: str) -> None:
    """What different devices measure has no place in one run."""
    begun = run.once("device", "begun", lambda: {"name": name})["name"]
    if begun != name:
        raise NoDevice(f"the run was begun on {begun}; this is {name}, and the two cannot be compared.")


def _absolute(kb: str) -> str:
    """A knowledge base by a name that means the same in every folder."""
    return kb if is_url(kb) else str(Path(kb).absolute())


def _summary(run: Run, found: "Optimized") -> dict[str, Any]:
    assert isinstance(found.evaluation.outcome, CORRECT)
    return {
        "run": run.name,
        "applied": list(found.applied),
        "speedup": found.evaluation.outcome.speedup.model_dump(),
        "gain_over_first": _gain(found),
        "best": str(run.folder / "best.cu"),
        **({"stopped": found.stopped} if found.stopped else {}),
    }


def _show_result(run: Run, found: "Optimized") -> None:
    print_evaluation(found.evaluation.model_copy(update={"profile": None, "counters": None}))
    way = ", ".join(found.applied) or "nothing: the first candidate is the best"
    out.print(f"  applied    {way}", highlight=False)
    out.print(f"  gain       {_gain(found):.2f}x over the first candidate", highlight=False)
    out.print(f"  kept       {run.folder / 'best.cu'}", highlight=False, soft_wrap=True)
    if found.stopped:
        how = f"kernelblaster resume {run.name} --runs {run.folder.parent}, with --usd or --tokens"
        out.print(f"  stopped    {found.stopped} {how}", highlight=False, markup=False, soft_wrap=True)


def _gain(found: "Optimized") -> float:
    first, last = found.first.outcome, found.evaluation.outcome
    assert isinstance(first, CORRECT) and isinstance(last, CORRECT)
    return last.speedup.estimate / first.speedup.estimate
