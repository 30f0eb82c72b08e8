"""A real GPU. The process that opens it owns it: others wait, so that nothing disturbs a timing."""

import contextlib
import ctypes
import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from kernelblaster.devices import activity, ncu, sanitizer
from kernelblaster.devices.cuda_memory import SharedMemory
from kernelblaster.devices.device import CandidateDied, CandidateHung, ProfileJob
from kernelblaster.devices.specs import GpuSpec, spec_named
from kernelblaster.devices.toolbox import Toolbox
from kernelblaster.devices.toolchain import toolchain
from kernelblaster.devices.worker_build import worker_executable
from kernelblaster.devices.worker_process import WorkerPool, WorkerRunner
from kernelblaster.errors import DeviceLost, NoDevice
from kernelblaster.records import Profile
from kernelblaster.settings import library_path, settings, visible_device

FLUSH_BYTES = 256 << 20
HOPPER_AND_LATER = 9


def why_no_gpu() -> str | None:
    """Why no GPU can be used here, in words; None if one can."""
    if not torch.cuda.is_available():
        built = torch.version.cuda
        if built is None:
            return "this PyTorch is a CPU build (torch.version.cuda is None)"
        return f"PyTorch {torch.__version__} sees no GPU (no driver, or none visible)"
    return None


class CudaDevice:
    """GPU 0 of this process. `spares` workers are kept started."""

    modelled = False

    def __init__(self, spares: int = 2) -> None:
        reason = why_no_gpu()
        if reason:
            raise NoDevice(
                f"no usable GPU: {reason}. `--device emulated` checks a candidate without one and models "
                "its time."
            )
        self.torch_device = torch.device("cuda", 0)
        self._properties = torch.cuda.get_device_properties(0)
        self._lock = _own(str(self._properties.uuid))
        torch.zeros(1, device=self.torch_device)
        self.spec = self._spec()
        runtime = toolchain().runtime
        if runtime is None:
            raise NoDevice("libcudart was not found beside nvcc; install the CUDA runtime.")
        self._runtime = ctypes.CDLL(_loaded_runtime() or runtime)
        environment = {
            "KERNELBLASTER_CUDART": runtime,
            "CUDA_VISIBLE_DEVICES": visible_device(),
            "LD_LIBRARY_PATH": library_path(),
            "PATH": "/usr/bin:/bin",
        }
        executable = worker_executable(self.spec.architecture)
        self._pool = WorkerPool(executable, FLUSH_BYTES, environment, spares)
        self._toolbox = Toolbox(executable, environment)
        self._memory: SharedMemory | None = None
        self._tensor: torch.Tensor | None = None
        self._flush = torch.zeros(FLUSH_BYTES // 4, device=self.torch_device)
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]

    @property
    def name(self) -> str:
        return str(self._properties.name)

    def sandbox_gaps(self) -> str:
        """What the workers' sandbox lacks on this system, in words."""
        worker = self._pool.take()
        gaps = worker.wait_ready()
        self._pool.retire(worker)
        return gaps

    def arena(self, size: int) -> torch.Tensor:
        if self._memory is None or self._memory.size < size:
            self._tensor = None
            if self._memory is not None:
                self._memory.free()
                self._memory = None
            torch.cuda.empty_cache()
            self._memory = SharedMemory(self._runtime, size)
            self._tensor = self._memory.tensor()
        assert self._tensor is not None
        return self._tensor

    def start(self, binary: Path) -> WorkerRunner:
        assert self._memory is not None, "arena() comes first"
        worker = self._pool.take()
        runner = _Runner(worker, self._pool)
        try:
            runner.prepare(f"arena {self._memory.handle} {self._memory.size}")
        except (CandidateDied, CandidateHung) as error:
            runner.close()
            raise DeviceLost(f"a worker could not map the judge's memory: {error}") from error
        try:
            runner.prepare(f"load {binary}")
        except (CandidateDied, CandidateHung):
            runner.close()
            raise
        return runner

    def settle(self) -> None:
        self._pool.settle()
        self._toolbox.settle()
        torch.cuda.synchronize()

    def time_reference(self, run: Callable[[], object]) -> float:
        begin, end = self._events
        for _ in range(2):
            self._flush.sum()
        begin.record()
        run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e3

    def profile(self, jobs: Sequence[ProfileJob]) -> list[Profile]:
        assert self._memory is not None
        torch.cuda.synchronize()
        if settings().ncu is not None:
            profiles = ncu.profile(self._toolbox, self._memory.handle, jobs, self.name)
            if profiles is not None:
                return profiles
        return [activity.profile(self.start(job.binary), job, self.name) for job in jobs]

    def findings(self, job: ProfileJob) -> list[str]:
        assert self._memory is not None
        torch.cuda.synchronize()
        return sanitizer.findings(self._toolbox, self._memory.handle, job)

    def close(self) -> None:
        self._pool.close()
        self._toolbox.close()
        self._tensor = None
        if self._memory is not None:
            self._memory.free()
            self._memory = None
        self._lock.close()

    def _spec(self) -> GpuSpec:
        major, minor = self._properties.major, self._properties.minor
        suffix = "a" if major >= HOPPER_AND_LATER else ""
        actual = {
            "architecture": f"sm_{major}{minor}{suffix}",
            "multiprocessors": self._properties.multi_processor_count,
            "l2_mb": self._properties.L2_cache_size / 1e6,
        }
        known = spec_named(self.name)
        if known is None:
            ffma = self._properties.multi_processor_count * 256 * 2.0e9 / 1e12
            known = GpuSpec(
                name=self.name.lower().replace(" ", "-"),
                title=self.name,
                architecture="",
                multiprocessors=0,
                dram_gb_s=10_000,
                l2_mb=0,
                fp32_tflops=ffma,
                tf32_tflops=16 * ffma,
                fp16_tflops=32 * ffma,
                source="not listed: generous bounds from the number of multiprocessors",
            )
        return known.model_copy(update=actual)


class _Runner(WorkerRunner):
    def __init__(self, worker, pool: WorkerPool) -> None:  # type: ignore[no-untyped-def]
        super().__init__(worker, settings().call_limit_s)
        self._pool = pool

    def close(self) -> None:
        self._pool.retire(self._worker)


def _loaded_runtime() -> str | None:
    """The CUDA runtime that torch has loaded: the arena must come from the same one."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            path = line.rpartition(" ")[2]
            if "libcudart.so" in path:
                return path
    return None


def _own(uuid: str):  # type: ignore[no-untyped-def]
    """Hold the GPU's lock file until it is closed; says so if another process has it."""
    path = Path(tempfile.gettempdir()) / f"kernelblaster-{uuid}.lock"
    file = path.open("a+")
    with contextlib.suppress(OSError):
        path.chmod(0o666)
    told = False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            if not told:
                file.seek(0)
                print(f"waiting for the GPU: process {file.read().strip()} owns it", file=sys.stderr)
                told = True
            time.sleep(0.2)
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
