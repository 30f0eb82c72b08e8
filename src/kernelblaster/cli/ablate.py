"""`kernelblaster ablate SUITE...`: runs an ablation. It consists of studies, each of which compares several
ways to learn or to search on the same tasks."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from kernelblaster.cli.bench import numbers
from kernelblaster.cli.confined_work import confine_to_work
from kernelblaster.cli.groups import grouped
from kernelblaster.cli.interruption import explain_resuming
from kernelblaster.cli.options import (
    DeviceOptions,
    DtypeOption,
    FleetOptions,
    JsonOption,
    SearchOptions,
    show_status,
)
from kernelblaster.cli.progress import show_bench
from kernelblaster.cli.show import out
from kernelblaster.cli.with_model import ModelOptions, print_estimates
from kernelblaster.errors import BadTask, KernelBlasterError
from kernelblaster.search.model_use import retries_with
from kernelblaster.settings import settings

if TYPE_CHECKING:
    from kernelblaster.bench.ablation import Ablation
    from kernelblaster.bench.coverage import LeftOut
    from kernelblaster.bench.jobs import Setup
    from kernelblaster.bench.suite import Entry

BUDGET = 40


@grouped
def ablate(
    where: DeviceOptions,
    far: SearchOptions,
    models: ModelOptions,
    on: FleetOptions,
    context: typer.Context,
    suites: Annotated[
        list[str] | None, typer.Argument(help="Suites or tasks; none to go on with --folder.")
    ] = None,
    studies: Annotated[
        str,
        typer.Option(
            help="memory, transfer, breadth, depth, selection, agents; transfer and agents only if named."
        ),
    ] = "memory,breadth,depth,selection",
    folder: Annotated[
        Path | None, typer.Option(help="Where it is kept; an ablation that is there already is continued.")
    ] = None,
    elsewhere: Annotated[
        str | None, typer.Option(help="The GPU that `transfer` brings knowledge from, for example a100.")
    ] = None,
    budget: Annotated[
        int, typer.Option("--budget", help="Candidates to judge for each search.", min=1)
    ] = BUDGET,
    seeds: Annotated[str, typer.Option(help="Each arm searches each task once for each.")] = "0,1,2",
    subset: Annotated[
        int | None, typer.Option(help="Only so many covered tasks of each level, drawn.", min=1)
    ] = None,
    split: Annotated[int, typer.Option(help="Which half of the tasks is trained on.")] = 0,
    seconds: Annotated[float | None, typer.Option(help="Begin nothing new after this time.", min=1)] = None,
    workers: Annotated[int | None, typer.Option(help="Searches side by side.", min=1)] = None,
    dtype: DtypeOption = None,
    store: Annotated[
        str | None, typer.Option("--store", help="postgresql://...: share verdicts with others there.")
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Compare ways to learn and to search: same tasks, same seeds, same budget, with intervals.

    An ablation consists of the studies named by --studies; each answers one question. For that it searches
    the same tasks in several ways (arms), which differ in one respect only. Tasks that the policy does not
    cover are left out and listed. --rollouts, --steps and --choices hold for all arms, except where an arm is
    about one of them. The results, with confidence intervals, are written to studies.md and studies.html in
    the folder. An ablation that was interrupted is continued by `ablate --folder FOLDER`."""
    if not suites and folder is None:
        raise KernelBlasterError("name a suite, or a --folder to go on with.")
    use = models.use() if suites else None
    kept = folder or settings().data / "ablations" / time.strftime("%Y%m%d-%H%M%S")
    confine_to_work(kept, suites or [], use, "ablation", where.device, on.network(store))
    from kernelblaster.bench.ablation import Ablation, AblationPlan, studies_for
    from kernelblaster.bench.jobs import Setup
    from kernelblaster.bench.pool import default_workers
    from kernelblaster.devices.emulated import DEFAULT_GPU
    from kernelblaster.opening import kind_here

    plan = None
    if suites:
        with on.machines() as machines:
            kind = (machines.kind if machines else kind_here)(where.device, where.gpu)
        search = far.search(evaluations=budget, retries=retries_with(use))
        setup = Setup(
            device=kind,
            gpu=where.gpu or (DEFAULT_GPU if kind == "emulated" else None),
            dtype=dtype,
            search=search,
            knowledge="",
        ).asking(use)
        named = [name.strip() for name in studies.split(",") if name.strip()]
        chosen = studies_for(named, setup, elsewhere)
        apart = context.obj is not None
        entries, left_out = _studied(suites, subset, setup, workers or default_workers(kind), json_, apart)
        plan = AblationPlan(
            studies=tuple(study.name for study in chosen),
            suites=tuple(suites),
            entries=tuple(entries),
            left_out=tuple(left_out),
            setup=setup,
            seeds=tuple(numbers(seeds, "--seeds")),
            elsewhere=elsewhere,
            split=split,
        )
    with on.machines() as machines, Ablation.open(kept, plan) as opened:
        jobs = {job.key: job for job in opened.jobs}
        if plan:
            print_estimates(list(jobs.values()))
        with (
            explain_resuming(f"ablate --folder {kept}{on.again}"),
            show_bench(f"ablation {kept}", list(jobs), json_, opened.results) as view,
        ):
            many = workers or default_workers(opened.plan.setup.device, machines)
            apart = context.obj is not None
            opened.run(many, seconds, view, apart=apart, machines=machines, store=store)
        _write_results(opened, json_)
        if any(result.status == "died" for result in opened.results.values()):
            raise typer.Exit(1)


def _studied(
    suites: list[str], subset: int | None, setup: "Setup", workers: int, quiet: bool, apart: bool
) -> "tuple[list[Entry], list[LeftOut]]":
    """Returns (the tasks of `suites` to search, the tasks that cannot be searched with `setup`). Of those
    that can, `subset` are drawn from each group (None: all are taken). They are checked by `workers`
    processes, with `apart` never in this one. Shows progress unless `quiet`. Raises BadTask if none can be
    searched."""
    from kernelblaster.bench.coverage import covered
    from kernelblaster.bench.suite import entries_of, sample

    entries = entries_of(suites)
    if not quiet and not out.is_terminal:
        out.print(f"looking which of {len(entries)} tasks are covered", highlight=False)
    with show_status(quiet) as tell:

        def looked_at(done: int) -> None:
            tell(f"covered? {done} of {len(entries)} tasks")

        kept, left_out = covered(entries, setup, workers, looked_at, apart=apart)
    if not kept:
        first = left_out[0]
        raise BadTask(f"no task is covered; {first.name} is {first.status}: {first.reason}")
    return kept if subset is None else sample(kept, subset), left_out


def _write_results(opened: "Ablation", json_: bool) -> None:
    """Write studies.html and studies.md into the ablation's folder, and print the findings; with `json_` as
    JSON."""
    from kernelblaster.report.ablation_page import (
        ablation_markdown,
        ablation_page,
        arms_table,
        summarize_studies,
    )
    from kernelblaster.report.writing import write_text

    files = [
        write_text(opened.folder / "studies.html", ablation_page(opened, time.strftime("on %Y-%m-%d"))),
        write_text(opened.folder / "studies.md", ablation_markdown(opened)),
    ]
    studies = summarize_studies(opened)
    if json_:
        summary = {
            "files": [str(file) for file in files],
            "studies": [asdict(findings) for findings in studies],
            "left_out": [one.model_dump() for one in opened.plan.left_out],
        }
        print(json.dumps(summary, indent=1))
        return
    for findings in studies:
        out.print(f"\n{findings.study.title}", style="bold", highlight=False)
        columns, rows = arms_table(findings)
        table = Table(*columns, box=None, pad_edge=False, header_style="dim")
        for row in rows:
            table.add_row(*row)
        out.print(table, highlight=False)
        for answer in findings.answers:
            out.print(f"- {answer.sentence}", markup=False, highlight=False, soft_wrap=True)
    for one in opened.plan.left_out:
        line = f"{one.status:10} {one.name}: {one.reason}"
        out.print(line, markup=False, highlight=False, soft_wrap=True)
    for file in files:
        out.print(str(file), highlight=False, soft_wrap=True)
