"""`kernelblaster verify RUN`: judges the best candidate of a run again, from scratch."""

from pathlib import Path
from typing import Annotated

import typer

from kernelblaster import keeper
from kernelblaster.cli.confined import confine_command, confine_to_run, write_output
from kernelblaster.cli.options import (
    DeviceName,
    GpuOption,
    JsonOption,
    RunsOption,
    SanitizeOption,
    runs_folder,
    show_status,
)
from kernelblaster.cli.show import out, print_evaluation
from kernelblaster.errors import KernelBlasterError
from kernelblaster.quantities import speedup_text
from kernelblaster.records import Evaluation
from kernelblaster.records.outcome import CORRECT, Outcome
from kernelblaster.store.run import open_run


def verify(
    run: Annotated[
        str | None,
        typer.Argument(help="A run: its name, the beginning of it, its folder, or `last`; see `runs list`."),
    ] = None,
    device: Annotated[
        DeviceName | None,
        typer.Option("--device", help="Where to judge it; the run's own device if left out."),
    ] = None,
    gpu: GpuOption = None,
    sanitize: SanitizeOption = False,
    proof: Annotated[
        Path | None, typer.Option("--proof", help="Write what was checked, with the seeds, into this file.")
    ] = None,
    repeat: Annotated[
        Path | None, typer.Option("--repeat", help="A proof: judge its candidate again on the same draws.")
    ] = None,
    runs: RunsOption = None,
    json_: JsonOption = False,
) -> None:
    """Judge the best candidate of a run again from scratch, and say whether the verdict holds.

    The candidate is compiled again, verified on other values, and timed again. With --proof, all that others
    need to repeat this is written into a file; `verify --repeat FILE` repeats it, on any machine. Exit code 0
    if the candidate is correct and, on the same device, as fast as it was; 1 otherwise.
    """
    if (run is None) == (repeat is None):
        raise KernelBlasterError("name a run, or a proof with --repeat.")
    if repeat is not None:
        _repeat(repeat, device or "auto", gpu, sanitize, json_)
    assert run is not None
    if proof is not None:
        keeper.claim("file", str(proof.absolute()))
    with open_run(runs_folder(runs), run) as opened:
        confine_to_run(opened, device=device or ("auto" if gpu else None))
        from kernelblaster.api import open_judge
        from kernelblaster.proof import prove
        from kernelblaster.store.history import History
        from kernelblaster.store.subject import task_of
        from kernelblaster.verify import verify as judge_again

        about = opened.events[0].data
        kind = device or ("auto" if gpu else about.get("device", "auto"))
        where = gpu if device or gpu else about.get("gpu")
        options = {"sanitize": sanitize, "keep_samples": proof is not None}
        with (
            show_status(json_) as progress,
            open_judge(kind, where, progress=progress, **options) as judge,
        ):
            if proof is not None:
                document = prove(task_of(opened), History(opened).best_candidate()[0], judge)
                write_output(proof, document.model_dump_json(indent=1) + "\n")
            verified = judge_again(opened, judge)
    if json_:
        print(verified.model_dump_json(indent=1))
        raise typer.Exit(0 if verified.holds else 1)
    _show(verified.now, verified.then, verified.correct, verified.speedup_holds, verified.holds)
    if proof is not None:
        out.print(f"  proof      {proof}", highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(0 if verified.holds else 1)


def _repeat(path: Path, device: DeviceName, gpu: str | None, sanitize: bool, json_: bool) -> None:
    """Judges the candidate of the proof in the file `path` again with the seeds recorded there, prints the
    comparison (with `json_` as JSON), and exits with 0 if the verdict holds, else 1. `device` and `gpu` say
    where; `sanitize` adds a run of compute-sanitizer."""
    confine_command(device=device, reads=[path], stranger=str(path.absolute()))
    from kernelblaster.api import open_judge
    from kernelblaster.proof import read_proof
    from kernelblaster.proof import repeat as judge_proof

    document = read_proof(path)
    with (
        show_status(json_) as progress,
        open_judge(device, gpu, progress=progress, sanitize=sanitize) as judge,
    ):
        repeated = judge_proof(document, judge)
    if json_:
        print(repeated.model_dump_json(indent=1))
        raise typer.Exit(0 if repeated.holds else 1)
    _show(repeated.now, repeated.then, repeated.correct, repeated.speedup_holds, repeated.holds)
    for difference in repeated.differences[:10]:
        out.print(f"  otherwise  {difference}", highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(0 if repeated.holds else 1)


def _show(now: Evaluation, then: Evaluation, correct: bool, speedup: bool | None, holds: bool) -> None:
    """Print the new evaluation (`now`) and the earlier outcome (`then`). `correct`: whether the candidate
    still is; `speedup`: whether the speedup agrees, None if it was not compared (another device); `holds`:
    whether the whole verdict stands."""
    print_evaluation(now.model_copy(update={"profile": None, "counters": None}))
    out.print(f"  then       {_outcome_text(then.outcome)} on {then.device}", highlight=False)
    if speedup is None and correct:
        verdict = "correct; on another device, so the speedups are not compared"
    elif holds:
        verdict = "holds"
    elif not correct:
        verdict = "does not hold: it is not correct"
    else:
        verdict = "does not hold: " + ("the speedup is another" if speedup is False else "errors differ")
    out.print(f"  verdict    {verdict}", highlight=False)


def _outcome_text(outcome: Outcome) -> str:
    """An outcome for people: its kind, and the speedup if the candidate was correct."""
    if not isinstance(outcome, CORRECT):
        return outcome.kind
    speedup = outcome.speedup
    return f"{outcome.kind}, {speedup_text(speedup.estimate, speedup.confidence is None, 3)}"
