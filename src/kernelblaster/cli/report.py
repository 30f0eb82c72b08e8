"""`kernelblaster report RUN|BENCH...`: writes an HTML page about runs and benches."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from kernelblaster.cli.options import JsonOption, RunsOption, runs_folder
from kernelblaster.cli.show import out
from kernelblaster.errors import KernelBlasterError
from kernelblaster.settings import settings

KINDS = ("markdown", "csv", "svg", "png")


def report(
    subjects: Annotated[
        list[str],
        typer.Argument(
            help="A bench or a run: its folder, the beginning of its name, or `last`; or a folder of runs."
        ),
    ],
    to: Annotated[
        Path, typer.Option("-o", "--out", "--output", help="The page; what else is written lies beside it.")
    ] = Path("report.html"),
    also: Annotated[
        str, typer.Option("--also", help="What else to write: markdown, csv, svg, png (needs resvg_py).")
    ] = "",
    runs: RunsOption = None,
    json_: JsonOption = False,
) -> None:
    """One self-contained HTML file: results, figures, every step with its difference, costs.

    Each step is shown with the changes that it made to the source. The page needs no network and loads
    nothing from elsewhere. Several runs or benches are shown side by side.
    """
    from kernelblaster.report.contents import summary_dict
    from kernelblaster.report.writing import read, write

    kinds = {kind.strip() for kind in also.split(",") if kind.strip()}
    unknown = sorted(kinds - set(KINDS))
    if unknown:
        raise KernelBlasterError(f"--also {also}: {unknown[0]} is none of {', '.join(KINDS)}.")
    start = time.perf_counter()
    contents = read(subjects, runs_folder(runs), settings().data / "benches")
    files = write(contents, to, kinds)
    if json_:
        about = [summary_dict(one) for one in contents]
        print(json.dumps({"files": [str(file) for file in files], "subjects": about}, indent=1))
        return
    seconds = time.perf_counter() - start
    size = to.stat().st_size / 1e6
    out.print(f"{to}  {size:.1f} MB in {seconds:.1f} s", highlight=False, soft_wrap=True)
    for file in files[1:]:
        out.print(str(file), highlight=False, soft_wrap=True)
