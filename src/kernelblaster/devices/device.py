"""The interface between the judge, which tests and times candidates, and a device. There are two kinds of
devices: a GPU, and the PTX machine, which emulates one.

A device owns an `Arena`: memory that the judge sees as a torch tensor and that a candidate's kernels work on.
A `Runner` has one candidate loaded. It runs the candidate's host code in a process without a GPU, to record
which launches it makes. Another process, the player, replays these launches on the device; it holds nothing
of the candidate but its device code.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.records import Profile
from kernelblaster.records.profile import Depth

if TYPE_CHECKING:  # what only compiles candidates does without it
    import torch


@dataclass(frozen=True)
class GpuFacts:
    """Properties of the GPU that a candidate's host code may query: `name`, `memory_bytes`, and `attributes`
    by their number in the enum `cudaDeviceAttr`."""

    name: str
    memory_bytes: int
    attributes: dict[int, int]


@dataclass(frozen=True)
class Slot:
    """A part of the arena (the memory that candidates work on), which holds one tensor. `start` is its byte
    offset in the arena, `bytes` its size. Processes that replay launches map each slot by itself, at an
    address of its own."""

    start: int
    bytes: int


@dataclass(frozen=True)
class Arena:
    """The memory that candidates work on, as one uint8 tensor `memory`: all `slots` (one for each tensor) one
    after the other, then memory for the judge alone, which is never mapped for a candidate."""

    memory: "torch.Tensor"
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Pointer:
    """A tensor argument of a call: `bytes` bytes, which begin at byte `offset` of the arena (the memory that
    candidates work on) and lie in its slot number `slot`. `name` is the tensor's; `address` is the virtual
    address that the candidate receives. `written`: the tensor is an output; all others are mapped read-only
    where the device can do that."""

    slot: int
    offset: int
    bytes: int
    name: str
    address: int
    written: bool = False


Argument = Pointer | int | float | bool


@dataclass(frozen=True)
class LaunchedWork:
    """One kernel launch, copy or fill that a candidate put on the device (copies and fills have names in
    brackets). `grid` and `block` are as launched; `shared_bytes` is dynamic shared memory; `duration_us` is
    None if it was not timed; `counts` are the emulator's counters by name, None on a GPU."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    duration_us: float | None
    counts: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class CallReport:
    """What one call of a candidate did. `error` is CUDA's error in words, empty if none. `violations` are
    breaches of the rules for candidates, in words. `work` is what was launched, in order. `live_bytes` is how
    much scratch memory (cudaMallocAsync) was not freed; `leaks` has a sentence for each such allocation.
    `findings` are faults in words, found by a device that checks every access; empty on a GPU."""

    error: str
    violations: tuple[str, ...]
    live_bytes: int
    work: tuple[LaunchedWork, ...]
    findings: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()


@dataclass(frozen=True)
class TimeReport:
    """The times in us of one call; the L2 cache was flushed before it, so it began with a cold one. By CUDA
    events: `event_us` is the time of the candidate's work, `span_us` that of flush and work together. By wall
    clocks, both of flush and work together: `wall_us` is read in the process that replays the launches,
    `owner_us` in the judge's process. `flush_us` is the time that a flush usually takes, measured before the
    candidate was loaded. `call` says what the call did."""

    call: CallReport
    event_us: float
    span_us: float
    wall_us: float
    owner_us: float
    flush_us: float


@dataclass(frozen=True)
class BatchReport:
    """The time in us that a batch of calls took together: `wall_us` by the wall clock, `event_us` between
    CUDA events before and after the batch."""

    wall_us: float
    event_us: float


def synchronize(device: "torch.device") -> None:
    """Wait for this process's own work on the device, before a candidate's process touches the same memory.
    Does nothing on the CPU."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


class CandidateDied(Exception):
    """A process that ran the candidate ended or reported a fault, or the candidate cannot be loaded; the
    message says which."""


class Nondeterministic(CandidateDied):
    """Two recordings of the same call differ in what they launch: the host code depends on more than the
    arguments of the call."""


class CandidateHung(Exception):
    """The candidate did not return within `limit_s` seconds."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"no answer within {limit_s:g} s")
        self.limit_s = limit_s


@dataclass(frozen=True)
class SteppedCall:
    """What was seen when one call of host code was executed instruction by instruction, in two processes that
    differ only in where code, stack and tensors lie in memory. `instructions` is how many instructions of the
    candidate's own code were executed. `finding` says in words which use of an address is not allowed
    (arithmetic, or a decision that depends on its value); empty if there is none. `missing` says why this
    system cannot execute host code in this way; empty if it can."""

    instructions: int = 0
    finding: str = ""
    missing: str = ""


@runtime_checkable
class Runner(Protocol):
    """A loaded candidate (a compiled CUDA source under test). To run a call, the candidate's host code is
    first run in a recorder, a process without a GPU that writes down which launches the call makes; these are
    then replayed on the device. Methods raise CandidateDied or CandidateHung."""

    @property
    def host_us(self) -> float:
        """Time in us that one call of the candidate's host code takes on the CPU, without any GPU work; 0
        before a call was recorded."""
        ...

    def record(self, calls: "Sequence[Sequence[Argument]]") -> None:
        """Records the launches of all these calls (each a list of arguments) at once, before they are needed.
        Calling this is optional and saves time: otherwise the methods `call`, `time` and `again` record each
        call when they need it, one at a time."""
        ...

    def prepare(self, arguments: Sequence[Argument]) -> None:
        """Begins to do what `call` needs for a call with these arguments, and does not wait for it: records
        it, and has its tensors' memory mapped and all other memory unmapped. Calling this is optional and
        saves time."""
        ...

    def stepped(self, arguments: Sequence[Argument], earlier: int) -> SteppedCall:
        """Checks whether the host code of a call computes or decides anything by addresses, its own or those
        of tensors, and returns what was found. The call is executed instruction by instruction, in two
        processes that differ only in where code, stack and tensors lie in memory. Before the call, each
        process makes `earlier` calls with the same arguments, which are not checked."""
        ...

    def threads(self, arguments: Sequence[Argument]) -> int:
        """How many GPU threads a call with these arguments starts, in all its launches together."""
        ...

    def call(
        self,
        arguments: Sequence[Argument],
        *,
        scratch_poison: int,
        accounting: bool,
        kept: bool = False,
        limit_s: float | None = None,
    ) -> CallReport:
        """Runs one call with these `arguments` and reports what it did. Before it, scratch memory is filled
        with the byte `scratch_poison`, so that reads of uninitialized or freed memory show in the results;
        -1: the device chooses a byte. With `accounting`, the duration of every launch is reported. With
        `kept`, `__device__` variables keep the values that the last call left in them; otherwise the device
        may reset them. Raises CandidateHung after `limit_s` seconds; None: after the usual limit
        (`call_limit_s` of the settings, 10 s by default, times the device's `patience`, which is 1 on a GPU
        and more on the emulator)."""
        ...

    def time(self, arguments: Sequence[Argument]) -> TimeReport:
        """Makes one call with these `arguments`, which begins with a cold L2 cache. Returns its times in us
        by CUDA events and by wall clocks, and what the call did."""
        ...

    def again(self, arguments: Sequence[Argument], count: int) -> BatchReport:
        """Times `count` calls with the same arguments, one right after the other, and returns the time of all
        together. Caches are warm from the second call on."""
        ...

    def close(self) -> None: ...


class Device(Protocol):
    """A device that candidates run on: a GPU or the emulator. The judge's own tensors are on `torch_device`.
    `modelled` is True if times come from a model and not from a clock. Such a device executes small workloads
    only; `profile` models the times of large ones from some of their blocks."""

    @property
    def name(self) -> str: ...

    @property
    def spec(self) -> GpuSpec: ...

    @property
    def torch_device(self) -> "torch.device": ...

    @property
    def modelled(self) -> bool: ...

    @property
    def facts(self) -> "GpuFacts | None":
        """The properties that a candidate's host code gets when it queries the GPU; None if that is not known
        yet."""
        ...

    @property
    def patience(self) -> int:
        """The factor by which the time limit of a call is multiplied on this device: 1 on a GPU, more on a
        device that emulates every instruction."""
        ...

    @property
    def most_threads(self) -> int | None:
        """The most GPU threads that all calls at very large sizes may start together in one verification.
        Further calls at such sizes are left out, because they would take too long. None: no limit."""
        ...

    @property
    def protects_inputs(self) -> bool:
        """True if inputs and parameters are mapped read-only for candidates, so that a candidate that writes
        to them faults. If False, the judge must check afterwards that they are unchanged."""
        ...

    def arena(self, sizes: Sequence[int] = (), spare: int = 0) -> Arena:
        """Makes the memory that candidates work on, with a slot for each of `sizes` (bytes, rounded up to
        whole pages) and `spare` further bytes for the judge. Runners that are started afterwards use it. Its
        contents are undefined. Without `sizes`: the present memory."""
        ...

    def start(self, binary: Path) -> Runner:
        """Loads the compiled candidate at `binary` (a shared object with its PTX and cubin beside it) in new
        processes that share the present arena (the memory that candidates work on). Returns a `Runner`,
        through which calls of the candidate are made. Raises CandidateDied or CandidateHung."""
        ...

    def settle(self) -> None:
        """Waits until the device does nothing in the background, such as starting processes, that could
        disturb a measurement."""
        ...

    def clock_mhz(self) -> float | None:
        """The present SM clock rate in MHz; None where it cannot be read."""
        ...

    def time_reference(self, run: Callable[[], object]) -> float:
        """Calls `run`, which issues PyTorch work on the device, with a cold cache. Returns the time of that
        work in us. Raises KernelBlasterError on a modelled device."""
        ...

    def profile(self, jobs: "Sequence[ProfileJob]") -> list[Profile]:
        """One profile for each job (one call of a candidate), by the most detailed method that this machine
        permits: Nsight Compute, timing of each launch, or the timing model. The field `depth` must be equal
        in all jobs."""
        ...

    def findings(self, job: "ProfileJob") -> list[str]:
        """Checks one call of a candidate (`job`) for memory errors and races, by compute-sanitizer or by the
        emulator. Returns one line for each error; empty if there are none."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class ProfileJob:
    """One call of a candidate to profile. `binary` is its shared object; `arguments` are the call's, with
    pointers into the arena (the memory that candidates work on). `workload` is a name to record. `depth` says
    how much is collected: "quick" (what performance states are named from), "usual" (also the profiler's
    advice) or "detailed" (also counts by instruction). `limit_s` is the time allowed in seconds, not counting
    the start of the profiler.

    Two fields are for a modelled device, which runs only some blocks of a launch. `shift` (0 to 1) chooses
    others than usual: it moves the blocks by this fraction of the grid, and fewer are run; None: the usual
    ones. `model_limit_s` is the most seconds that modelling the call may take, after which CandidateHung is
    raised; None: the device's usual limit of a call, 60 s unless set otherwise.
    """

    binary: Path
    arguments: tuple[Argument, ...]
    workload: str
    depth: Depth = "detailed"
    limit_s: float = 30.0
    shift: float | None = None
    model_limit_s: float | None = None
