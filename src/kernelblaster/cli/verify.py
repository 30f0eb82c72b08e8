"""`kernelblaster verify RUN`."""

from typing import Annotated

import typer

from kernelblaster.cli.options import JsonOption, JudgeOptions, RunsOption, runs_folder, working
from kernelblaster.cli.show import out, print_evaluation
from kernelblaster.records.outcome import CORRECT, Outcome
from kernelblaster.store.run import open_run


def verify(
    run: Annotated[str, typer.Argument(help="A run, or the beginning of its name: see `runs list`.")],
    device: Annotated[
        JudgeOptions.DeviceName | None,
        typer.Option("--device", help="Where to judge it; the run's own device if left out."),
    ] = None,
    gpu: JudgeOptions.Gpu = None,
    runs: RunsOption = None,
    json_: JsonOption = False,
) -> None:
    """Judge the best candidate of a run again from scratch, and say whether the verdict holds.

    Compiled anew, on other values, timed anew. Exit code 0 if it is correct and, on the same device, as
    fast as it was; 1 otherwise.
    """
    from kernelblaster.api import open_judge
    from kernelblaster.verify import verify as judge_again

    with open_run(runs_folder(runs), run) as opened, working(json_) as progress:
        about = opened.events[0].data
        kind = device or ("auto" if gpu else about.get("device", "auto"))
        where = gpu if device or gpu else about.get("gpu")
        with open_judge(kind, where, progress=progress) as judge:
            found = judge_again(opened, judge)
    if json_:
        print(found.model_dump_json(indent=1))
        raise typer.Exit(0 if found.holds else 1)
    print_evaluation(found.now.model_copy(update={"profile": None, "counters": None}))
    out.print(f"  then       {_told(found.then.outcome)} on {found.then.device}", highlight=False)
    if found.speedup_holds is None and found.correct:
        verdict = "correct; on another device, so the speedups are not compared"
    elif found.holds:
        verdict = "holds"
    else:
        verdict = "does not hold: " + ("the speedup is another" if found.correct else "it is not correct")
    out.print(f"  verdict    {verdict}", highlight=False)
    raise typer.Exit(0 if found.holds else 1)


def _told(outcome: Outcome) -> str:
    if not isinstance(outcome, CORRECT):
        return outcome.kind
    return f"{outcome.kind}, {outcome.speedup.estimate:.3f}x"
