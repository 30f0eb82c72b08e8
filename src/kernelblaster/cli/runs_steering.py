"""`kernelblaster runs stop|steer`: stops or changes a search that runs in another process."""

import json
import time
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

import kernelblaster
from kernelblaster.cli.options import JsonOption, RunArgument, RunsOption, again_at, runs_folder
from kernelblaster.cli.show import out
from kernelblaster.cli.terminal import Terminal
from kernelblaster.records.recipe import techniques_of
from kernelblaster.store.history import History
from kernelblaster.store.run import Run, open_run
from kernelblaster.store.steering import SteeringCommand, describe_action
from kernelblaster.store.writer import writer_of

Techniques = list[str] | None
BY = "cli"
POLICIES = Path(kernelblaster.__file__).parent / "policies"


def stop(
    run: RunArgument,
    now: Annotated[
        bool, typer.Option("--now", help="Interrupt its process, without waiting for the present candidate.")
    ] = False,
    runs: RunsOption = None,
    json_: JsonOption = False,
) -> None:
    """Stop a search that runs in another process; what was judged is kept, and `resume` continues it."""
    from kernelblaster.api.steering import stop as stop_run

    command = stop_run(run, now=now, runs=runs, by=BY)
    if json_:
        print(json.dumps({"stopped": now, "command": command and command.model_dump(mode="json")}, indent=1))
        return
    out.print("stopped." if now else "asked to stop; it does before its next candidate.", highlight=False)


def steer(
    run: RunArgument,
    budget: Annotated[int | None, typer.Option(help="Candidates to judge in all.", min=1)] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after this time in all.", min=1)] = None,
    gpu_seconds: Annotated[
        float | None, typer.Option(help="Stop after this time on the device in all.", min=1)
    ] = None,
    pin: Annotated[Techniques, typer.Option(help="A technique to try first; may be given again.")] = None,
    forbid: Annotated[Techniques, typer.Option(help="One not to try; may be given again.")] = None,
    release: Annotated[Techniques, typer.Option(help="One to treat as any other again.")] = None,
    note: Annotated[
        str | None, typer.Option(help="A text for the next questions to a language model, if one takes part.")
    ] = None,
    standing: Annotated[bool, typer.Option(help="Keep the note in all further questions.")] = False,
    runs: RunsOption = None,
    json_: JsonOption = False,
) -> None:
    """Ask a search for something while it runs; it obeys before its next step. Without options, show what was
    asked of it so far."""
    from kernelblaster.api.steering import steer as steer_run
    from kernelblaster.api.steering import steering_of

    steer_run(
        run,
        budget=budget,
        seconds=seconds,
        gpu_seconds=gpu_seconds,
        pin=pin or (),
        forbid=forbid or (),
        release=release or (),
        note=note,
        standing=standing,
        runs=runs,
        by=BY,
    )
    asked = steering_of(run, runs=runs)
    if not json_:
        with open_run(runs_folder(runs), run) as opened:
            waits = any(not taken for _, taken in asked)
            for line in _cautions(opened, [*(pin or ()), *(forbid or ())], waits):
                Terminal(stderr=True).print(f"note: {line}", style="yellow", highlight=False, soft_wrap=True)
    if json_:
        print(json.dumps([one.model_dump(mode="json") | {"taken": taken} for one, taken in asked], indent=1))
        return
    for one, taken in asked:
        out.print(_line(one, taken), highlight=False, soft_wrap=True)


def _cautions(run: Run, techniques: list[str], waits: bool) -> Iterator[str]:
    """Yields sentences that warn a person of requests without effect: techniques that neither the run nor the
    shipped knowledge knows, and requests that wait (`waits`) although the run has ended."""
    from kernelblaster.knowledge.seed import shipped_techniques

    offered = [event.data for event in run.events if event.kind in ("proposals", "choice")]
    known = {item["technique"] for data in offered for item in (data.get("options") or ())}
    known |= {name for data in offered for name in map(str, data.get("techniques") or ())}
    known |= shipped_techniques() | {file.stem for file in POLICIES.glob("*/techniques/*.py")}
    for name in dict.fromkeys(part for technique in techniques for part in techniques_of(technique)):
        if name not in known:
            near = get_close_matches(name, sorted(known), n=2)
            advice = f"; did you mean {' or '.join(near)}?" if near else "."
            yield f"no technique is known here as {name}{advice}"
    if waits and History(run).state(writer_of(run.folder)) == "finished":
        more = f"kernelblaster resume {run.name}{again_at(run.folder.parent)} --budget N"
        yield f"the run has ended, and obeys once it goes on: {more}"


def _line(command: SteeringCommand, taken: bool) -> str:
    """A steering command as one line: its time, whether the search has obeyed it, what it asks, and who
    asked."""
    when = time.strftime("%H:%M:%S", time.localtime(command.at))
    return f"{when}  {'taken  ' if taken else 'waiting'}  {describe_action(command.action)} ({command.by})"
