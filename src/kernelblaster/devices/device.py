"""What the judge asks of a device. Two kinds exist: a real GPU, and the PTX machine.

A device owns an `Arena`: memory that the judge sees as a torch tensor and that a candidate's
process works on. Candidates run in a `Runner`, a process of their own that may die at any time.
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
class Pointer:
    """An argument: an address, as an offset into the arena, with how many bytes from there belong to
    the tensor of that name. Only a device that checks accesses needs to know."""

    offset: int
    bytes: int | None = None
    name: str = ""


Argument = Pointer | int | float | bool


@dataclass(frozen=True)
class Work:
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
    work: tuple[Work, ...]
    findings: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()


@dataclass(frozen=True)
class TimeReport:
    """One timed call on a cold cache. `event_us` spans the candidate's work alone, `span_us` that
    and the flushing before it, `wall_us` the same by the worker's clock, and `owner_us` by the
    judge's own clock, outside the candidate's process. `flush_us` is what the flushing usually
    takes, measured before the candidate was loaded."""

    call: CallReport
    event_us: float
    span_us: float
    wall_us: float
    owner_us: float
    flush_us: float


def synchronize(device: torch.device) -> None:
    """Wait for the judge's own work before a candidate's process touches the same memory."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class CandidateDied(Exception):
    """The candidate's process ended; the message says how."""


class CandidateHung(Exception):
    """The candidate did not return within the limit, in seconds."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"no answer within {limit_s:g} s")
        self.limit_s = limit_s


@runtime_checkable
class Runner(Protocol):
    """A candidate, loaded in a process of its own."""

    def call(self, arguments: Sequence[Argument], *, scratch_poison: int, accounting: bool) -> CallReport: ...

    def time(self, arguments: Sequence[Argument]) -> TimeReport: ...

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

    def arena(self, size: int) -> torch.Tensor:
        """At least `size` bytes of memory (uint8) that runners started later will share."""
        ...

    def start(self, binary: Path) -> Runner:
        """Load a compiled candidate into a fresh process that shares the current arena."""
        ...

    def settle(self) -> None:
        """Return when nothing of the device's own (starting workers) can disturb a measurement."""
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
    """A verified candidate with arguments that point into the first `extent` bytes of the arena.
    `depth` is how much is counted."""

    binary: Path
    arguments: tuple[Argument, ...]
    workload: str
    extent: int
    depth: Depth = "detailed"
    limit_s: float = 30.0
