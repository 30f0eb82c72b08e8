"""`kernelblaster doctor`: tells what works on this machine, and what is missing."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from kernelblaster.cli.options import JsonOption
from kernelblaster.cli.terminal import Terminal, plain, wrap_hanging
from kernelblaster.doctor import examine
from kernelblaster.records.finding import Finding

out = Terminal()
BESIDE = 20  # columns before the detail
MARKS = {
    "ok": "[green]ok[/green]     ",
    "missing": "[red]missing[/red]",
    "limited": "[yellow]limited[/yellow]",
}


def doctor(
    model: Annotated[
        str | None,
        typer.Option(help="Look at a language model instead: one tiny call to KIND:NAME (docs/models.md)."),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Say what works on this machine, what is missing and how to get it.

    Exit code 0 if candidates can be evaluated here (or the model answers), 1 if not.
    """
    findings = _check_model(model) if model else examine()
    if json_:
        print(json.dumps([asdict(f) for f in findings], indent=1))
    else:
        for finding in findings:
            detail = wrap_hanging(out, finding.detail, BESIDE)
            line = f"{MARKS[finding.state]}  {finding.subject:10} {plain(detail)}"
            out.print(line, markup=True, highlight=False, soft_wrap=True)
            if finding.advice:
                advice = wrap_hanging(out, finding.advice, BESIDE)
                out.print(f"{'':{BESIDE}}{advice}", style="dim", highlight=False, soft_wrap=True)
    if any(f.needed and f.state == "missing" for f in findings):
        raise typer.Exit(1)


def _check_model(model: str) -> list[Finding]:
    """Tries the model that the user named (KIND:NAME) with one small call; returns what works and what does
    not."""
    from kernelblaster.models.check import check_model

    return check_model(model)
