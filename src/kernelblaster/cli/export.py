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
from kernelblaster.export.seal import format_of
from kernelblaster.plain_text import printable
from kernelblaster.store.run import open_run

LARGEST_BYTES = 64 << 20  # of a file that could be an export


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
        bool,
        typer.Option(
            "--force", help="Write over a file that is no export of this format, or was edited since."
        ),
    ] = False,
    runs: RunsOption = None,
    json_: JsonOption = False,
) -> None:
    """Write the best candidate of a run as a file that needs nothing of KernelBlaster."""
    if output is not None:
        _check_output(output, format_, force)
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


def _check_output(path: Path, form: str, force: bool) -> None:
    """Raise KernelBlasterError if no file should be written at `path`: because of what is there, unless that
    is an earlier export in the format `form` as it was written, or `force` is given; or because its folder
    would have to be made in one that is not there either, or in the root of the file system."""
    path = path.absolute()
    if path.is_dir():
        raise KernelBlasterError(f"{path}: is a folder; name a file in it.")
    if path.exists():
        reason = "" if force else _what_is_lost(path, form)
        if reason:
            raise KernelBlasterError(
                f"{path}: is there already, and {reason}; name another file, or write over it with --force."
            )
        return
    above = path.parent.parent
    if not path.parent.is_dir() and (above == Path(above.anchor) or not above.is_dir()):
        raise KernelBlasterError(f"{path}: there is no folder {path.parent}; make it, or name another file.")


def _what_is_lost(path: Path, form: str) -> str:
    """Why the file at `path` is worth keeping, in words; empty if it is empty, or an export in the format
    `form` that nobody has edited."""
    with path.open("rb") as file:
        text = file.read(LARGEST_BYTES).decode(errors="replace")
    match format_of(text):
        case None:
            return "is not an earlier export" if text else ""
        case "edited":
            return "was edited since it was exported, or comes from an older version"
        case other:
            return "" if other == form else f"is an export of another format ({other})"
