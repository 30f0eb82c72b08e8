"""`kernelblaster kb check`: looks for damage in a knowledge base, and repairs it."""

import json
from typing import Annotated

import typer

from kernelblaster.cli.options import JsonOption
from kernelblaster.cli.show import out
from kernelblaster.knowledge.address import knowledge_at
from kernelblaster.knowledge.check import problems
from kernelblaster.knowledge.check import repair as make_again


def check(
    kb: Annotated[
        str | None, typer.Option("--kb", help="A file, or postgresql://... for a server; else your own.")
    ] = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Make again what follows from the events; keeps the damaged file."),
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Check every record of a knowledge base for damage. Exit code 1 if something is damaged (with --repair,
    if it could not be repaired)."""
    where = knowledge_at(kb)
    damage = problems(where)
    kept = make_again(where) if damage and repair else None
    left = problems(where) if damage and repair else damage
    if json_:
        print(json.dumps({"problems": damage, "left": left, "damaged": kept and str(kept)}, indent=1))
    else:
        for line in damage or ["everything is what was written"]:
            out.print(line, markup=False, highlight=False, soft_wrap=True)
        if damage and repair and not left:
            what = f"; the damaged one is kept as {kept}" if kept else ""
            out.print(f"made again from its events{what}", markup=False, highlight=False, soft_wrap=True)
    if left:
        raise typer.Exit(1)
