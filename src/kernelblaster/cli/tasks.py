"""`kernelblaster tasks list|show|check`."""

import json
from typing import Annotated

import typer
from rich.progress import track
from rich.table import Table

from kernelblaster.cli.options import DtypeOption, JsonOption
from kernelblaster.cli.terminal import Terminal, plain
from kernelblaster.errors import BadTask
from kernelblaster.records import Fitness, Floor, Task
from kernelblaster.tasks.catalog import find, load_file, load_task
from kernelblaster.tasks.header import declaration

app = typer.Typer(help="List, show and check tasks.", no_args_is_help=True)
out = Terminal()


@app.command("list")
def list_tasks(
    where: Annotated[str, typer.Argument(help="A suite, a folder or kernelbench:PATH.")] = "core",
    json_: JsonOption = False,
) -> None:
    """Name every task of a suite, a folder or a KernelBench checkout."""
    found = find(where)
    if json_:
        print(json.dumps([{"name": name, "path": str(path)} for name, path in found], indent=1))
        return
    for name, _ in found:
        out.print(name, highlight=False)
    out.print(f"{len(found)} tasks", style="dim")


@app.command("show")
def show(
    task: Annotated[str, typer.Argument(help="A name of `tasks list`, or a file (docs/tasks.md).")],
    header: Annotated[bool, typer.Option("--header", help="Only the C declaration.")] = False,
    dtype: DtypeOption = "float32",
    json_: JsonOption = False,
) -> None:
    """Show a task's signature, workloads and floor."""
    loaded = load_task(task, dtype)
    if json_:
        print(loaded.model_dump_json(indent=1))
        return
    text = declaration(loaded.signature, loaded.name)
    if header:
        print(text, end="")
        return
    from kernelblaster.tasks.floor import floor_of

    out.print(text, highlight=False, soft_wrap=True, markup=False)
    out.print(_workloads(loaded))
    out.print(_floor_line(floor_of(loaded)), highlight=False)


@app.command("check")
def check(
    where: Annotated[str, typer.Argument(help="A task, a suite, a folder or kernelbench:PATH.")],
    dtype: DtypeOption = "float32",
    json_: JsonOption = False,
) -> None:
    """Say whether tasks are fit to be scored. Exit code 1 if one is not."""
    from kernelblaster.tasks.fitness import fitness_of

    rows: list[tuple[str, Fitness]] = []
    found = find(where)
    console = Terminal(stderr=True)
    for name, path in track(found, "checking", console=console, disable=json_ or len(found) == 1):
        try:
            rows.append((name, fitness_of(load_file(name, path, dtype))))
        except BadTask as error:
            rows.append((name, Fitness(problems=(str(error),))))
    if json_:
        print(json.dumps([{"name": n, "fit": f.fit, **f.model_dump()} for n, f in rows], indent=1))
    else:
        _print_fitness(rows)
    if not all(fitness.fit for _, fitness in rows):
        raise typer.Exit(1)


def _print_fitness(rows: list[tuple[str, Fitness]]) -> None:
    for name, fitness in rows:
        if fitness.fit:
            note = f"  (no response to {', '.join(fitness.insensitive)})" if fitness.insensitive else ""
            out.print(
                f"[green]fit[/green]    {plain(name)}[dim]{plain(note)}[/dim]", markup=True, highlight=False
            )
        else:
            problems = plain("; ".join(fitness.problems))
            out.print(f"[red]unfit[/red]  {plain(name)}: {problems}", markup=True, highlight=False)
    fit = sum(fitness.fit for _, fitness in rows)
    out.print(f"{fit} of {len(rows)} fit", style="dim")


def _workloads(task: Task) -> Table:
    table = Table("workload", *task.primary.sizes, "MB", box=None, header_style="bold", pad_edge=False)
    for workload in task.workloads:
        megabytes = f"{workload.total_bytes(task.signature) / 1e6:.3g}"
        table.add_row(workload.name, *(str(v) for v in workload.sizes.values()), megabytes)
    return table


def _floor_line(floor: Floor) -> str:
    line = f"floor at the primary workload: {floor.bytes / 1e6:.4g} MB"
    return line + (f", {floor.operations / 1e9:.4g} GFLOP" if floor.operations else "")
