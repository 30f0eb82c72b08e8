"""`kernelblaster evaluate TASK CANDIDATE.cu`: tells whether a candidate is correct, and how fast it is."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from kernelblaster.cli.confined import confine_command
from kernelblaster.cli.groups import grouped
from kernelblaster.cli.options import (
    CheckOptions,
    DeviceOptions,
    JsonOption,
    TaskOptions,
    check_named,
    show_status,
)
from kernelblaster.cli.show import exit_code, print_evaluation, print_sweep
from kernelblaster.records import Evaluation


@grouped
def evaluate(
    task: Annotated[str, typer.Argument(help="A name of `tasks list`, or a file (docs/tasks.md).")],
    candidate: Annotated[Path, typer.Argument(help="A .cu file, see docs/candidates.md.")],
    where: DeviceOptions,
    of: TaskOptions,
    checks: CheckOptions,
    baseline: Annotated[
        Literal["eager", "compile", "max-autotune", "iree"],
        typer.Option("--baseline", help="What to beat: PyTorch as it is, torch.compile, or IREE."),
    ] = "eager",
    profile: Annotated[bool, typer.Option("--profile", help="Profile it as well.")] = False,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Try every combination of its tunable constants.")
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Judge a candidate: correct or not, faster or not, by how much.

    Without a GPU, and with `--device emulated`, the candidate is executed by an emulator at a small size, and
    its time comes from a model of the GPU.

    Exit codes: 0 accepted, 1 correct but not faster, 3 incorrect, 4 does not compile, 5 failed or timed out,
    6 rejected, 2 the evaluation could not be done.
    """
    check_named(where.gpu, [candidate])
    confine_command([task], device=where.device, reads=[candidate])
    from kernelblaster.api import load_candidate, open_judge

    loaded = of.load(task)
    source = load_candidate(candidate, loaded)
    with show_status(json_) as progress:
        progress("opening the device")
        options = {
            "baseline": baseline,
            "profile": profile,
            "sanitize": checks.sanitize,
            "filter": checks.filter,
            "progress": progress,
        }
        with open_judge(where.device, where.gpu, **options) as judge:
            tried: list[Evaluation] = []
            if sweep:
                evaluation, tried = judge.sweep(loaded, source)
            else:
                evaluation = judge.evaluate(loaded, source)
    if json_:
        print(evaluation.model_dump_json(indent=1))
    else:
        print_sweep(tried)
        print_evaluation(evaluation)
    raise typer.Exit(exit_code(evaluation.outcome))
