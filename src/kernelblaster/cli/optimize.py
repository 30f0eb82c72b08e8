"""`kernelblaster optimize TASK` and `kernelblaster resume RUN`."""

import json
from math import exp
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelblaster.cli.options import DtypeOption, JsonOption, JudgeOptions
from kernelblaster.cli.show import out, print_evaluation
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.seed import plant
from kernelblaster.optimize import Optimized, Progress
from kernelblaster.optimize import optimize as search_for
from kernelblaster.records.outcome import CORRECT
from kernelblaster.settings import settings
from kernelblaster.store.run import Run, create_run, open_run
from kernelblaster.strategies.search import Search
from kernelblaster.tasks.catalog import load_task

KbOption = Annotated[
    str | None, typer.Option("--kb", help="A knowledge base: a file, or postgresql://...; else your own.")
]
RunsOption = Annotated[Path | None, typer.Option("--runs", help="Where runs are kept.")]
DEFAULTS = Search()


def optimize(
    task: Annotated[str, typer.Argument(help="A task, see docs/tasks.md.")],
    kb: KbOption = None,
    device: JudgeOptions.Device = "auto",
    gpu: JudgeOptions.Gpu = None,
    budget: Annotated[
        int, typer.Option("--budget", help="Candidates to judge.", min=1)
    ] = DEFAULTS.evaluations,
    iterations: Annotated[int, typer.Option(min=1)] = DEFAULTS.iterations,
    rollouts: Annotated[int, typer.Option(min=1)] = DEFAULTS.rollouts,
    steps: Annotated[int, typer.Option(min=1)] = DEFAULTS.steps,
    choices: Annotated[int, typer.Option(help="Techniques tried at each step.", min=1)] = DEFAULTS.choices,
    seed: Annotated[int, typer.Option(help="All choices follow from it.")] = 0,
    runs: RunsOption = None,
    dtype: DtypeOption = "float32",
    json_: JsonOption = False,
) -> None:
    """Make a task faster: profile, name the state, apply what paid in it, judge, and remember.

    Needs no language model; without a GPU, times are modelled. A run that was interrupted goes on with
    `kernelblaster resume`.
    """
    search = Search(
        iterations=iterations, rollouts=rollouts, steps=steps, choices=choices, evaluations=budget, seed=seed
    )
    load_task(task, dtype)  # a bad task is told of before anything is made
    about: dict[str, Any] = {"task": task, "dtype": dtype, "device": device, "gpu": gpu}
    about |= {"kb": kb or str(settings().data / "knowledge.db"), "search": search.model_dump()}
    with create_run(runs or settings().data / "runs", **about) as run:
        _go(run, json_)


def resume(
    run: Annotated[str, typer.Argument(help="A run, or the beginning of its name: see `runs list`.")],
    runs: RunsOption = None,
    json_: JsonOption = False,
) -> None:
    """Go on with a run exactly where it was."""
    with open_run(runs or settings().data / "runs", run, writing=True) as opened:
        _go(opened, json_)


def _go(run: Run, json_: bool) -> None:
    from kernelblaster.api import open_judge

    about = run.events[0].data
    task = load_task(about["task"], about["dtype"])
    if not json_:
        out.print(f"run {run.name}: {task.name}", highlight=False)
    where = about["kb"]
    if "://" not in where:
        Path(where).parent.mkdir(parents=True, exist_ok=True)
    with (
        open_judge(about["device"], about["gpu"], profile=True) as judge,
        KnowledgeBase(where) as knowledge,
    ):
        plant(knowledge)
        search = Search.model_validate(about["search"])
        tell = (lambda progress: None) if json_ else _show_step
        found = search_for(task, judge, knowledge, run, search, tell=tell)
    if json_:
        print(json.dumps(_summary(run, found), indent=1))
        return
    _show_result(run, found)


def _show_step(progress: Progress) -> None:
    step = progress.step
    if step is None:
        return
    measured = f"{exp(step.result):.2f}x" if isinstance(step.result, float) else step.result
    mark = "[green]taken[/]" if step.taken else "[dim]not taken[/]"
    out.print(
        f"  {step.place:10} {step.technique:28} predicted {step.predicted:.2f}x, got {measured:13} {mark}  "
        f"[dim]best {progress.best_us:.1f} us, floor {progress.floor_us:.1f} us; {step.state}[/]",
        highlight=False,
        soft_wrap=True,
    )


def _summary(run: Run, found: Optimized) -> dict[str, Any]:
    assert isinstance(found.evaluation.outcome, CORRECT)
    return {
        "run": run.name,
        "applied": list(found.applied),
        "speedup": found.evaluation.outcome.speedup.model_dump(),
        "gain_over_first": _gain(found),
        "best": str(run.folder / "best.cu"),
    }


def _show_result(run: Run, found: Optimized) -> None:
    print_evaluation(found.evaluation.model_copy(update={"profile": None, "counters": None}))
    way = ", ".join(found.applied) or "nothing: the first candidate is the best"
    out.print(f"  applied    {way}", highlight=False)
    out.print(f"  gain       {_gain(found):.2f}x over the first candidate", highlight=False)
    out.print(f"  kept       {run.folder / 'best.cu'}", highlight=False, soft_wrap=True)


def _gain(found: Optimized) -> float:
    first, last = found.first.outcome, found.evaluation.outcome
    assert isinstance(first, CORRECT) and isinstance(last, CORRECT)
    return last.speedup.estimate / first.speedup.estimate
