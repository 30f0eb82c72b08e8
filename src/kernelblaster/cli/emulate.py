"""`kernelblaster emulate TASK CANDIDATE.cu`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from kernelblaster.cli.options import DtypeOption, JsonOption, read_candidate, working
from kernelblaster.cli.show import exit_code, print_outcome
from kernelblaster.records import Verification
from kernelblaster.tasks.catalog import load_task

out = Console()


def emulate(
    task: Annotated[str, typer.Argument(help="A task, see docs/tasks.md.")],
    candidate: Annotated[Path, typer.Argument(help="A .cu file, see docs/candidates.md.")],
    gpu: Annotated[str, typer.Option("--gpu", help="The GPU to stand for.")] = "h200",
    dtype: DtypeOption = "float32",
    json_: JsonOption = False,
) -> None:
    """Run a candidate without a GPU: is it right at a small size, what does a checker find, what does it do.

    Every access is checked (bounds, alignment, use after free, uninitialized scratch memory). Exit code 0 if
    nothing is wrong; otherwise as `evaluate`. It does not tell time.
    """
    source = read_candidate(candidate)
    loaded = load_task(task, dtype)
    with working(json_) as progress:
        from kernelblaster.judge.emulate import emulate as run

        progress("emulating")
        found = run(loaded, source, gpu)
    right = isinstance(found.outcome, Verification)
    if json_:
        document = {"outcome": found.outcome.model_dump(mode="json"), "launches": found.launches}
        print(json.dumps(document, indent=1))
    elif isinstance(found.outcome, Verification):
        out.print(f"[green bold]Right[/]  {loaded.name} on the PTX machine", highlight=False)
        checked = found.outcome
        out.print(
            f"  {len(checked.cases)} comparisons in {checked.calls} calls, no findings", highlight=False
        )
        _print_counts(found.launches)
    else:
        print_outcome(found.outcome, f"{loaded.name} on the PTX machine")
    raise typer.Exit(0 if right else exit_code(found.outcome))  # type: ignore[arg-type]


def _print_counts(launches: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("launch", "warp instructions", "lanes active", "load sectors/request", "bank conflicts"):
        table.add_column(title)
    for number, launch in enumerate(launches, 1):
        c = launch["counts"]
        warps = c["total_warp_instructions"]
        active = c["thread_instructions"] / max(warps, 1)
        sectors = c["global_load_sectors"] / max(c["global_load_requests"], 1)
        conflicts = c["shared_load_wavefronts"] - c["shared_load_requests"]
        table.add_row(
            str(number), str(warps), f"{active:.1f} of 32", f"{sectors:.1f}", str(max(conflicts, 0))
        )
    out.print(table)
