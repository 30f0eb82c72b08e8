"""`kernelblaster runs list|show`."""

import json
import time
from typing import Annotated

import typer
from rich.table import Table

from kernelblaster.cli.optimize import RunsOption
from kernelblaster.cli.options import JsonOption
from kernelblaster.cli.show import out
from kernelblaster.settings import settings
from kernelblaster.store.run import open_run, run_folders

app = typer.Typer(help="Runs of `optimize`: what they did.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_(runs: RunsOption = None, json_: JsonOption = False) -> None:
    """Every run, the oldest first."""
    root = runs or settings().data / "runs"
    rows = []
    for folder in run_folders(root):
        with open_run(root, folder.name) as run:
            first = run.events[0]
            judged = sum(e.kind == "evaluation" for e in run.events)
            ended = any(e.kind == "finished" for e in run.events)
            rows.append(
                (run.name, first.data.get("task", "?"), judged, "finished" if ended else "unfinished")
            )
    if json_:
        names = ("run", "task", "evaluations", "state")
        print(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=1))
        return
    table = Table("run", "task", "evaluations", "", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(str, row))
    out.print(table if rows else f"no runs in {root}", highlight=False)


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="A run, or the beginning of its name.")],
    runs: RunsOption = None,
    json_: JsonOption = False,
) -> None:
    """What a run recorded, event by event."""
    with open_run(runs or settings().data / "runs", run) as opened:
        events = opened.events
    if json_:
        print(json.dumps([event.model_dump(mode="json") for event in events], indent=1))
        return
    for event in events:
        when = time.strftime("%H:%M:%S", time.localtime(event.at))
        out.print(f"{when}  {event.kind:11} {event.key:18} {_told(event.kind, event.data)}", highlight=False)


def _told(kind: str, data: dict[str, object]) -> str:
    match kind, data:
        case "evaluation", {"evaluation": {"outcome": {"kind": outcome}, "timing": {"candidate_us": us}}}:
            return f"{outcome}, {us:.1f} us"
        case "evaluation", {"evaluation": {"outcome": {"kind": outcome}}}:
            return str(outcome)
        case "choice", {"state": state, "options": options}:
            assert isinstance(options, list)
            return f"{state}: {', '.join(o['technique'] for o in options) or 'nothing applies'}"
        case "created", {"task": task}:
            return str(task)
        case "theta", {"version": version}:
            return f"knowledge base at version {version}"
    return ""
