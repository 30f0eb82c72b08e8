"""`kernelblaster ablate SUITE...`."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from kernelblaster.cli.bench import device_kind, numbers
from kernelblaster.cli.going_on import going_on
from kernelblaster.cli.options import DtypeOption, JsonOption, JudgeOptions
from kernelblaster.cli.progress import overseeing
from kernelblaster.cli.show import out
from kernelblaster.devices.emulated import DEFAULT_GPU
from kernelblaster.errors import KernelBlasterError
from kernelblaster.settings import settings
from kernelblaster.strategies.search import Search

if TYPE_CHECKING:
    from kernelblaster.bench.ablation import Ablation

BUDGET = 40


def ablate(
    suites: Annotated[
        list[str] | None, typer.Argument(help="Suites or tasks; none to go on with --folder.")
    ] = None,
    studies: Annotated[
        str, typer.Option(help="memory, transfer, breadth, depth, selection; all but transfer if left out.")
    ] = "memory,breadth,depth,selection",
    folder: Annotated[
        Path | None, typer.Option(help="Where it is kept; one that is there already is gone on with.")
    ] = None,
    device: JudgeOptions.Device = "auto",
    gpu: JudgeOptions.Gpu = None,
    elsewhere: Annotated[
        str | None, typer.Option(help="The GPU that `transfer` brings knowledge from, for example a100.")
    ] = None,
    budget: Annotated[
        int, typer.Option("--budget", help="Candidates to judge for each search.", min=1)
    ] = BUDGET,
    seeds: Annotated[str, typer.Option(help="Each arm searches each task once for each.")] = "0,1,2",
    subset: Annotated[
        int | None, typer.Option(help="Only so many tasks of each level, drawn.", min=1)
    ] = None,
    split: Annotated[int, typer.Option(help="Which half of the tasks is trained on.")] = 0,
    seconds: Annotated[float | None, typer.Option(help="Begin nothing new after this time.", min=1)] = None,
    workers: Annotated[int | None, typer.Option(help="Searches side by side.", min=1)] = None,
    dtype: DtypeOption = "float32",
    json_: JsonOption = False,
) -> None:
    """Compare ways to learn and to search: same tasks, same seeds, same budget, with intervals.

    Writes studies.md and studies.html into the folder. One that was interrupted goes on with
    `ablate --folder FOLDER`.
    """
    from kernelblaster.bench.ablation import Ablation, AblationPlan
    from kernelblaster.bench.jobs import Setup
    from kernelblaster.bench.pool import default_workers
    from kernelblaster.bench.suite import entries_of

    plan = None
    if suites:
        kind = device_kind(device, gpu)
        plan = AblationPlan(
            studies=tuple(name.strip() for name in studies.split(",") if name.strip()),
            suites=tuple(suites),
            entries=tuple(entries_of(suites, subset=subset)),
            setup=Setup(
                device=kind,
                gpu=gpu or (DEFAULT_GPU if kind == "emulated" else None),
                dtype=dtype,
                search=Search(evaluations=budget),
                knowledge="",
            ),
            seeds=tuple(numbers(seeds, "--seeds")),
            elsewhere=elsewhere,
            split=split,
        )
    elif folder is None:
        raise KernelBlasterError("name a suite, or a --folder to go on with.")
    where = folder or settings().data / "ablations" / time.strftime("%Y%m%d-%H%M%S")
    with Ablation.open(where, plan) as opened:
        keys = list({job.key for job in opened.jobs})
        with (
            going_on(f"ablate --folder {where}"),
            overseeing(f"ablation {where}", keys, json_, opened.results) as view,
        ):
            opened.run(workers or default_workers(opened.plan.setup.device), seconds, view)
        _leave(opened, json_)


def _leave(opened: "Ablation", json_: bool) -> None:
    from kernelblaster.report.ablation_page import (
        COLUMNS,
        ablation_markdown,
        ablation_page,
        cells,
        found_in,
    )
    from kernelblaster.report.writing import written

    files = [
        written(opened.folder / "studies.html", ablation_page(opened, time.strftime("on %Y-%m-%d"))),
        written(opened.folder / "studies.md", ablation_markdown(opened)),
    ]
    studies = found_in(opened)
    if json_:
        told = [asdict(found) for found in studies]
        print(json.dumps({"files": [str(file) for file in files], "studies": told}, indent=1))
        return
    for found in studies:
        out.print(f"\n{found.study.title}", style="bold", highlight=False)
        table = Table(*COLUMNS, box=None, pad_edge=False, header_style="dim")
        for arm in found.arms:
            table.add_row(*cells(arm))
        out.print(table, highlight=False)
        for answer in found.answers:
            out.print(f"- {answer.sentence}", markup=False, highlight=False, soft_wrap=True)
    for file in files:
        out.print(str(file), highlight=False, soft_wrap=True)
