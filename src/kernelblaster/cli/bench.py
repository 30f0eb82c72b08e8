"""`kernelblaster bench SUITE...`."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from kernelblaster.cli.going_on import going_on
from kernelblaster.cli.options import DtypeOption, JsonOption, JudgeOptions, SearchOptions
from kernelblaster.cli.progress import overseeing
from kernelblaster.cli.show import out
from kernelblaster.cli.terminal import Terminal
from kernelblaster.cli.with_model import ModelOptions, choice_of, print_estimates
from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.address import is_url, shown
from kernelblaster.models.choice import Choice
from kernelblaster.settings import settings
from kernelblaster.strategies.names import BY_ROLES, StrategyName
from kernelblaster.strategies.search import Search
from kernelblaster.strategies.taking import Taking, retries_with, taking

if TYPE_CHECKING:
    from kernelblaster.bench.bench import Bench, Plan, Row

DEFAULTS = Search()
BASELINES = ("eager", "compile", "max-autotune")


def bench(
    suites: Annotated[
        list[str] | None,
        typer.Argument(help="`core`, a folder, `kernelbench:PATH`; none to go on with --folder."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where it is kept; one that is there already is gone on with.")
    ] = None,
    level: Annotated[str, typer.Option(help="Only these levels, for example 1,2.")] = "",
    problems: Annotated[
        str, typer.Option(help="Only these numbers of each level, for example 1-20,33.")
    ] = "",
    subset: Annotated[int | None, typer.Option(help="Only so many of each level, drawn.", min=1)] = None,
    device: JudgeOptions.Device = "auto",
    gpu: JudgeOptions.Gpu = None,
    policy: Annotated[
        Literal["expert", "llm"] | None,
        typer.Option(help="Who writes candidates; llm if a model is named, else the expert."),
    ] = None,
    strategy: ModelOptions.Strategy = "maic-rl",
    model: ModelOptions.Model = None,
    role: ModelOptions.Roles = None,
    usd: ModelOptions.Usd = None,
    tokens: ModelOptions.Tokens = None,
    prices: ModelOptions.Prices = None,
    record: ModelOptions.Record = None,
    replay: ModelOptions.Replay = None,
    baselines: Annotated[
        str, typer.Option(help="What to beat: eager, compile, max-autotune. All on a GPU if left out.")
    ] = "",
    start: Annotated[
        str, typer.Option("--kb", help="What it knows at first: seed, empty, or a knowledge base to copy.")
    ] = "seed",
    budget: Annotated[
        int, typer.Option("--budget", help="Candidates to judge for each task.", min=1)
    ] = DEFAULTS.evaluations,
    iterations: SearchOptions.Iterations = DEFAULTS.iterations,
    rollouts: SearchOptions.Rollouts = DEFAULTS.rollouts,
    steps: SearchOptions.Steps = DEFAULTS.steps,
    choices: SearchOptions.Choices = DEFAULTS.choices,
    near_floor: SearchOptions.NearFloor = DEFAULTS.near_floor,
    explained: SearchOptions.Explained = DEFAULTS.explained,
    selection: SearchOptions.Selection = DEFAULTS.selection,
    seeds: Annotated[str, typer.Option(help="Each task is searched once for each, for example 0,1,2.")] = "0",
    seconds: Annotated[float | None, typer.Option(help="Begin nothing new after this time.", min=1)] = None,
    workers: Annotated[int | None, typer.Option(help="Tasks searched side by side.", min=1)] = None,
    dtype: DtypeOption = None,
    json_: JsonOption = False,
) -> None:
    """Search every task of a suite, measure what was found beside each baseline, and sum it up.

    A task that fails, is unfit or is not covered is listed, and counts in every share. What was done is
    kept: a bench that was interrupted goes on with `bench --folder FOLDER`. `kernelblaster report FOLDER`
    makes a page of it.
    """
    from kernelblaster.bench.bench import KNOWLEDGE, Bench, Plan
    from kernelblaster.bench.jobs import Setup
    from kernelblaster.bench.pool import default_workers
    from kernelblaster.bench.starting import EMPTY, SEED, start_knowledge
    from kernelblaster.bench.suite import entries_of

    plan: Plan | None = None
    if suites:
        choice = choice_of(model, usd, tokens, prices=prices, record=record, replay=replay)
        models = _taking(policy, choice, role or [], strategy)
        search = Search(
            iterations=iterations,
            rollouts=rollouts,
            steps=steps,
            choices=choices,
            evaluations=budget,
            near_floor=near_floor,
            explained=explained,
            retries=retries_with(models),
            selection=selection,
        )
        kind = device_kind(device, gpu)
        plan = Plan(
            suites=tuple(suites),
            entries=tuple(entries_of(suites, numbers(level, "--level"), problems, subset)),
            setup=Setup(
                strategy=strategy, device=kind, gpu=gpu, dtype=dtype, search=search, knowledge=""
            ).asking(models),
            seeds=tuple(numbers(seeds, "--seeds")),
            baselines=_baselines(baselines, kind),  # type: ignore[arg-type]
            start=shown(start) if start in (EMPTY, SEED) or is_url(start) else str(Path(start).absolute()),
        )
    elif folder is None:
        raise KernelBlasterError(
            "name a suite (core, a folder, kernelbench:PATH), or a --folder to go on with."
        )
    where = folder or _new_folder(plan)
    print_estimates(plan.jobs if plan else [])
    with Bench.open(where, plan) as opened:
        if plan is not None and is_url(start):
            start_knowledge(start, where / KNOWLEDGE)  # the plan has no password
        with (
            going_on(f"bench --folder {where}"),
            overseeing(f"bench {where}", [job.key for job in opened.plan.jobs], json_, opened.done) as view,
        ):
            opened.run(workers or default_workers(opened.plan.setup.device), seconds, view, view.measured)
        if json_:
            print(json.dumps(_told(opened, where), indent=1))
        else:
            _show(opened, where)


def _taking(policy: str | None, choice: Choice, roles: list[str], strategy: StrategyName) -> Taking | None:
    """None: only the expert plays, who has a memory or none."""
    expert_can = policy != "llm" and strategy in BY_ROLES
    found = taking(choice, roles, "maic-rl" if expert_can else strategy)
    if found is None and policy == "llm":
        raise KernelBlasterError("--policy llm: name the model, --model KIND:NAME (docs/models.md).")
    if found is not None and policy == "expert":
        raise KernelBlasterError("--policy expert asks no model: leave --model, --role and --replay out.")
    return found and found.model_copy(update={"strategy": strategy})


def device_kind(device: str, gpu: str | None) -> Literal["cuda", "emulated"]:
    """Which of the two `auto` means here."""
    from kernelblaster.devices.cuda import why_no_gpu

    if device == "cuda" and gpu is not None:
        raise KernelBlasterError(f"--gpu {gpu} says what the emulated device stands for; leave it out.")
    if device == "cuda" or (device == "auto" and gpu is None and why_no_gpu() is None):
        return "cuda"
    return "emulated"


def numbers(text: str, option: str) -> list[int]:
    """`1,2,3` as numbers."""
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise KernelBlasterError(f"{option} {text}: give whole numbers with commas between them.") from error


def _baselines(given: str, kind: str) -> tuple[str, ...]:
    """Eager is always among them: the searches are timed beside it."""
    if not given:
        return BASELINES if kind == "cuda" else ("eager",)
    wanted = [name.strip() for name in given.split(",")]
    unknown = [name for name in wanted if name not in BASELINES]
    if unknown:
        raise KernelBlasterError(f"--baselines {given}: {unknown[0]} is none of {', '.join(BASELINES)}.")
    if kind == "emulated" and wanted != ["eager"]:
        raise KernelBlasterError(f"--baselines {given}: needs a GPU: only eager PyTorch is modelled.")
    return tuple(name for name in BASELINES if name in wanted or name == "eager")


def _new_folder(plan: "Plan | None") -> Path:
    assert plan is not None
    name = Path(plan.suites[0].rstrip("/")).name.replace(":", "-") or "bench"
    return settings().data / "benches" / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"


def _told(opened: "Bench", where: Path) -> dict[str, Any]:
    from kernelblaster.bench.tables import summaries

    rows = opened.rows()
    return {
        "folder": str(where),
        "device": opened.device,
        "pace": asdict(opened.pace),
        "summaries": [
            asdict(one.summary) | {"group": one.group, "baseline": one.baseline}
            for one in summaries(opened.plan, rows)
        ],
        "tasks": [
            {
                "task": row.result.task,
                "seed": row.result.seed,
                "status": row.result.status,
                "reason": row.result.reason,
                "speedup": row.speedup("best"),
                "gain_over_first": row.speedup("initial"),
                "tokens": row.result.spent.tokens,
                "usd": row.result.spent.usd,
                "applied": list(row.result.applied),
                "run": row.result.run,
            }
            for row in rows
        ],
    }


def _show(opened: "Bench", where: Path) -> None:
    from kernelblaster.bench.tables import COLUMNS, cells, summaries

    rows = opened.rows()
    table = Table("", "vs", *COLUMNS, box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for one in summaries(opened.plan, rows):
        table.add_row(one.group, one.baseline.replace("max-", ""), *cells(one.summary))
    out.print(table, highlight=False)
    if opened.plan.setup.model:
        _show_costs(opened.plan.setup.model, rows)
    _show_failures(rows)
    if opened.pace.seconds:
        out.print(str(opened.pace), highlight=False, soft_wrap=True)
    unfinished = sum(row.result.status == "unfinished" for row in rows)
    console = Terminal(stderr=True)
    if unfinished:
        how = f"kernelblaster bench --folder {where}"
        console.print(f"{unfinished} unfinished; go on with: {how}", highlight=False, soft_wrap=True)
    console.print(f"a page of it: kernelblaster report {where}", highlight=False, soft_wrap=True)


def _show_costs(model: str, rows: "list[Row]") -> None:
    usd = [row.result.spent.usd for row in rows]
    cost = "price not known" if None in usd else f"${sum(one for one in usd if one is not None):.4f}"
    tokens = sum(row.result.spent.tokens for row in rows)
    out.print(f"{model}: {tokens} tokens, {cost}", markup=False, highlight=False, soft_wrap=True)


def _show_failures(rows: "list[Row]") -> None:
    for row in rows:
        if row.result.status not in ("valid", "unfinished"):
            line = f"{row.result.status:10} {row.result.task}: {row.result.reason}"
            out.print(line, markup=False, highlight=False, soft_wrap=True)
