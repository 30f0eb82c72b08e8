"""`kernelblaster optimize TASK`, which searches for a faster kernel, and `kernelblaster resume RUN`, which
continues such a search."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelblaster import keeper
from kernelblaster.cli.confined import confine_command, confine_to_run, reserved_run
from kernelblaster.cli.confined_work import model_folders
from kernelblaster.cli.groups import grouped
from kernelblaster.cli.interruption import explain_resuming
from kernelblaster.cli.live import show_search
from kernelblaster.cli.options import (
    DEFAULTS,
    CheckOptions,
    DeviceOptions,
    FleetOptions,
    JsonOption,
    RunArgument,
    RunsOption,
    SearchOptions,
    StoreOption,
    TaskOptions,
    again_at,
    check_named,
    runs_folder,
)
from kernelblaster.cli.show import exit_code, out, print_evaluation, print_fact
from kernelblaster.cli.start import STOPPED
from kernelblaster.cli.with_model import (
    ModelOptions,
    StrategyOption,
    TokensOption,
    UsdOption,
    bill,
    expected,
    print_bill,
    print_estimate,
)
from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.address import knowledge_at
from kernelblaster.knowledge.address import opened as opened_address
from kernelblaster.quantities import speedup_text
from kernelblaster.records.outcome import CORRECT, Outcome
from kernelblaster.search.model_use import ModelUse, models_of, retries_with
from kernelblaster.store.control import asked_of, raise_budget
from kernelblaster.store.history import History
from kernelblaster.store.run import Run, open_run
from kernelblaster.tasks.cuda_prepare import inferred_lines

if TYPE_CHECKING:
    from kernelblaster.optimize import Optimized
    from kernelblaster.records import Task

KbOption = Annotated[
    str | None, typer.Option("--kb", help="A knowledge base: a file, or postgresql://...; else your own.")
]
FailUnder = Annotated[
    float | None,
    typer.Option("--fail-under", help="Exit code 0 at this speedup or more, and 1 below it.", min=0),
]


@grouped
def optimize(
    task: Annotated[str, typer.Argument(help="A name of `tasks list`, or a file (docs/tasks.md).")],
    where: DeviceOptions,
    far: SearchOptions,
    models: ModelOptions,
    of: TaskOptions,
    checks: CheckOptions,
    on: FleetOptions,
    kb: KbOption = None,
    budget: Annotated[
        int, typer.Option("--budget", help="Candidates to judge.", min=1)
    ] = DEFAULTS.evaluations,
    seconds: Annotated[float | None, typer.Option(help="Stop after this time.", min=1)] = None,
    gpu_seconds: Annotated[
        float | None, typer.Option(help="Stop after this time on the device.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="All choices follow from it.")] = 0,
    strategy: StrategyOption = "maic-rl",
    quick: Annotated[
        bool, typer.Option("--quick", help="No search: the best known recipe, judged once, within seconds.")
    ] = False,
    fail_under: FailUnder = None,
    runs: RunsOption = None,
    store: StoreOption = None,
    json_: JsonOption = False,
) -> None:
    """Search for a faster kernel: profile, name what bounds it, apply what helped then, judge, remember.

    Needs no language model, and can use one (docs/llm.md); without a GPU, times are modelled. A run that
    was interrupted is continued by `kernelblaster resume`.

    Exit codes: 0 faster than the baseline, 1 correct but not faster (with --fail-under, below that speedup),
    2 it could not be done, 130 stopped.
    """
    check_named(where.gpu)
    use = models.use(strategy)
    limits = {"evaluations": budget, "wall_seconds": seconds, "gpu_seconds": gpu_seconds}
    search = far.search(**limits, retries=retries_with(use), seed=seed, quick=quick)
    if quick and use is not None:
        raise KernelBlasterError("--quick asks no model and searches nothing: leave out one of the two.")
    network = on.network(store)  # a fleet that cannot be is an error before anything is created
    reads, fills = model_folders(use)
    knowledge = knowledge_at(kb)
    keeper.claim("knowledge", knowledge)
    folder = reserved_run(runs_folder(runs))
    fills = [*fills, *([folder] if folder else [])]
    confine_command([task], device=where.device, reads=reads, fills=fills, network=network)
    from kernelblaster.api.benching import gpu_key
    from kernelblaster.api.searching import SearchRequest, start_run

    loaded = of.load(task)  # a bad task is an error before anything is created
    if not json_:
        _show_inferred(loaded)
    gpu = gpu_key(where.gpu)
    wanted = SearchRequest(
        task, search, knowledge, where.device, gpu, of.dtype, use, checks.filter, checks.sanitize
    )
    if use is not None:
        print_estimate(expected(use, search))
    with start_run(loaded, wanted, runs_folder(runs), folder, store) as run:
        optimized = _search(run, use, knowledge, on, json_)
    raise typer.Exit(_exit_code(optimized.evaluation.outcome, fail_under, optimized.by_person))


def _show_inferred(task: "Task") -> None:
    """Print what a CUDA source did not declare and was inferred or assumed."""
    lines = inferred_lines(task.source)
    if lines:
        out.print("not declared, so taken (put these lines into the file to change them):", highlight=False)
        for line in lines:
            out.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)


@grouped
def resume(
    run: RunArgument,
    on: FleetOptions,
    budget: Annotated[
        int | None,
        typer.Option("--budget", help="Candidates to judge in all, those judged before included.", min=1),
    ] = None,
    usd: UsdOption = None,
    tokens: TokensOption = None,
    kb: Annotated[
        str | None,
        typer.Option("--kb", help="The run's knowledge base again, with the password that is not recorded."),
    ] = None,
    fail_under: FailUnder = None,
    runs: RunsOption = None,
    json_: JsonOption = False,
) -> None:
    """Continue a run exactly where it was; where a budget for models was spent, with a larger one.

    A run that has used up its --budget is continued with a larger one. Exit codes are those of `optimize`.
    """
    with open_run(runs_folder(runs), run, writing=True) as opened:
        raise_budget(opened, budget, "cli")
        ended = None if json_ else _ended(opened)
        if ended is not None:
            raise typer.Exit(_exit_code(ended, fail_under))
        use = models_of(opened, usd, tokens)
        reads, fills = model_folders(use)
        keeper.claim("knowledge", opened_address(opened.events[0].data["kb"], kb))
        confine_to_run(opened, reads=reads, fills=fills, network=on.network())
        optimized = _search(opened, use, kb, on, json_)
    raise typer.Exit(_exit_code(optimized.evaluation.outcome, fail_under, optimized.by_person))


def _ended(run: Run) -> Outcome | None:
    """If a run has ended with all its results and nothing more was asked of it: prints what it found and how
    to continue it, and returns the outcome of its best candidate. None if there is something left to do."""
    history = History(run)
    whole = history.finished and history.learned is not None and (run.folder / "best.cu").is_file()
    if not whole or not all(taken for _, taken in asked_of(run.folder)):
        return None
    outcome, judged = history.best_candidate()[1].outcome, len(history.judged)
    assert isinstance(outcome, CORRECT)
    found = f"{outcome.kind}, {speedup_text(outcome.speedup.estimate, history.modelled)}"
    again = f"kernelblaster resume {run.name}{again_at(run.folder.parent)} --budget {2 * judged}"
    told = f"run {run.name} has ended: {judged} candidates judged; {found}"
    out.print(told, highlight=False, soft_wrap=True)
    out.print(f"  kept       {run.folder / 'best.cu'}", highlight=False, soft_wrap=True)
    out.print(f"  go on with {again}", highlight=False, soft_wrap=True)
    return outcome


def _search(run: Run, models: ModelUse | None, kb: str | None, on: FleetOptions, json_: bool) -> "Optimized":
    """Search, or continue, a run with a live view, and print the result; with `json_` as JSON. `kb` is the
    knowledge base's URL with the password that the run does not record, None if it needs none."""
    from kernelblaster.api.searching import search_run
    from kernelblaster.store.subject import task_of

    how = f"resume {run.name}{again_at(run.folder.parent)}{on.again}"
    with (
        explain_resuming(how, "what was judged is recorded"),
        show_search(f"run {run.name}: {task_of(run).name}", json_) as view,
    ):
        optimized = search_run(run, models, kb, view, on.choice())
    costs = bill(models, run) if models else None
    if json_:
        print(json.dumps(_summary(run, optimized) | ({"models": costs} if costs else {}), indent=1))
        return optimized
    _show_result(run, optimized)
    if costs:
        print_bill(costs, lambda line: out.print(line, highlight=False, markup=False, soft_wrap=True))
    return optimized


def _exit_code(outcome: Outcome, fail_under: float | None, by_person: bool = False) -> int:
    """The exit code: 0 if the best candidate is at least `fail_under` times as fast as the baseline, else 1;
    if `fail_under` is None, the code of its outcome. STOPPED (130) if a person has ended the search
    (`by_person`)."""
    if by_person:
        return STOPPED
    assert isinstance(outcome, CORRECT)
    if fail_under is None:
        return exit_code(outcome)
    return 0 if outcome.speedup.estimate >= fail_under else 1


def _summary(run: Run, optimized: "Optimized") -> dict[str, Any]:
    """The result as JSON data, for `--json`."""
    assert isinstance(optimized.evaluation.outcome, CORRECT)
    return {
        "run": run.name,
        "verdict": optimized.evaluation.outcome.kind,
        "applied": list(optimized.applied),
        "speedup": optimized.evaluation.outcome.speedup.model_dump(),
        "modelled": _modelled(optimized),
        "gain_over_first": _gain(optimized),
        "best": str(run.folder / "best.cu"),
        **({"stopped": optimized.stopped} if optimized.stopped else {}),
    }


def _show_result(run: Run, optimized: "Optimized") -> None:
    print_evaluation(optimized.evaluation.model_copy(update={"profile": None, "counters": None}))
    applied = ", ".join(optimized.applied) or "nothing: the first candidate is the best"
    print_fact("applied", applied)
    if optimized.first.candidate != optimized.evaluation.candidate:
        gain = speedup_text(_gain(optimized), _modelled(optimized))
        print_fact("gain", f"{gain} over the first candidate")
    out.print(f"  kept       {run.folder / 'best.cu'}", highlight=False, soft_wrap=True)
    if optimized.stopped:
        how = f"Go on with: kernelblaster resume {run.name}{again_at(run.folder.parent)}"
        how += "" if optimized.by_person else ", with --usd or --tokens"
        out.print(f"  stopped    {optimized.stopped} {how}", highlight=False, markup=False, soft_wrap=True)


def _modelled(optimized: "Optimized") -> bool:
    """Whether the best candidate's time comes from the GPU model."""
    return optimized.evaluation.timing is not None and optimized.evaluation.timing.modelled


def _gain(optimized: "Optimized") -> float:
    """How many times faster the best candidate is than the one that the search began with, whatever the
    speedups over PyTorch are. Both must have been judged correct."""
    first, last = optimized.first.outcome, optimized.evaluation.outcome
    assert isinstance(first, CORRECT) and isinstance(last, CORRECT)
    return last.speedup.estimate / first.speedup.estimate
