"""`kernelblaster export RUN`: writes the best candidate of a run as a file that works without
KernelBlaster."""

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from kernelblaster import keeper
from kernelblaster.cli.confined import confine_to_run, write_output
from kernelblaster.cli.options import JsonOption, RunArgument, RunsOption, runs_folder
from kernelblaster.cli.show import out
from kernelblaster.cli.terminal import Terminal
from kernelblaster.errors import KernelBlasterError
from kernelblaster.plain_text import printable
from kernelblaster.store.run import open_run

MARK = "optimized by KernelBlaster"  # in the first lines of every export
LONGEST_MARK = 2000  # bytes at the beginning of a file in which it is looked for


def export(
    run: RunArgument,
    format_: Annotated[
        Literal["cu", "kernelbench", "module"],
        typer.Option("--format", help="A .cu; a KernelBench file; a torch module with guards."),
    ] = "cu",
    output: Annotated[
        Path | None, typer.Option("-o", "--out", "--output", help="The file to write; else it is printed.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a file that is not an earlier export.")
    ] = False,
    runs: RunsOption = None,
    json_: JsonOption = False,
) -> None:
    """Write the best candidate of a run as a file that needs nothing of KernelBlaster."""
    if output is not None:
        _check_output(output, force)
        keeper.claim("file", str(output.absolute()))
    with open_run(runs_folder(runs), run) as opened:
        confine_to_run(opened, device="emulated")
        from kernelblaster.export.run import export_run, shortfall

        text, warning = export_run(opened, format_), shortfall(opened)
        name = opened.name
    if output is not None:
        write_output(output, text)
    if json_:
        written = {"file": str(output)} if output else {"text": text}
        written |= {"warning": warning} if warning else {}
        print(json.dumps({"run": name, "format": format_, **written}, indent=1))
    elif output is None:
        print(printable(text) if sys.stdout.isatty() else text, end="")
    else:
        out.print(f"written to {output}", highlight=False, soft_wrap=True)
    if warning and not json_:
        Terminal(stderr=True).print(f"warning: {warning}", style="yellow", highlight=False, soft_wrap=True)


def _check_output(path: Path, force: bool) -> None:
    """Raise KernelBlasterError if no file should be written at `path`: because of what is there, unless that
    is an earlier export or `force` is given, or because its folder would have to be made in one that is not
    there either, or in the root of the file system."""
    path = path.absolute()
    if path.is_dir():
        raise KernelBlasterError(f"{path}: is a folder; name a file in it.")
    if path.exists():
        with path.open("rb") as file:
            begins = file.read(LONGEST_MARK)
        if begins and MARK.encode() not in begins and not force:
            raise KernelBlasterError(
                f"{path}: is there already, and is not an earlier export; name another file, or write over "
                "it with --force."
            )
        return
    above = path.parent.parent
    if not path.parent.is_dir() and (above == Path(above.anchor) or not above.is_dir()):
        raise KernelBlasterError(f"{path}: there is no folder {path.parent}; make it, or name another file.")
