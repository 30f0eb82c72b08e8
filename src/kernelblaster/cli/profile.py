"""`kernelblaster profile TASK CANDIDATE.cu ...`: shows metrics of each kernel of one or more candidates."""

import json
from pathlib import Path
from typing import Annotated

import typer

from kernelblaster.cli.confined import confine_command
from kernelblaster.cli.groups import grouped
from kernelblaster.cli.options import DeviceOptions, JsonOption, TaskOptions, check_named, show_status
from kernelblaster.cli.show import exit_code, print_outcome, print_profile
from kernelblaster.records import Profile


@grouped
def profile(
    task: Annotated[str, typer.Argument(help="A name of `tasks list`, or a file (docs/tasks.md).")],
    candidates: Annotated[list[Path], typer.Argument(help="One or more .cu files.")],
    where: DeviceOptions,
    of: TaskOptions,
    json_: JsonOption = False,
) -> None:
    """Profile candidates: every kernel in launch order, metrics and advice.

    Candidates are verified first. For one that fails, the outcome is printed instead of a profile.
    """
    check_named(where.gpu, candidates)
    confine_command([task], device=where.device, reads=candidates)
    from kernelblaster.api import load_candidate, open_judge

    loaded = of.load(task)
    sources = [load_candidate(path, loaded) for path in candidates]
    with show_status(json_) as progress:
        progress("opening the device")
        with open_judge(where.device, where.gpu, progress=progress) as judge:
            results = judge.profile(loaded, sources)
    failed = [r for r in results if not isinstance(r, Profile)]
    if json_:
        print(json.dumps([r.model_dump(mode="json") for r in results], indent=1))
    else:
        for path, result in zip(candidates, results, strict=True):
            if isinstance(result, Profile):
                print_profile(result)
            else:
                print_outcome(result, str(path))
    if failed:
        raise typer.Exit(exit_code(failed[0]))
