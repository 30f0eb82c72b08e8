"""`kernelblaster runs list|fetch|show|diff`: shows what runs recorded. The commands `stop` and `steer` are in
runs_steering.py."""

import json
import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table

from kernelblaster.cli import runs_steering
from kernelblaster.cli.options import JsonOption, RunArgument, RunsOption, runs_folder
from kernelblaster.cli.show import out
from kernelblaster.cli.terminal import break_name, wrap_hanging
from kernelblaster.errors import StoreError
from kernelblaster.quantities import speedup_text, time_text
from kernelblaster.records import Step
from kernelblaster.store.comparison import compare
from kernelblaster.store.events import RunEvent
from kernelblaster.store.history import History, why_of
from kernelblaster.store.run import open_run, run_folders
from kernelblaster.store.steering import STEERED, SteeringCommand, describe_action
from kernelblaster.store.writer import writer_of

BESIDE_TASK = 60  # columns of a list of runs that are not the task's
app = typer.Typer(
    help="Runs of `optimize`: what they did, and what they shall do next.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("stop")(runs_steering.stop)
app.command("steer")(runs_steering.steer)


@app.command("list")
def list_(runs: RunsOption = None, json_: JsonOption = False) -> None:
    """List all runs, the oldest first."""
    root = runs_folder(runs)
    rows = [_row(root, folder.name) for folder in run_folders(root)]
    if json_:
        print(json.dumps(rows, indent=1))
        return
    if not rows:
        out.print(f"no runs in {root}", highlight=False, soft_wrap=True)
        return
    table = Table(box=None, pad_edge=False)
    for title in ("run", "task", "judged", "speedup", ""):
        table.add_column(title, no_wrap=title != "task", overflow="fold")
    for row in rows:
        speedup = speedup_text(row["speedup"], row["modelled"])
        task = break_name(out, row["task"], out.width - BESIDE_TASK)
        table.add_row(row["run"], task, str(row["evaluations"]), speedup, row["state"])
    out.show(table)


@app.command()
def fetch(
    run: Annotated[str, typer.Argument(help="A run or bench of the store: its name or id.")],
    store: Annotated[str, typer.Option("--store", help="The store that has it: postgresql://...")],
    runs: RunsOption = None,
    json_: JsonOption = False,
) -> None:
    """Make a run or bench of a shared store known on this machine, so that it can be shown, reported and
    continued here.

    A bench is continued by `kernelblaster bench --folder FOLDER`.
    """
    from kernelblaster.store.shared_runs import fetch_run

    folder = fetch_run(store, run, runs_folder(runs))
    print(json.dumps({"folder": str(folder)}) if json_ else folder)


@app.command()
def show(run: RunArgument, runs: RunsOption = None, json_: JsonOption = False) -> None:
    """Show what a run recorded, one line for each event."""
    with open_run(runs_folder(runs), run) as opened:
        events = opened.events
    if json_:
        print(json.dumps([event.model_dump(mode="json") for event in events], indent=1))
        return
    techniques = _techniques(events)
    for event in events:
        when = time.strftime("%H:%M:%S", time.localtime(event.at))
        lead = f"{when}  {event.kind:11} {event.key:18} "
        line = lead + wrap_hanging(
            out, _event_text(event.kind, event.data, techniques.get(event.key, "")), len(lead)
        )
        out.print(line, highlight=False, soft_wrap=True)


@app.command()
def diff(a: RunArgument, b: RunArgument, runs: RunsOption = None, json_: JsonOption = False) -> None:
    """Compare two runs side by side: settings, best candidates, steps, what was learned, and the sources of
    the best candidates."""
    root = runs_folder(runs)
    with open_run(root, a) as one, open_run(root, b) as other:
        compared = compare(History(one), History(other))
    if json_:
        print(json.dumps(compared, indent=1))
        return
    _print_pairs("settings", compared["settings"])
    _print_pairs(
        "best", {name: [best.get(name) for best in compared["best"]] for name in compared["best"][0]}
    )
    _print_steps(compared["trajectory"], [best["modelled"] for best in compared["best"]])
    _print_learned(compared["learned"])
    difference = compared["source"] or "the two sources are the same"
    out.print(difference, markup=False, highlight=False, soft_wrap=True)


def _row(root: Any, name: str) -> dict[str, Any]:
    """The row of the run `name` in the folder `root`, for the list of runs, as JSON data; one that cannot be
    read has the state `damaged`."""
    try:
        with open_run(root, name) as run:
            history = History(run)
    except StoreError:
        return {"run": name, "task": "?", "evaluations": 0, "speedup": None, "modelled": False} | {
            "state": "damaged"
        }
    return {
        "run": name,
        "task": history.task,
        "evaluations": len(history.judged),
        "speedup": history.best.speedup if history.best else None,
        "modelled": history.modelled,
        "state": history.state(writer_of(root / name)),
    }


def _table(*titles: str) -> Table:
    """An empty table without borders, with these column titles, that folds long cells."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def _print_pairs(title: str, pairs: dict[str, list[Any]]) -> None:
    """Prints a table of values that differ between two runs, A and B: `pairs` has by name the value in each.
    Nothing if it is empty."""
    table = _table(title, "A", "B")
    for name, values in pairs.items():
        table.add_row(name, *map(_value, values))
    if pairs:
        out.show(table)


def _print_steps(pairs: list[list[dict[str, Any] | None]], modelled: list[bool]) -> None:
    """Print the steps of two runs side by side. A pair has a step of each run, None where one run has fewer;
    `modelled` says of each run whether its times come from the GPU model."""
    table = _table("trajectory", "A", "", "B", "")
    for number, (one, other) in enumerate(pairs, 1):
        table.add_row(str(number), *_step(one, modelled[0]), *_step(other, modelled[1]))
    if pairs:
        out.show(table)


def _print_learned(rows: list[dict[str, Any]]) -> None:
    """Prints a table with the speedup that the knowledge base expects of each technique, before and after
    each of two runs; `rows` are as `store.comparison.compare` gives them."""
    table = _table("learned", "in", "A", "B")
    for row in rows:
        sides = (_change(row["technique"], pair) for pair in row["expected"])
        table.add_row(row["technique"], row["state"], *sides)
    if rows:
        out.show(table)


def _step(step: dict[str, Any] | None, modelled: bool) -> tuple[str, str]:
    """A step for the comparison of two runs, as (technique, result in words); both empty for None, where one
    run has fewer steps."""
    if step is None:
        return "", ""
    measured = step["result"] if step["speedup"] is None else speedup_text(step["speedup"], modelled)
    return step["technique"], measured + (" taken" if step["taken"] else "")


def _change(technique: str, pair: list[float | None] | None) -> str:
    """A technique's expected speedup before and after a run, as text, for a recipe its speed beside the
    floor's; "not tried" if `pair` is None."""
    if pair is None:
        return "not tried"
    from kernelblaster.knowledge.recipes import format_prediction  # it imports the database

    before, after = ("unknown" if value is None else format_prediction(technique, value) for value in pair)
    return f"{before} -> {after}"


def _value(value: Any) -> str:
    """A setting or result of a run as text: the elements of a list with commas between, numbers with four
    digits."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "nothing"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _techniques(events: Sequence[RunEvent]) -> dict[str, str]:
    """Maps the code (a hash) of each candidate that a search made to the name of the technique that made it;
    for the search's first candidate, to a word that says so."""
    first = next((event.key for event in events if event.kind == "evaluation"), "")
    trials = (trial for event in events if event.kind == "batch" for trial in event.data.get("trials", ()))
    return {first: "first candidate"} | {trial["code"]: trial["technique"] for trial in trials}


def _event_text(kind: str, data: dict[str, Any], technique: str = "") -> str:
    """What `runs show` prints of an event of this `kind`, on one line: the most important of its data; may be
    empty. `technique` is the one that made the candidate of an evaluation."""
    match kind:
        case "evaluation":
            text = ": ".join(filter(None, (technique, _verdict_text(data["evaluation"]))))
        case "steps":
            steps = map(Step.model_validate, data["steps"])
            taken = ", ".join(step.technique for step in steps if step.taken)
            text = f"goes on from {taken}" if taken else "goes on from where it was"
        case "proposals":
            text = f"{len(data['techniques'])} techniques on offer"
        case "choice":
            techniques = ", ".join(option["technique"] for option in data["options"])
            text = f"{data['state']}: {techniques or 'nothing applies'}"
        case "theta":
            text = f"knowledge base at version {data['version']}"
        case "results":
            text = f"applied {', '.join(data['applied']) or 'nothing'}"
        case _ if kind == STEERED:
            commands = map(SteeringCommand.model_validate, data["commands"])
            text = "; ".join(f"{describe_action(one.action)} ({one.by})" for one in commands)
        case _:
            text = str(data.get("task") or data.get("name") or data.get("why") or "")
    return text


def _verdict_text(verdict: dict[str, Any]) -> str:
    """The outcome of a recorded verdict, with its time if it was timed, and why if it is a failure."""
    timing = verdict["timing"]
    took = f", {time_text(timing['candidate_us'], timing.get('modelled', False))}" if timing else ""
    reason = why_of(verdict)
    return f"{verdict['outcome']['kind']}{took}" + (f": {reason}" if reason else "")
