"""What the judge asks of a device. Two kinds exist: a real GPU, and the PTX machine.

A device owns an `Arena`: memory that the judge sees as a torch tensor and that a candidate's kernels
work on. A `Runner` records what a candidate's host code asks for, in a process without a GPU, and
replays it in another one that holds nothing else of the candidate but its device code.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.records import Profile
from kernelblaster.records.profile import Depth


@dataclass(frozen=True)
class GpuFacts:
    """What host code may ask about the GPU: device attributes by their number (`cudaDeviceAttr`)."""

    name: str
    memory_bytes: int
    attributes: dict[int, int]


@dataclass(frozen=True)
class Slot:
    """A part of the arena with a mapping of its own: one tensor lies in it at a time."""

    start: int
    bytes: int


@dataclass(frozen=True)
class Arena:
    """Memory that the judge sees as one tensor (uint8) of `slots` one after the other. What lies behind the
    last of them is the judge's alone."""

    memory: torch.Tensor
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Pointer:
    """A tensor argument: `bytes` of a slot, from `offset` in the arena on. `address` is what the candidate
    is given for it, and `written` says that it is an output; all others are mapped read-only."""

    slot: int
    offset: int
    bytes: int
    name: str
    address: int
    written: bool = False


Argument = Pointer | int | float | bool


@dataclass(frozen=True)
class LaunchedWork:
    """One kernel launch, copy or fill that the candidate put on the device. `counts` are what a device
    that executes every instruction counted."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    duration_us: float | None
    counts: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class CallReport:
    """What happened during one call. `error` is empty if CUDA reported none; `violations` are
    breaches of the contract that were seen; `live_bytes` is scratch memory not given back, and `leaks`
    name it piece by piece where that is known;
    `findings` are what a device that checks accesses found, a line each."""

    error: str
    violations: tuple[str, ...]
    live_bytes: int
    work: tuple[LaunchedWork, ...]
    findings: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()


@dataclass(frozen=True)
class TimeReport:
    """One timed call on a cold cache. `event_us` spans the candidate's work alone, `span_us` that
    and the flushing before it, `wall_us` the same by the launcher's clock, and `owner_us` by the
    judge's own clock. `flush_us` is what the flushing usually takes, measured before the candidate
    was loaded."""

    call: CallReport
    event_us: float
    span_us: float
    wall_us: float
    owner_us: float
    flush_us: float


@dataclass(frozen=True)
class BatchReport:
    """What a batch of calls took: by the clock on the wall, and between events before and after it."""

    wall_us: float
    event_us: float


def synchronize(device: torch.device) -> None:
    """Wait for the judge's own work before a candidate's process touches the same memory."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class CandidateDied(Exception):
    """A process that ran the candidate ended; the message says how."""


class Nondeterministic(CandidateDied):
    """Two recordings of one call differ: the host code depends on more than that call's arguments."""


class CandidateHung(Exception):
    """The candidate did not return within the limit, in seconds."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"no answer within {limit_s:g} s")
        self.limit_s = limit_s


@runtime_checkable
class Runner(Protocol):
    """A candidate: its host code is recorded for given arguments, its launches replayed. `host_us` is what
    one call of its host code takes."""

    @property
    def host_us(self) -> float: ...

    def record(self, calls: "Sequence[Sequence[Argument]]") -> None:
        """Record these calls together, ahead of time; each is recorded when it is needed otherwise."""
        ...

    def threads(self, arguments: Sequence[Argument]) -> int:
        """How many threads a call starts, in all of its launches together."""
        ...

    def call(self, arguments: Sequence[Argument], *, scratch_poison: int, accounting: bool) -> CallReport: ...

    def time(self, arguments: Sequence[Argument]) -> TimeReport: ...

    def again(self, arguments: Sequence[Argument], count: int) -> BatchReport:
        """`count` calls one after the other, without a pause and with warm caches."""
        ...

    def close(self) -> None: ...


class Device(Protocol):
    """Where candidates run. `modelled` is True where times come from a model, not a clock; such a device
    executes small workloads only, and `profile` models large ones."""

    @property
    def name(self) -> str: ...

    @property
    def spec(self) -> GpuSpec: ...

    @property
    def torch_device(self) -> torch.device: ...

    @property
    def modelled(self) -> bool: ...

    @property
    def facts(self) -> "GpuFacts | None":
        """What host code is told about the GPU, where there is one."""
        ...

    @property
    def patience(self) -> int:
        """How many times the limit of a call it may take: one that executes every instruction is slow."""
        ...

    @property
    def most_threads(self) -> int | None:
        """How many a call may start where that is no trouble; None where any number may."""
        ...

    @property
    def protects_inputs(self) -> bool:
        """Whether a candidate that writes to an input is ended at once."""
        ...

    def arena(self, sizes: Sequence[int] = (), spare: int = 0) -> Arena:
        """A slot for each size (in bytes, rounded up to what can be mapped), and `spare` bytes beside them,
        for runners that are started later. Without sizes: the arena that is there."""
        ...

    def start(self, binary: Path) -> Runner:
        """A compiled candidate, in fresh processes that share the current arena."""
        ...

    def settle(self) -> None:
        """Return when nothing of the device's own (starting workers) can disturb a measurement."""
        ...

    def clock_mhz(self) -> float | None:
        """The present rate of the multiprocessors; None where there is none or it cannot be read."""
        ...

    def time_reference(self, run: Callable[[], object]) -> float:
        """Microseconds of PyTorch work on a cold cache; a modelled device has no clock and raises."""
        ...

    def profile(self, jobs: "Sequence[ProfileJob]") -> list[Profile]:
        """One profile for each job, at the best tier that this machine permits."""
        ...

    def findings(self, job: "ProfileJob") -> list[str]:
        """What a memory and race checker finds in one call; empty if nothing."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class ProfileJob:
    """A verified candidate with arguments that point into the arena. `depth` is how much is counted."""

    binary: Path
    arguments: tuple[Argument, ...]
    workload: str
    depth: Depth = "detailed"
    limit_s: float = 30.0
