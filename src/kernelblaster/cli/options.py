"""Options that several commands have. Those that belong together are the fields of a dataclass, so that a
command takes them as one argument."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer

from kernelblaster.building import telling
from kernelblaster.cli.terminal import Terminal
from kernelblaster.errors import KernelBlasterError
from kernelblaster.records.selection import Selection
from kernelblaster.sessions.settings import Search
from kernelblaster.settings import settings

if TYPE_CHECKING:
    from kernelblaster.fleet.opening import FleetChoice, Machines
    from kernelblaster.records import Task

DEFAULTS = Search()

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
RunsOption = Annotated[Path | None, typer.Option("--runs", help="Where runs are kept.")]
RunArgument = Annotated[
    str, typer.Argument(help="A run: its name, the beginning of it, its folder, or `last`; see `runs list`.")
]


def runs_folder(given: Path | None) -> Path:
    return given or settings().data / "runs"


def check_named(gpu: str | None, files: Sequence[Path] = ()) -> None:
    """Raises KernelBlasterError if `gpu` is not the name of a known GPU, or one of `files` does not exist.
    Called before anything slow begins. None for `gpu` is allowed."""
    from kernelblaster.devices.specs import gpu_named

    if gpu is not None:
        gpu_named(gpu)
    for file in files:
        if file.is_dir() or not file.exists():
            what = "is a folder" if file.is_dir() else "there is no such file"
            raise KernelBlasterError(f"{file}: {what}.")


def again_at(folder: Path) -> str:
    """Returns " --runs FOLDER", for the end of a command that is suggested to the user, so that it finds a
    run in `folder`. Empty if `folder` is where commands look for runs by default."""
    usual = runs_folder(None)
    return "" if folder.resolve() == usual.resolve() else f" --runs {shlex.quote(str(folder))}"


StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="postgresql://... of a team: kept there, and continued on any machine (docs/fleet.md).",
    ),
]


DeviceName = Literal["auto", "cuda", "emulated"]
DeviceOption = Annotated[
    DeviceName,
    typer.Option("--device", help="Where it runs; auto: a GPU if there is one, else the PTX machine."),
]
GpuOption = Annotated[
    str | None,
    typer.Option(
        "--gpu", help="What the emulated device stands for: h200, h100, a100, a6000, l40s, l4, rtx4090, b200."
    ),
]
SanitizeOption = Annotated[
    bool, typer.Option("--sanitize", help="Run compute-sanitizer on a correct candidate.")
]
FilterOption = Annotated[
    Literal["emulated"] | None,
    typer.Option("--filter", help="Let the PTX machine check a candidate before the GPU runs it."),
]


@dataclass(frozen=True)
class DeviceOptions:
    """Option group (each field becomes an option of a command): the kind of device on which candidates run,
    and for an emulated device the GPU that it stands for."""

    device: DeviceOption = "auto"
    gpu: GpuOption = None


@dataclass(frozen=True)
class FleetOptions:
    """Option group (each field becomes an option of a command): the fleet (devices of one or several
    machines) that judges candidates, and the file with its token."""

    fleet: Annotated[
        str | None,
        typer.Option(
            "--fleet",
            help="Judge on many devices: local (all of this machine), auto (the fleet that runs here), "
            "ray://HOST:PORT (docs/fleet.md).",
        ),
    ] = None
    token: Annotated[
        Path | None, typer.Option("--token", help="The file of the fleet's token; else your own.")
    ] = None

    @property
    def again(self) -> str:
        """The fleet's options as text, " --fleet NAME --token FILE", for the end of a command that is
        suggested to the user to continue the work. Empty if no fleet was named."""
        token = "" if self.token is None else f" --token {self.token}"
        return "" if self.fleet is None else f" --fleet {self.fleet}{token}"

    def network(self, store: str | None = None) -> str:
        """Returns which options need the network, as text such as "--fleet auto and --store": a fleet of
        other machines, a shared `store` (None if there is none). Empty if no option does. Raises
        KernelBlasterError if the fleet's address is malformed."""
        from kernelblaster.fleet.address import parse_fleet
        from kernelblaster.fleet.node_file import read_node

        address = None if self.fleet is None else parse_fleet(self.fleet)
        far = address is not None and (
            address.kind == "ray" or (address.kind == "auto" and read_node() is not None)
        )
        return " and ".join([f"--fleet {self.fleet}"] * far + ["--store"] * (store is not None))

    def choice(self) -> "FleetChoice | None":
        """Returns the fleet that the user named, as its address and the file with its token; None if none was
        named. Raises KernelBlasterError if the name is malformed."""
        from kernelblaster.fleet.opening import fleet_named

        return fleet_named(self.fleet, self.token)

    def machines(self) -> "AbstractContextManager[Machines | None]":
        """A context that connects to the machines of the fleet that the user named, and yields them; it
        yields None if no fleet was named."""
        from kernelblaster.fleet.opening import machines_of

        return machines_of(self.choice())


@dataclass(frozen=True)
class CheckOptions:
    """Option group (each field becomes an option of a command): further checks of candidates that run on a
    GPU. With `filter` "emulated", the PTX machine (an emulator) checks a candidate before the GPU runs it;
    with `sanitize`, compute-sanitizer checks a correct candidate."""

    filter: FilterOption = None
    sanitize: SanitizeOption = False


CastTo = Literal["float32", "float16", "bfloat16"]
SHORT: dict[str, CastTo] = {"fp32": "float32", "fp16": "float16", "half": "float16", "bf16": "bfloat16"}


def _dtype(given: str) -> CastTo:
    """The type that the user named, fp16 and bf16 included. Raises BadParameter for any other."""
    named = SHORT.get(given.lower(), given.lower())
    if named not in get_args(CastTo):
        raise typer.BadParameter(f"{given} is none of {', '.join(get_args(CastTo))}.")
    return cast(CastTo, named)


DtypeOption = Annotated[
    CastTo | None,
    typer.Option(
        "--dtype",
        help="Cast the module and its inputs; else their types are those of the file.",
        parser=_dtype,
        metavar="[float32|float16|bfloat16]",
    ),
]


@dataclass(frozen=True)
class TaskOptions:
    """Option group (each field becomes an option of a command): data type, example inputs and constructor
    arguments, for task files that do not specify them."""

    dtype: DtypeOption = None
    inputs: Annotated[
        str | None,
        typer.Option(
            "--inputs", help='Example inputs for a module without get_inputs(): "randn(8192, 4096)".'
        ),
    ] = None
    init: Annotated[
        str | None, typer.Option("--init", help='What the module is built with: "64, bias=False".')
    ] = None

    def load(self, task: str) -> "Task":
        from kernelblaster.api import load_task

        return load_task(task, self.dtype, inputs=self.inputs, init=self.init)


@dataclass(frozen=True)
class SearchOptions:
    """Option group (each field becomes an option of a command): how many iterations, rollouts and steps a
    search makes, and how it chooses techniques."""

    iterations: Annotated[int, typer.Option(help="How often it learns from its rollouts.", min=1)] = (
        DEFAULTS.iterations
    )
    rollouts: Annotated[int, typer.Option(help="Trajectories side by side.", min=1)] = DEFAULTS.rollouts
    steps: Annotated[int, typer.Option(help="Steps of a trajectory, at most.", min=1)] = DEFAULTS.steps
    choices: Annotated[int, typer.Option(help="Techniques tried at each step.", min=1)] = DEFAULTS.choices
    selection: Annotated[Selection, typer.Option(help="How techniques are drawn, see docs/knowledge.md.")] = (
        DEFAULTS.selection
    )
    near_floor: Annotated[
        float, typer.Option(help="A search ends where its time is within this factor of the floor.", min=1)
    ] = DEFAULTS.near_floor
    samples: Annotated[
        int,
        typer.Option(help="Candidates written for each choice; the PTX machine's model picks one.", min=1),
    ] = DEFAULTS.samples
    explained: Annotated[
        int, typer.Option(help="Surprising results that are profiled after each iteration.", min=0)
    ] = DEFAULTS.explained

    def search(self, **more: Any) -> Search:
        """Returns the settings of a search, made of the options of this group and of `more`, settings that
        not every command has as an option."""
        return Search(**asdict(self), **more)


@contextmanager
def show_status(quiet: bool) -> Iterator[Callable[[str], None]]:
    """A context that shows a status line on standard error until it ends. It yields a function that sets the
    line's text. Nothing is shown if `quiet`, or if standard error is no terminal."""
    console = Terminal(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda stage: None
        return
    with console.status("starting") as status, telling(status.update):
        yield status.update
