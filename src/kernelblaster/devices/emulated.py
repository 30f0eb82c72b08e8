"""The emulated device: no GPU, the same candidates. Their host code runs unmodified in a worker whose
CUDA runtime is the PTX machine; every access is checked, every instruction counted. It does not tell
time yet: the GPU model is missing."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from math import prod
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
from kernelblaster.devices.emulated_build import emulated_worker
from kernelblaster.devices.specs import GpuSpec, gpu_specs
from kernelblaster.devices.toolchain import toolchain
from kernelblaster.devices.worker_process import WorkerProcess, call_report, encode
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.ptx.machine import NotEmulated
from kernelblaster.records import Profile, Scalar, Signature
from kernelblaster.records.signature import DTYPE_BYTES
from kernelblaster.settings import settings

NO_TIME = "the emulated device does not tell time yet; use `kernelblaster emulate` for its checks."


class EmulatedDevice:
    """The PTX machine as a device for candidates of one signature."""

    modelled = True
    torch_device = torch.device("cpu")

    def __init__(self, signature: Signature, gpu: str = "h200") -> None:
        if gpu not in gpu_specs():
            raise KernelBlasterError(f"GPU {gpu} is not one of {', '.join(gpu_specs())}.")
        self.spec: GpuSpec = gpu_specs()[gpu]
        self._signature = signature
        self._executable = emulated_worker()
        self._folder = tempfile.TemporaryDirectory(prefix="kernelblaster-arena-", dir=_shared_folder())
        self._arena: torch.Tensor | None = None

    @property
    def name(self) -> str:
        return f"PTX machine ({self.spec.title})"

    def arena(self, size: int) -> torch.Tensor:
        if self._arena is None or self._arena.numel() < size:
            path = Path(self._folder.name) / "arena"
            with path.open("wb") as file:
                file.truncate(size)
            self._arena = torch.from_file(str(path), shared=True, size=size, dtype=torch.uint8)
        return self._arena

    def start(self, binary: Path) -> "EmulatedRunner":
        assert self._arena is not None, "arena() comes first"
        device_code = _device_code(binary)
        worker = WorkerProcess(self._executable, 0, {})
        runner = EmulatedRunner(worker, self._signature)
        try:
            worker.tell(f"arena {self._folder.name}/arena {self._arena.numel()}")
        except CandidateDied as error:
            raise DeviceLost(f"the emulator did not start: {error}") from error
        worker.wait_ready()
        try:
            runner.prepare(f"load {binary} {device_code}")
        except (CandidateDied, CandidateHung):
            runner.close()
            raise
        return runner

    def settle(self) -> None:
        pass

    def time_reference(self, run: Callable[[], object]) -> float:
        raise KernelBlasterError(NO_TIME)

    def profile(self, jobs: Sequence[ProfileJob]) -> list[Profile]:
        raise KernelBlasterError(NO_TIME)

    def findings(self, job: ProfileJob) -> list[str]:
        runner = self.start(job.binary)
        try:
            return list(runner.call(job.arguments, scratch_poison=-1, accounting=False).findings)
        finally:
            runner.close()

    def close(self) -> None:
        self._arena = None
        self._folder.cleanup()


class EmulatedRunner:
    """A candidate in an emulating worker. `reports` are the machine's reports of the last call."""

    def __init__(self, worker: WorkerProcess, signature: Signature) -> None:
        self._worker = worker
        self._signature = signature
        self._limit_s = 6 * settings().call_limit_s
        self.reports: list[dict[str, Any]] = []

    def prepare(self, command: str) -> None:
        answer = self._worker.command(command, self._limit_s)
        if "fault" in answer:
            raise CandidateDied(str(answer["fault"]))

    def call(self, arguments: Sequence[Argument], *, scratch_poison: int, accounting: bool) -> CallReport:
        self.prepare(f"tensors {_tensors(self._signature, arguments)}")
        text = f"call {scratch_poison} {int(accounting)} {encode(arguments)}"
        answer = self._worker.command(text, self._limit_s)
        self.reports = [work["report"] for work in answer.get("work", []) if "report" in work]
        for work, report in zip(answer.get("work", []), self.reports, strict=False):
            if "unsupported" in report:
                raise NotEmulated(f"{work['name']}: not emulated: {report['unsupported']}")
            if "error" in report:
                raise DeviceLost(f"the emulator failed in {work['name']}: {report['error']}")
        if "not emulated" in str(answer.get("error", "")):
            raise NotEmulated(str(answer["error"]))
        return call_report(answer)

    def time(self, arguments: Sequence[Argument]) -> TimeReport:
        raise KernelBlasterError(NO_TIME)

    def close(self) -> None:
        self._worker.kill()


def _tensors(signature: Signature, arguments: Sequence[Argument]) -> str:
    """Where each tensor lies, so that an access beside it is out of bounds."""
    items = (*signature.outputs, *signature.inputs, *signature.parameters)
    given = list(arguments)
    sizes = dict(zip((s.name for s in signature.sizes), given[len(items) :], strict=True))
    words = []
    for item, value in zip(items, given, strict=False):
        if isinstance(item, Scalar):
            continue
        assert isinstance(value, Pointer)
        size = prod(int(str(sizes[dim])) for dim in item.dims) * DTYPE_BYTES[item.dtype]
        words += [str(value.offset), str(size), item.name]
    return " ".join([str(len(words) // 3), *words])


def _device_code(binary: Path) -> Path:
    """The candidate's PTX, compiled beside its shared object from the same source and options."""
    target = binary.parent / "candidate.ptx"
    if target.is_file():
        return target
    options = json.loads((binary.parent / "options.json").read_text())
    wanted = [o for o in options if o.startswith(("-D", "-std", "-O", "-lineinfo", "-gencode"))]
    wanted = [o.split(",code=")[0].replace("-gencode=arch=", "-arch=") for o in wanted]
    scratch = binary.parent / f"candidate.{os.getpid()}.ptx"
    command = [toolchain().nvcc, *wanted, "-ptx", "-include", "header.h", "candidate.cu", "-o", scratch.name]
    done = subprocess.run(command, cwd=binary.parent, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DeviceLost(f"nvcc made a shared object but no PTX: {(done.stderr or done.stdout)[-400:]}")
    scratch.rename(target)
    return target


def _shared_folder() -> str | None:
    """Memory rather than disk, where the system offers it."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
