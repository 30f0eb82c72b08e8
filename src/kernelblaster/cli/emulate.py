"""`kernelblaster emulate TASK CANDIDATE.cu`, or `emulate CANDIDATE.cu --task TASK`: checks a candidate on the
emulator, without a GPU."""

import json
from pathlib import Path
from typing import Annotated

import typer

from kernelblaster.cli.confined import confine_command
from kernelblaster.cli.groups import grouped
from kernelblaster.cli.options import JsonOption, TaskOptions, check_named, show_status
from kernelblaster.cli.show import exit_code, out, print_counters, print_outcome
from kernelblaster.cli.terminal import plain
from kernelblaster.records import Verification


@grouped
def emulate(
    names: Annotated[
        list[str],
        typer.Argument(metavar="[TASK] CANDIDATE.cu", help="See docs/tasks.md and docs/candidates.md."),
    ],
    of: TaskOptions,
    task: Annotated[str | None, typer.Option("--task", help="The task, if it does not come first.")] = None,
    gpu: Annotated[str, typer.Option("--gpu", help="The GPU to stand for.")] = "h200",
    json_: JsonOption = False,
) -> None:
    """Check a candidate without a GPU: is it right at a small size, is every access in bounds?

    The emulator checks every access: bounds, alignment, use after free, uninitialized scratch memory. Exit
    code 0 if nothing is wrong; otherwise the codes are those of `evaluate`. `evaluate --device emulated` also
    gives a modelled time.
    """
    *first, candidate = names
    named = [*first, *([task] if task else [])]
    if len(named) != 1:
        raise typer.BadParameter("name one task and one candidate: emulate TASK CANDIDATE.cu")
    check_named(gpu, [Path(candidate)])
    confine_command(named, device="emulated", reads=[Path(candidate)])
    from kernelblaster.api import load_candidate, open_judge

    loaded = of.load(named[0])
    source = load_candidate(Path(candidate), loaded)
    with show_status(json_) as progress, open_judge("emulated", gpu, progress=progress) as judge:
        checked = judge.check(loaded, source)
        device = judge.device.name
    outcome, counted = checked.outcome, checked.counters
    if json_:
        parts = {"outcome": outcome, "counters": counted}
        print(json.dumps({k: v.model_dump(mode="json") if v else None for k, v in parts.items()}, indent=1))
    elif isinstance(outcome, Verification):
        out.print(f"[green bold]Right[/]  {plain(loaded.name)} on {device}", markup=True, highlight=False)
        out.print(f"  verified   {len(outcome.cases)} comparisons in {outcome.calls} calls", highlight=False)
    else:
        print_outcome(outcome, f"{loaded.name} on {device}")
    if counted and not json_:
        print_counters(counted, clean=isinstance(outcome, Verification))
    raise typer.Exit(0 if isinstance(outcome, Verification) else exit_code(outcome))
