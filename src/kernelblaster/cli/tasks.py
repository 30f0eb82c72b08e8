"""`kernelblaster tasks list|show|check`: lists, shows and checks the tasks that can be optimized."""

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from kernelblaster.cli.confined import confine_command
from kernelblaster.cli.groups import grouped
from kernelblaster.cli.options import JsonOption, TaskOptions
from kernelblaster.cli.terminal import Terminal, plain
from kernelblaster.errors import BadTask
from kernelblaster.records import Fitness, Floor, Task
from kernelblaster.tasks.catalog import find, load_file, names_one
from kernelblaster.tasks.cautions import cautions
from kernelblaster.tasks.floor_words import BYTES_ALONE
from kernelblaster.tasks.header import declaration

if TYPE_CHECKING:
    from kernelblaster.readiness import Readiness

app = typer.Typer(help="List, show and check tasks.", no_args_is_help=True, rich_markup_mode=None)
out = Terminal()


@app.command("list")
def list_tasks(
    where: Annotated[str, typer.Argument(help="A suite, a folder or kernelbench:PATH.")] = "core",
    json_: JsonOption = False,
) -> None:
    """List the names of all tasks of a suite, a folder or a KernelBench checkout."""
    tasks = find(where)
    if json_:
        print(json.dumps([{"name": name, "path": str(path)} for name, path in tasks], indent=1))
        return
    for name, _ in tasks:
        out.print(name, highlight=False, soft_wrap=True)
    out.print(f"{len(tasks)} tasks", style="dim")


@app.command("show")
@grouped
def show(
    task: Annotated[str, typer.Argument(help="A name of `tasks list`, or a file (docs/tasks.md).")],
    of: TaskOptions,
    header: Annotated[bool, typer.Option("--header", help="Only the C declaration.")] = False,
    json_: JsonOption = False,
) -> None:
    """Show a task's signature, its workloads, and its floor: the least bytes and operations that any
    implementation needs."""
    confine_command([task], device="emulated")
    loaded = of.load(task)
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
    for line in _decided(loaded):
        out.print(line, highlight=False, markup=False, soft_wrap=True)


@app.command("check")
@grouped
def check(
    where: Annotated[str, typer.Argument(help="A task, a suite, a folder or kernelbench:PATH.")],
    of: TaskOptions,
    json_: JsonOption = False,
) -> None:
    """Say whether tasks are fit to be scored. For a single task, also show its types and sizes, and which
    commands will work on it. Exit code 1 if a task is not fit."""
    confine_command([where], device="emulated")
    from rich.progress import track

    from kernelblaster.tasks.fitness import fitness_of

    rows: list[tuple[str, Fitness]] = []
    one = names_one(where)
    if one:
        try:
            _check_one(of.load(where), json_)
            return
        except BadTask as error:
            rows.append((where, _refused(where, error)))
    tasks = [] if one else find(where)
    console = Terminal(stderr=True)
    for name, path in track(tasks, "checking", console=console, disable=json_ or len(tasks) < 2):
        try:
            rows.append((name, fitness_of(load_file(name, path, of.dtype))))
        except BadTask as error:
            rows.append((name, _refused(name, error)))
    if json_:
        print(json.dumps([{"name": n, "fit": f.fit, **f.model_dump()} for n, f in rows], indent=1))
    else:
        _print_fitness(rows)
    if not all(fitness.fit for _, fitness in rows):
        raise typer.Exit(1)


def _refused(name: str, error: BadTask) -> Fitness:
    """The fitness of a task that could not be loaded: the error, without the name that stands before it."""
    return Fitness(problems=(str(error).removeprefix(f"{name}: ").removeprefix(f"<{name}>: "),))


def _check_one(task: Task, json_: bool) -> None:
    """Print the report on one task: whether it can be scored, its types and sizes, and which commands will
    work on it. Exits with code 1 if it cannot be scored."""
    from kernelblaster.readiness import readiness_of
    from kernelblaster.tasks.fitness import fitness_of

    fitness = fitness_of(task)
    verbs = readiness_of(task, fitness)
    if json_:
        known = {"dtype": task.dtype, "cast": task.cast, "notes": task.notes, "sizes": task.primary.sizes}
        report = {"name": task.name, "fit": fitness.fit, **fitness.model_dump(), **known}
        print(
            json.dumps([{**report, "verbs": [{**v.model_dump(), "works": v.works} for v in verbs]}], indent=1)
        )
    else:
        _print_fitness([(task.name, fitness)])
        for line in [*_decided(task), *_sizes(task)]:
            out.print(line, highlight=False, markup=False, soft_wrap=True)
        _print_verbs(verbs)
    if not fitness.fit:
        raise typer.Exit(1)


def _decided(task: Task) -> list[str]:
    """Lines for the user on the task's data types, and on what was inferred because its file does not say
    it."""
    types = sorted({tensor.dtype for tensor in task.signature.tensors if tensor.dtype != task.dtype})
    how = f"cast to {task.cast}" if task.cast else "as the file says"
    also = f", with {', '.join(types)}" if types else ""
    return [f"type   {task.dtype}{also}, {how}", *(f"note   {note}" for note in task.notes)]


def _sizes(task: Task) -> list[str]:
    """A line for each size parameter: its value in the timed workload, in the held-out ones, and on the
    emulator."""
    lines = []
    for size in task.signature.sizes:
        others = [w.sizes[size.name] for w in task.held_out]
        varied = f"varied: {', '.join(map(str, others))}" if len({*others}) > 1 else size.kind
        small = f"; emulated at {task.small.sizes[size.name]}" if task.small else ""
        lines.append(f"size   {size.name} = {task.primary.sizes[size.name]} ({varied}{small})")
    return lines


def _print_verbs(verbs: "tuple[Readiness, ...]") -> None:
    """Print which commands will work on a task, and why others will not: each reason once, with all commands
    that it concerns."""
    alike: dict[str | None, list[str]] = {}
    for verb in verbs:
        alike.setdefault(verb.why, []).append(verb.verb)
    for name in alike.pop(None, ()):
        out.print(f"[green]yes[/green]    {plain(name)}", markup=True, highlight=False, soft_wrap=True)
    for why, names in alike.items():
        mark, which = "[red]no[/red] ", plain(", ".join(names))
        out.print(f"{mark}    {which}: {plain(why)}", markup=True, highlight=False, soft_wrap=True)


def _print_fitness(rows: list[tuple[str, Fitness]]) -> None:
    """Print for each (task name, fitness) whether the task can be scored, and the count if there are
    several."""
    one = len(rows) == 1
    for name, fitness in rows:
        if fitness.fit:
            said = cautions(fitness)
            note = "" if one or not said else f"  ({'; '.join(said)})"
            line = f"[green]fit[/green]    {plain(name)}[dim]{plain(note)}[/dim]"
        else:
            line = f"[red]unfit[/red]  {plain(name)}: {plain('; '.join(fitness.problems))}"
        out.print(line, markup=True, highlight=False, soft_wrap=True)
        for caution in cautions(fitness) if one else ():
            out.print(f"note   {caution}", highlight=False, markup=False, soft_wrap=True)
    fit = sum(fitness.fit for _, fitness in rows)
    if len(rows) > 1:
        out.print(f"{fit} of {len(rows)} fit", style="dim")


def _workloads(task: Task) -> Table:
    """A table with a row for each of the task's workloads: its sizes, and how many megabytes its tensors
    take."""
    table = Table("workload", *task.primary.sizes, "MB", box=None, header_style="bold", pad_edge=False)
    for workload in task.workloads:
        megabytes = f"{workload.total_bytes(task.signature) / 1e6:.3g}"
        table.add_row(workload.name, *(str(v) for v in workload.sizes.values()), megabytes)
    return table


def _floor_line(floor: Floor) -> str:
    line = f"floor at the primary workload: {floor.bytes / 1e6:.4g} MB"
    return line + (f", {floor.operations / 1e9:.4g} GFLOP" if floor.operations else f" ({BYTES_ALONE})")
