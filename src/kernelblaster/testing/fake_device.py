"""A device for tests: candidates are Python functions on host memory, and times are given numbers.

It exercises every rule of the judge without a compiler and without a GPU. CUDA itself is tested by the real
devices and their contract suite.
"""

import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from kernelblaster.devices import activity
from kernelblaster.devices.device import (
    Arena,
    Argument,
    BatchReport,
    CallReport,
    CandidateDied,
    CandidateHung,
    LaunchedWork,
    Pointer,
    ProfileJob,
    Slot,
    SteppedCall,
    TimeReport,
)
from kernelblaster.devices.specs import GpuSpec, gpu_specs
from kernelblaster.devices.window import rounded
from kernelblaster.records import Profile, Scalar, Signature, Tensor

PAGE = 4096
Body = Callable[["FakeCall"], None]


class FakeCall:
    """The argument of the Python function that stands for a candidate. `call["x"]` is the tensor x of the
    task, as the function is to read or write it. `sizes` and `scalars` are values by name. `memory` is the
    raw memory in which all tensors lie. `timed`: this call is timed. The constructor finds the tensors by the
    task's `signature` and the `arguments` of the call.

    To behave like a faulty candidate, the function sets attributes. `error` and `violations` are what the
    report says went wrong; `live_bytes` is memory that it did not free; `launches` is the number of its
    kernels. `hidden_us` is time that only the wall clock sees. `shaved_us` is time that is missing in the
    candidate's own timing, because it was moved into the cache flush before it. Both are in microseconds.
    """

    def __init__(
        self, memory: torch.Tensor, signature: Signature, arguments: Sequence[Argument], timed: bool
    ) -> None:
        self.memory = memory
        self.timed = timed
        self.offsets: dict[str, int] = {}
        self.scalars: dict[str, object] = {}
        self.scratch_poison = -1
        self.live_bytes = 0
        self.violations: list[str] = []
        self.error = ""
        self.launches = 1
        self.hidden_us = 0.0
        self.shaved_us = 0.0
        given = iter(arguments)
        tensors: list[Tensor] = []
        for item in (*signature.outputs, *signature.inputs, *signature.parameters):
            value = next(given)
            if isinstance(item, Scalar):
                self.scalars[item.name] = value
                continue
            assert isinstance(value, Pointer)
            self.offsets[item.name] = value.offset
            tensors.append(item)
        self.sizes = {size.name: int(str(next(given))) for size in signature.sizes}
        self._tensors = {tensor.name: tensor for tensor in tensors}

    def __getitem__(self, name: str) -> torch.Tensor:
        """The tensor argument of this name, as a view of the device's memory."""
        tensor = self._tensors[name]
        shape = [self.sizes[dim] for dim in tensor.dims]
        dtype = getattr(torch, tensor.dtype)
        size = int(torch.Size(shape).numel()) * dtype.itemsize
        start = self.offsets[name]
        return self.memory[start : start + size].view(dtype).view(shape)


class FakeRunner:
    """A `Runner` (calls one loaded candidate) of `device` for the Python function `body` instead of a kernel;
    each call is reported to take `duration_us` microseconds, with random noise within 0.5 %."""

    host_us = 0.0

    def __init__(self, device: "FakeDevice", body: Body, duration_us: float) -> None:
        self._device = device
        self._body = body
        self._duration_us = duration_us
        self._live_bytes = 0
        self.closed = False

    def record(self, calls: Sequence[Sequence[Argument]]) -> None:
        pass

    def prepare(self, arguments: Sequence[Argument]) -> None:
        pass

    def stepped(self, arguments: Sequence[Argument], earlier: int) -> SteppedCall:
        return SteppedCall(instructions=1)

    def threads(self, arguments: Sequence[Argument]) -> int:
        return 1

    def call(
        self,
        arguments: Sequence[Argument],
        *,
        scratch_poison: int,
        accounting: bool,
        kept: bool = False,
        limit_s: float | None = None,
    ) -> CallReport:
        """Calls the Python function that stands for the candidate once, and returns the report. Raises
        CandidateHung if its duration, as it was registered, exceeds `limit_s` seconds. `scratch_poison` is
        the byte that scratch memory is filled with before; `accounting` and `kept` have no effect here."""
        if limit_s is not None and self._duration_us > limit_s * 1e6:
            raise CandidateHung(limit_s)
        return self._run(arguments, scratch_poison, timed=False)[0]

    def time(self, arguments: Sequence[Argument]) -> TimeReport:
        report, call = self._run(arguments, -1, timed=True)
        event_us = self._duration_us * self._device.noise()
        span_us = event_us + 100.0
        wall_us = span_us + 10.0 + call.hidden_us
        return TimeReport(report, event_us, span_us, wall_us, wall_us + 50.0, 100.0 - call.shaved_us)

    def again(self, arguments: Sequence[Argument], count: int) -> BatchReport:
        call = self._run(arguments, -1, timed=True)[1]
        event_us = count * (self._duration_us + call.hidden_us)
        return BatchReport(event_us + 10.0, event_us)

    def close(self) -> None:
        self.closed = True

    def _run(
        self, arguments: Sequence[Argument], scratch_poison: int, timed: bool
    ) -> tuple[CallReport, FakeCall]:
        """Call the Python function that stands for the candidate on `arguments`. It finds in a FakeCall what
        a kernel would (memory, arguments, the byte `scratch_poison` that scratch memory is filled with,
        whether the call is `timed`), and sets there what it does wrong. Returns the report, and the
        FakeCall."""
        call = FakeCall(self._device.memory, self._device.signature, arguments, timed)
        call.scratch_poison = scratch_poison
        self._body(call)
        self._live_bytes += call.live_bytes
        work = (LaunchedWork("kernel", (1, 1, 1), (32, 1, 1), 0, self._duration_us),) * call.launches
        return CallReport(call.error, tuple(call.violations), self._live_bytes, work), call


class FakeDevice:
    """A `Device` in host memory whose candidates are Python functions: `register` one, then use the path that
    this returns as its binary. `signature` is that of the task that they implement. `reference_us` is the
    time in microseconds that any work of PyTorch is reported to take; `seed` draws the noise of all times.
    `clock_mhz` returns the values in `clocks` (MHz) one after another, None when there are no more."""

    name = "fake"
    modelled = False
    protects_inputs = False
    patience = 1
    most_threads = None
    facts = None
    torch_device = torch.device("cpu")

    def __init__(self, signature: Signature, reference_us: float = 100.0, seed: int = 0) -> None:
        self.signature = signature
        self.reference_us = reference_us
        self.memory = torch.zeros(0, dtype=torch.uint8)
        self.clocks: list[float] = []
        self._pages: list[int] = []
        self._bodies: dict[Path, tuple[Body, float]] = {}
        self._rng = random.Random(seed)
        self.specification = gpu_specs()["h200"]

    @property
    def spec(self) -> GpuSpec:
        return self.specification

    def register(self, body: Body, duration_us: float = 50.0) -> Path:
        """Register the Python function `body` as a candidate whose kernels take `duration_us` microseconds in
        total; returns the path that stands for its compiled binary."""
        path = Path(f"fake-{len(self._bodies)}")
        self._bodies[path] = (body, duration_us)
        return path

    def noise(self) -> float:
        """Returns a random factor within 0.5 % of 1, by which times are multiplied."""
        return 1.0 + 0.01 * (self._rng.random() - 0.5)

    def arena(self, sizes: Sequence[int] = (), spare: int = 0) -> Arena:
        pages = [rounded(size, PAGE) for size in sizes]
        if sizes and (self._pages != pages or self.memory.numel() < sum(pages) + spare):
            self.memory = torch.zeros(sum(pages) + spare, dtype=torch.uint8)
            self._pages = pages
        starts = itertools.accumulate(self._pages, initial=0)
        return Arena(self.memory, tuple(Slot(s, b) for s, b in zip(starts, self._pages, strict=False)))

    def start(self, binary: Path) -> FakeRunner:
        """Returns a runner for the candidate whose path (`binary`) `register` returned. Raises CandidateDied
        for any other path."""
        if binary not in self._bodies:
            raise CandidateDied("load: no such candidate")
        return FakeRunner(self, *self._bodies[binary])

    def settle(self) -> None:
        pass

    def clock_mhz(self) -> float | None:
        return self.clocks.pop(0) if self.clocks else None

    def time_reference(self, run: Callable[[], object]) -> float:
        run()
        return self.reference_us * self.noise()

    def profile(self, jobs: Sequence[ProfileJob]) -> list[Profile]:
        return [activity.profile(self.start(job.binary), job, self.name) for job in jobs]

    def findings(self, job: ProfileJob) -> list[str]:
        return []

    def close(self) -> None:
        pass
