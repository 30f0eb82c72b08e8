"""`kernelblaster bench SUITE...`: search every task of a suite, and measure the results."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from kernelblaster.bench.suite import entries_of, new_folder
from kernelblaster.cli.confined_work import claim_knowledge, confine_to_work
from kernelblaster.cli.groups import grouped
from kernelblaster.cli.interruption import explain_resuming
from kernelblaster.cli.options import (
    DEFAULTS,
    DeviceOptions,
    DtypeOption,
    FleetOptions,
    JsonOption,
    SearchOptions,
    StoreOption,
)
from kernelblaster.cli.progress import show_bench
from kernelblaster.cli.show import out
from kernelblaster.cli.terminal import Terminal
from kernelblaster.cli.with_model import ModelOptions, StrategyOption, print_estimates
from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.initial import recorded_start
from kernelblaster.passwords import shown
from kernelblaster.search.model_use import ModelUse, retries_with
from kernelblaster.search.names import BY_ROLES, StrategyName

if TYPE_CHECKING:
    from kernelblaster.api.benching import BenchResult
    from kernelblaster.bench.record import Row


@grouped
def bench(
    where: DeviceOptions,
    far: SearchOptions,
    models: ModelOptions,
    on: FleetOptions,
    context: typer.Context,
    suites: Annotated[
        list[str] | None,
        typer.Argument(help="`core`, a folder, `kernelbench:PATH`; none to go on with --folder."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where it is kept; a bench that is there already is continued.")
    ] = None,
    level: Annotated[str, typer.Option(help="Only these levels, for example 1,2.")] = "",
    problems: Annotated[
        str, typer.Option(help="Only these numbers of each level, for example 1-20,33.")
    ] = "",
    subset: Annotated[int | None, typer.Option(help="Only so many of each level, drawn.", min=1)] = None,
    policy: Annotated[
        Literal["expert", "llm"] | None,
        typer.Option(help="Who writes candidates; llm if a model is named, else the expert."),
    ] = None,
    strategy: StrategyOption = "maic-rl",
    baselines: Annotated[
        str,
        typer.Option(
            help="What to beat: eager, compile, max-autotune, iree. If left out: on a GPU the first three."
        ),
    ] = "",
    start: Annotated[
        str, typer.Option("--kb", help="What it knows at first: seed, empty, or a knowledge base to copy.")
    ] = "seed",
    teach: Annotated[
        bool, typer.Option("--teach", help="Let the knowledge base that --kb names learn from the bench.")
    ] = False,
    budget: Annotated[
        int, typer.Option("--budget", help="Candidates to judge for each task.", min=1)
    ] = DEFAULTS.evaluations,
    seeds: Annotated[str, typer.Option(help="Each task is searched once for each, for example 0,1,2.")] = "0",
    seconds: Annotated[float | None, typer.Option(help="Begin nothing new after this time.", min=1)] = None,
    workers: Annotated[int | None, typer.Option(help="Tasks searched side by side.", min=1)] = None,
    dtype: DtypeOption = None,
    store: StoreOption = None,
    json_: JsonOption = False,
) -> None:
    """Search every task of a suite, measure the results against each baseline, and summarize them.

    A task that fails, is unfit or is not covered is listed, and counts in every percentage as a task without
    a speedup. Finished work is kept: an interrupted bench is continued by `bench --folder FOLDER`.
    `kernelblaster report FOLDER` makes a page of it. The bench works on a copy of the knowledge base that
    --kb names, so that its result can be repeated; with --teach, what it learned is added to that knowledge
    base at the end.

    Exit codes: 0 every task that was begun has a result, 1 the code of a task ended the process in which it
    ran (its result says so, and the others went on), 2 the bench could not be done.
    """
    if not suites and folder is None:
        raise KernelBlasterError(
            "name a suite (core, a folder, kernelbench:PATH), or a --folder to go on with."
        )
    use = _model_use(policy, models, strategy) if suites else None
    kept = folder or new_folder((suites or [""])[0])
    claim_knowledge(recorded_start(start), kept)
    confine_to_work(kept, suites or [], use, "plan", where.device, on.network(store))
    from kernelblaster.api import benching
    from kernelblaster.bench.jobs import Setup
    from kernelblaster.bench.pool import default_workers
    from kernelblaster.bench.record import BenchPlan
    from kernelblaster.opening import kind_here

    plan: BenchPlan | None = None
    benching.check_teaching(start, teach)
    with on.machines() as machines:
        if suites:
            kind = (machines.kind if machines else kind_here)(where.device, where.gpu)
            plan = BenchPlan(
                suites=tuple(suites),
                entries=tuple(entries_of(suites, numbers(level, "--level"), problems, subset)),
                setup=Setup(
                    strategy=strategy,
                    device=kind,
                    gpu=benching.gpu_key(where.gpu),
                    dtype=dtype,
                    search=far.search(evaluations=budget, retries=retries_with(use)),
                    knowledge="",
                ).asking(use),
                seeds=tuple(numbers(seeds, "--seeds")),
                baselines=benching.chosen_baselines(baselines, kind),
                start=recorded_start(start),
            )
        print_estimates(plan.jobs if plan else [])
        with benching.open_bench(kept, plan, start, store) as opened:
            jobs = [job.key for job in opened.plan.jobs]
            with (
                explain_resuming(f"bench --folder {kept}{on.again}"),
                show_bench(f"bench {kept}", jobs, json_, opened.done) as view,
            ):
                many = workers or default_workers(opened.plan.setup.device, machines)
                apart = context.obj is not None
                opened.run(many, seconds, view, view.measured, apart=apart, machines=machines)
            result = benching.bench_result(opened, kept)
    learned = benching.teach_from(kept, start) if teach else None
    if json_:
        print(json.dumps(_as_dict(result, learned), indent=1))
    else:
        _show(result, learned, shown(start))
    if any(row.died for row in result.rows):
        raise typer.Exit(1)


def _model_use(policy: str | None, models: ModelOptions, strategy: StrategyName) -> ModelUse | None:
    """Which language models take part, from the options; None if none does. With `policy` None, the model
    writes candidates if one is named, else the rule-based expert policy. Raises KernelBlasterError for
    options that contradict each other."""
    expert_can = policy != "llm" and strategy in BY_ROLES
    use = models.use("maic-rl" if expert_can else strategy)
    if use is None and policy == "llm":
        raise KernelBlasterError("--policy llm: name the model, --model KIND:NAME (docs/models.md).")
    if use is not None and policy == "expert":
        raise KernelBlasterError("--policy expert asks no model: leave --model, --role and --replay out.")
    return use and use.model_copy(update={"strategy": strategy})


def numbers(text: str, option: str) -> list[int]:
    """Returns the whole numbers in a text like "1,2,3". Raises KernelBlasterError, with the name of the
    `option` that the text was given to, if one is no whole number."""
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise KernelBlasterError(f"{option} {text}: give whole numbers with commas between them.") from error


def _as_dict(result: "BenchResult", learned: int | None) -> dict[str, Any]:
    """The result as JSON data for `--json`; `learned` is the number of results that were new to the knowledge
    base that --kb names, None without `--teach`."""
    taught = {} if learned is None else {"taught_events": learned}
    return {
        "folder": str(result.folder),
        "device": result.device,
        "modelled": result.modelled,
        "pace": asdict(result.pace),
        **taught,
        "summaries": [
            asdict(one.summary) | {"group": one.group, "baseline": one.baseline} for one in result.summaries
        ],
        "tasks": [
            {
                "task": row.result.task,
                "seed": row.result.seed,
                "status": row.result.status,
                "reason": row.result.reason,
                "speedup": row.speedup("best"),
                "modelled": row.result.modelled,
                "gain_over_first": row.speedup("initial"),
                "tokens": row.result.spent.tokens,
                "usd": row.result.spent.usd,
                "applied": list(row.result.applied),
                "run": row.result.run,
            }
            for row in result.rows
        ],
    }


def _show(result: "BenchResult", learned: int | None, knowledge: str) -> None:
    """Print the result for people; `learned` is the number of results that were new to the knowledge base
    `knowledge`, None without `--teach`."""
    from kernelblaster.bench.tables import COLUMNS, cells

    table = Table("", "vs", *COLUMNS, box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for one in result.summaries:
        table.add_row(one.group, one.baseline.replace("max-", ""), *cells(one.summary))
    if result.modelled:
        out.print(f"speedups modelled, not measured: {result.device}", highlight=False, soft_wrap=True)
    out.print(table, highlight=False)
    if result.plan.setup.model:
        _show_costs(result.plan.setup.model, result.rows)
    _show_failures(result.rows)
    if result.pace.seconds:
        out.print(str(result.pace), highlight=False, soft_wrap=True)
    if learned is not None:
        out.print(f"taught {knowledge}: {learned} new events", highlight=False, soft_wrap=True)
    console = Terminal(stderr=True)
    if result.unfinished:
        how = f"kernelblaster bench --folder {result.folder}"
        console.print(f"{result.unfinished} unfinished; go on with: {how}", highlight=False, soft_wrap=True)
    console.print(f"a page of it: kernelblaster report {result.folder}", highlight=False, soft_wrap=True)


def _show_costs(model: str, rows: "list[Row]") -> None:
    usd = [row.result.spent.usd for row in rows]
    cost = "price not known" if None in usd else f"${sum(one for one in usd if one is not None):.4f}"
    tokens = sum(row.result.spent.tokens for row in rows)
    out.print(f"{model}: {tokens} tokens, {cost}", markup=False, highlight=False, soft_wrap=True)


def _show_failures(rows: "list[Row]") -> None:
    """Prints a line for each search that found no valid candidate: status, task and reason. Unfinished
    searches are left out."""
    for row in rows:
        if row.result.status not in ("valid", "unfinished"):
            line = f"{row.result.status:10} {row.result.task}: {row.result.reason}"
            out.print(line, markup=False, highlight=False, soft_wrap=True)
