"""`kernelblaster export RUN`: the best candidate of a run as a file of its own."""

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from kernelblaster import keeper
from kernelblaster.cli.confined import confine_to_run, write_output
from kernelblaster.cli.options import JsonOption, RunArgument, RunsOption, runs_folder
from kernelblaster.cli.show import out
from kernelblaster.plain_text import printable
from kernelblaster.store.run import open_run


def export(
    run: RunArgument,
    format_: Annotated[
        Literal["cu", "kernelbench", "module"],
        typer.Option("--format", help="A .cu; a KernelBench file; a torch module with guards."),
    ] = "cu",
    output: Annotated[
        Path | None, typer.Option("-o", "--out", "--output", help="The file to write; else it is printed.")
    ] = None,
    runs: RunsOption = None,
    json_: JsonOption = False,
) -> None:
    """Write the best candidate of a run as a file that needs nothing of KernelBlaster."""
    if output is not None:
        keeper.claim("file", str(output.absolute()))
    with open_run(runs_folder(runs), run) as opened:
        confine_to_run(opened, device="emulated")
        from kernelblaster.export.run import export_run

        text = export_run(opened, format_)
        name = opened.name
    if output is not None:
        write_output(output, text)
    if json_:
        written = {"file": str(output)} if output else {"text": text}
        print(json.dumps({"run": name, "format": format_, **written}, indent=1))
    elif output is None:
        print(printable(text) if sys.stdout.isatty() else text, end="")
    else:
        out.print(f"written to {output}", highlight=False, soft_wrap=True)
