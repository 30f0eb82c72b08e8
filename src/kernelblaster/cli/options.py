"""Options and habits that several verbs share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from kernelblaster.building import telling
from kernelblaster.cli.terminal import Terminal
from kernelblaster.settings import settings

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
DtypeOption = Annotated[
    Literal["float32", "float16", "bfloat16"] | None,
    typer.Option("--dtype", help="Cast the module and its inputs; else their types are those of the file."),
]
InputsOption = Annotated[
    str | None,
    typer.Option("--inputs", help='Example inputs for a module without get_inputs(): "randn(8192, 4096)".'),
]
InitOption = Annotated[
    str | None, typer.Option("--init", help='What the module is built with: "64, bias=False".')
]


RunsOption = Annotated[Path | None, typer.Option("--runs", help="Where runs are kept.")]
RunArgument = Annotated[
    str, typer.Argument(help="A run: its name, the beginning of it, its folder, or `last`; see `runs list`.")
]


def runs_folder(given: Path | None) -> Path:
    return given or settings().data / "runs"


class JudgeOptions:
    """How the judge is set up."""

    DeviceName = Literal["auto", "cuda", "emulated"]

    Baseline = Annotated[
        Literal["eager", "compile", "max-autotune"],
        typer.Option("--baseline", help="What to beat: PyTorch as it is, or torch.compile."),
    ]
    Device = Annotated[
        DeviceName,
        typer.Option("--device", help="Where it runs; auto: a GPU if there is one, else the PTX machine."),
    ]
    Gpu = Annotated[
        str | None,
        typer.Option(
            "--gpu", help="What the emulated device stands for: h200, h100, a100, a6000, l40s, rtx4090, b200."
        ),
    ]
    Sanitize = Annotated[
        bool, typer.Option("--sanitize", help="Run compute-sanitizer on a correct candidate.")
    ]
    Filter = Annotated[
        Literal["emulated"] | None,
        typer.Option("--filter", help="Let the PTX machine check it before the GPU runs it."),
    ]


class SearchOptions:
    """How far a search goes."""

    Iterations = Annotated[int, typer.Option(help="How often it learns from its rollouts.", min=1)]
    Rollouts = Annotated[int, typer.Option(help="Trajectories side by side.", min=1)]
    Steps = Annotated[int, typer.Option(help="Steps of a trajectory, at most.", min=1)]
    Choices = Annotated[int, typer.Option(help="Techniques tried at each step.", min=1)]
    Selection = Annotated[
        Literal["weighted", "thompson"], typer.Option(help="How techniques are drawn, see docs/knowledge.md.")
    ]
    NearFloor = Annotated[
        float, typer.Option(help="A search ends where its time is within this factor of the floor.", min=1)
    ]
    Explained = Annotated[
        int, typer.Option(help="Surprising results that are profiled after each iteration.", min=0)
    ]


@contextmanager
def working(quiet: bool) -> Iterator[Callable[[str], None]]:
    """A line on standard error that says what is being done, gone when it is done."""
    console = Terminal(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda stage: None
        return
    with console.status("starting") as status, telling(status.update):
        yield status.update
