"""The emulated device: no GPU, the same candidates. Their host code runs unmodified in a worker whose
CUDA runtime is the PTX machine; every access is checked, every instruction counted. Time is
modelled, from what some blocks of each launch cost."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from kernelblaster.devices.device import (
    Argument,
    CallReport,
    CandidateDied,
    CandidateHung,
    Pointer,
    ProfileJob,
    TimeReport,
)
from kernelblaster.devices.modelled_profile import modelled_profile
from kernelblaster.devices.occupancy import capability, limits_of
from kernelblaster.devices.specs import GpuSpec, gpu_specs
from kernelblaster.devices.worker_build import emulated_worker
from kernelblaster.devices.worker_process import WorkerProcess, WorkerRunner, call_report, encode
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.ptx.machine import NotEmulated
from kernelblaster.records import Profile
from kernelblaster.settings import settings

DEFAULT_GPU = "h200"
REPEATED_BYTES = 16 << 20  # of each tensor: what a caller of `profile` fills; the rest repeats it


class EmulatedDevice:
    """The PTX machine as a device. `gpu` is the one it stands for: a name, or a specification."""

    modelled = True
    torch_device = torch.device("cpu")

    def __init__(self, gpu: str | GpuSpec = DEFAULT_GPU) -> None:
        if isinstance(gpu, str) and gpu not in gpu_specs():
            raise KernelBlasterError(f"GPU {gpu} is not one of {', '.join(gpu_specs())}.")
        self.spec: GpuSpec = gpu_specs()[gpu] if isinstance(gpu, str) else gpu
        self._executable = emulated_worker()
        self._folder = tempfile.TemporaryDirectory(prefix="kernelblaster-arena-", dir=_shared_folder())
        self._arena: torch.Tensor | None = None

    @property
    def name(self) -> str:
        return f"PTX machine ({self.spec.title})"

    def arena(self, size: int) -> torch.Tensor:
        """As large as asked for, no larger: a new, sparse file costs nothing, and the one before stays
        mapped in the runners that have it."""
        if self._arena is None or (size and self._arena.numel() != size):
            path = Path(self._folder.name) / "arena"
            path.unlink(missing_ok=True)
            with path.open("wb") as file:
                file.truncate(size)
            self._arena = torch.from_file(str(path), shared=True, size=size, dtype=torch.uint8)
        return self._arena

    def start(self, binary: Path) -> "EmulatedRunner":
        assert self._arena is not None, "arena() comes first"
        code = device_code(binary)
        worker = WorkerProcess(self._executable, 0, {})
        runner = EmulatedRunner(worker, lambda arguments: self.profile([_job(binary, arguments)])[0])
        try:
            worker.tell(f"arena {self._folder.name}/arena {self._arena.numel()}")
        except CandidateDied as error:
            raise DeviceLost(f"the emulator did not start: {error}") from error
        worker.wait_ready()
        try:
            runner.prepare(_description(self.spec))
            runner.prepare(f"load {binary} {code}")
        except (CandidateDied, CandidateHung):
            runner.close()
            raise
        return runner

    def settle(self) -> None:
        pass

    def time_reference(self, run: Callable[[], object]) -> float:
        raise KernelBlasterError("PyTorch cannot be timed on the emulated device: it has no clock.")

    def profile(self, jobs: Sequence[ProfileJob]) -> list[Profile]:
        """Modelled profiles; of each tensor only the first REPEATED_BYTES need to hold values."""
        return [self._profile(job) for job in jobs]

    def _profile(self, job: ProfileJob) -> Profile:
        runner = self.start(job.binary)
        try:
            runner.prepare(f"tensors {_tensors(job.arguments)}")
            return modelled_profile(runner, self.spec, self.name, job, REPEATED_BYTES)
        finally:
            runner.close()

    def findings(self, job: ProfileJob) -> list[str]:
        runner = self.start(job.binary)
        try:
            return list(runner.call(job.arguments, scratch_poison=-1, accounting=False).findings)
        finally:
            runner.close()

    def close(self) -> None:
        self._arena = None
        self._folder.cleanup()


class EmulatedRunner(WorkerRunner):
    """A candidate in an emulating worker. `model` says how long its kernels would take."""

    def __init__(self, worker: WorkerProcess, model: Callable[[Sequence[Argument]], Profile]) -> None:
        super().__init__(worker, 6 * settings().call_limit_s)
        self._model = model

    @property
    def pid(self) -> int:
        """The worker's process, to look at what it uses."""
        return self._worker.pid

    def ask(self, command: str) -> dict[str, Any]:
        """As for any worker; what the machine does not know is said by name."""
        answer = super().ask(command)
        for work in answer.get("work", []):
            report = work.get("report", {})
            if "unsupported" in report:
                raise NotEmulated(f"{work['name']}: not emulated: {report['unsupported']}")
            if "error" in report:
                raise DeviceLost(f"the emulator failed in {work['name']}: {report['error']}")
        if "not emulated" in str(answer.get("error", "")):
            raise NotEmulated(str(answer["error"]))
        return answer

    def call(self, arguments: Sequence[Argument], *, scratch_poison: int, accounting: bool) -> CallReport:
        self.prepare(f"tensors {_tensors(arguments)}")
        answer = self.ask(f"call {scratch_poison} {int(accounting)} {encode(arguments)}")
        called = call_report(answer)
        pairs = zip(called.work, answer["work"], strict=True)
        called = replace(
            called, work=tuple(replace(w, counts=a.get("report", {}).get("counts")) for w, a in pairs)
        )
        return self._with_durations(called, arguments) if accounting else called

    def time(self, arguments: Sequence[Argument]) -> TimeReport:
        """A model has one clock: every figure is the sum of the modelled durations."""
        called = self.call(arguments, scratch_poison=-1, accounting=True)
        total_us = sum(work.duration_us or 0.0 for work in called.work)
        return TimeReport(called, total_us, total_us, total_us, total_us, flush_us=0.0)

    def _with_durations(self, called: CallReport, arguments: Sequence[Argument]) -> CallReport:
        pairs = zip(called.work, self._model(arguments).kernels, strict=True)
        return replace(called, work=tuple(replace(w, duration_us=k.duration_us) for w, k in pairs))


def _job(binary: Path, arguments: Sequence[Argument]) -> ProfileJob:
    ends = [p.offset + p.bytes for p in arguments if isinstance(p, Pointer) and p.bytes]
    return ProfileJob(binary, tuple(arguments), "primary", max(ends, default=0))


def _description(spec: GpuSpec) -> str:
    """What the stand-in runtime tells a candidate that asks about its GPU."""
    limits = limits_of(spec.architecture)
    major, minor = divmod(capability(spec.architecture), 10)
    return f"gpu {spec.multiprocessors} {limits.threads} {limits.shared_bytes} {major} {minor}"


def _tensors(arguments: Sequence[Argument]) -> str:
    """Where each tensor lies, so that an access beside it is out of bounds."""
    pointers = [a for a in arguments if isinstance(a, Pointer) and a.bytes]
    return " ".join([str(len(pointers)), *(f"{p.offset} {p.bytes} {p.name}" for p in pointers)])


def device_code(binary: Path) -> Path:
    """The candidate's PTX, which lies beside its shared object."""
    target = binary.parent / "candidate.ptx"
    if not target.is_file():
        raise CandidateDied(f"load: there is no {target}")
    return target


def _shared_folder() -> str | None:
    """Memory rather than disk, where the system offers it."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
