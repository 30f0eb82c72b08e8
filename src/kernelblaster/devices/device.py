"""The interface between the judge and a device. There are two kinds of devices: a GPU, and the PTX machine.

A device owns an `Arena`: memory that the judge sees as a torch tensor and that a candidate's kernels work on.
A `Runner` records which launches a candidate's host code makes, in a process without a GPU, and replays them
in another process, the player, which holds nothing of the candidate but its device code.
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
    """Properties of the GPU that host code may query; `attributes` by their number in `cudaDeviceAttr`."""

    name: str
    memory_bytes: int
    attributes: dict[int, int]


@dataclass(frozen=True)
class Slot:
    """A part of the arena that is mapped separately and holds one tensor; `start` is its offset in the
    arena."""

    start: int
    bytes: int


@dataclass(frozen=True)
class Arena:
    """Memory of all slots in sequence as one uint8 tensor. Memory after the last slot is for the judge
    alone."""

    memory: torch.Tensor
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Pointer:
    """A tensor argument: `bytes` bytes of slot number `slot`, at `offset` in the arena. `address` is the
    address that the candidate receives. `written`: it is an output; all others are mapped read-only."""

    slot: int
    offset: int
    bytes: int
    name: str
    address: int
    written: bool = False


Argument = Pointer | int | float | bool


@dataclass(frozen=True)
class LaunchedWork:
    """One kernel launch, copy or fill of a candidate. `counts` are the counters of a device that executes
    every instruction; None on others."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    duration_us: float | None
    counts: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class CallReport:
    """The result of one call. `error` is CUDA's error, empty if none; `violations` are breaches of the
    contract; `live_bytes` is scratch memory that was not freed, and `leaks` describes it by allocation where
    that is known. `findings` are faults found by a device that checks accesses, one line each."""

    error: str
    violations: tuple[str, ...]
    live_bytes: int
    work: tuple[LaunchedWork, ...]
    findings: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()


@dataclass(frozen=True)
class TimeReport:
    """One timed call with a cold cache, in microseconds. `event_us` spans the candidate's work, `span_us` the
    cache flush and the work; both by CUDA events. `wall_us` is the same span by the player's clock,
    `owner_us` by the judge's. `flush_us` is the usual time of the flush, measured before the candidate was
    loaded."""

    call: CallReport
    event_us: float
    span_us: float
    wall_us: float
    owner_us: float
    flush_us: float


@dataclass(frozen=True)
class BatchReport:
    """The time of a batch of calls in microseconds: by the wall clock, and between events around it."""

    wall_us: float
    event_us: float


def synchronize(device: torch.device) -> None:
    """Wait for the judge's own GPU work, before a candidate's process touches the same memory."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class CandidateDied(Exception):
    """A process that ran the candidate ended, or reported a fault; the message says which."""


class Nondeterministic(CandidateDied):
    """Two recordings of one call differ: the host code depends on more than that call's arguments."""


class CandidateHung(Exception):
    """The candidate did not return within `limit_s` seconds."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"no answer within {limit_s:g} s")
        self.limit_s = limit_s


@runtime_checkable
class Runner(Protocol):
    """A loaded candidate: its host code is recorded for given arguments and its launches are replayed.
    `host_us` is how many microseconds one call of its host code takes."""

    @property
    def host_us(self) -> float: ...

    def record(self, calls: "Sequence[Sequence[Argument]]") -> None:
        """Record these calls together ahead of time. A call that was not is recorded when it is needed."""
        ...

    def threads(self, arguments: Sequence[Argument]) -> int:
        """How many threads a call starts, in all its launches together."""
        ...

    def call(self, arguments: Sequence[Argument], *, scratch_poison: int, accounting: bool) -> CallReport: ...

    def time(self, arguments: Sequence[Argument]) -> TimeReport: ...

    def again(self, arguments: Sequence[Argument], count: int) -> BatchReport:
        """Time `count` calls in a row, without pauses and with warm caches."""
        ...

    def close(self) -> None: ...


class Device(Protocol):
    """A device that candidates run on. `modelled`: times come from a model, not a clock; such a device
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
        """What host code learns about the GPU when it queries; None if not known yet."""
        ...

    @property
    def patience(self) -> int:
        """Factor on the time limit of a call: a device that executes every instruction is slow."""
        ...

    @property
    def most_threads(self) -> int | None:
        """The most threads that a call may start before an optional case is skipped; None: no limit."""
        ...

    @property
    def protects_inputs(self) -> bool:
        """Whether inputs are mapped read-only, so that writing to one is a fault."""
        ...

    def arena(self, sizes: Sequence[int] = (), spare: int = 0) -> Arena:
        """An arena with a slot for each size (bytes, rounded up to whole pages) and `spare` further bytes,
        for runners that are started afterwards. Without sizes: the present arena."""
        ...

    def start(self, binary: Path) -> Runner:
        """Load a compiled candidate in new processes that share the present arena. Raises CandidateDied or
        CandidateHung."""
        ...

    def settle(self) -> None:
        """Return once no background work of the device (starting players) can disturb a measurement."""
        ...

    def clock_mhz(self) -> float | None:
        """The present SM clock rate in MHz; None where it cannot be read."""
        ...

    def time_reference(self, run: Callable[[], object]) -> float:
        """Microseconds of PyTorch work with a cold cache. Raises KernelBlasterError on a modelled device."""
        ...

    def profile(self, jobs: "Sequence[ProfileJob]") -> list[Profile]:
        """One profile for each job, by the most detailed method that this machine permits."""
        ...

    def findings(self, job: "ProfileJob") -> list[str]:
        """What a memory and race checker finds in one call, one line each; empty if nothing."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class ProfileJob:
    """A verified candidate with arguments that point into the arena; `depth` selects the metrics."""

    binary: Path
    arguments: tuple[Argument, ...]
    workload: str
    depth: Depth = "detailed"
    limit_s: float = 30.0
