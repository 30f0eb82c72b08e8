"""A real GPU as the device that candidates run on. Only one process at a time uses the GPU, so that nothing
disturbs a timing; other processes wait until it is free."""

import ctypes
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from kernelblaster.devices import activity, ncu, sanitizer, window
from kernelblaster.devices.cuda_memory import SharedSlots
from kernelblaster.devices.device import Arena, CandidateDied, CandidateHung, GpuFacts, ProfileJob, Slot
from kernelblaster.devices.device_code import CUBIN
from kernelblaster.devices.gpu_lock import lock_gpu
from kernelblaster.devices.lead import Lead
from kernelblaster.devices.native_build import launcher_executable
from kernelblaster.devices.nvml import sm_clock_mhz
from kernelblaster.devices.player_process import PlayerPool, PlayerProcess, start_player
from kernelblaster.devices.recorder import Recorder
from kernelblaster.devices.replay import ReplayRunner
from kernelblaster.devices.specs import GpuSpec, spec_named
from kernelblaster.devices.toolbox import Toolbox
from kernelblaster.devices.window import rounded
from kernelblaster.errors import DeviceLost, NoDevice
from kernelblaster.records import Profile
from kernelblaster.settings import settings, tool_environment

FLUSH_BYTES = 256 << 20
FLUSH_GB_S = 8000.0  # no GPU empties its cache faster
CYCLES_PER_US = 2000  # of a GPU's clock, about
HOPPER_AND_LATER = 9


def why_no_gpu() -> str | None:
    """Why no GPU can be used here, in words; None if one can."""
    if not torch.cuda.is_available():
        built = torch.version.cuda
        if built is None:
            return "this PyTorch is a CPU build (torch.version.cuda is None)"
        return f"PyTorch {torch.__version__} sees no GPU ({_told_by_torch()})"
    return None


def _told_by_torch() -> str:
    """PyTorch's own words on why it cannot start CUDA, without its advice; "none visible" if it has none."""
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:
        return str(error).partition("\n")[0].rpartition("Error ")[2][:200]
    return "none visible"


class CudaDevice:
    """GPU 0 of this process as a `Device` to run candidates on; waits until no other process holds it.
    `spares` is how many players (processes that replay recorded launches) are kept started ahead of need.
    Raises NoDevice where there is no usable GPU."""

    modelled = False
    protects_inputs = True
    patience = 1
    most_threads = None

    def __init__(self, spares: int = 2) -> None:
        reason = why_no_gpu()
        if reason:
            raise NoDevice(
                f"no usable GPU: {reason}. `--device emulated` checks a candidate without one and models "
                "its time."
            )
        self.torch_device = torch.device("cuda", 0)
        self._properties = torch.cuda.get_device_properties(0)
        self._lock = lock_gpu(str(self._properties.uuid), _say)
        torch.zeros(1, device=self.torch_device)
        self.spec = self._spec()
        environment = tool_environment()
        executable = launcher_executable(self.spec.architecture)
        self._recorder = Recorder()
        options = [str(FLUSH_BYTES), str(window.BEGIN), str(window.BYTES)]
        self._pool = PlayerPool(lambda: start_player(executable, options, environment), spares)
        self._toolbox = Toolbox(executable, self._loaded)
        self.facts: GpuFacts | None = None  # known once a player has started
        self._memory: SharedSlots | None = None
        self._arena: Arena | None = None
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._flush = torch.zeros(FLUSH_BYTES // 4, device=self.torch_device)
        self._lead = Lead(2 * FLUSH_BYTES / (FLUSH_GB_S * 1e3))
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]

    @property
    def name(self) -> str:
        return f"{self._properties.name}{self._recorder.remark}"

    def arena(self, sizes: Sequence[int] = (), spare: int = 0) -> Arena:
        """Returns the memory that candidates work on, with a slot for each of `sizes` in bytes and `spare`
        further bytes for the judge. The present memory is returned again if each of its slots is large
        enough, unless it is more than twice as large as needed; then it is freed and new memory is made.
        Without `sizes`: the present memory."""
        wanted = [rounded(size) for size in sizes]
        have = self._memory.sizes if self._memory else []
        fits = len(have) > len(wanted) and all(h >= w for h, w in zip(have, wanted, strict=False))
        # Slots far larger than asked for would have to be checked for stray writes in full, every time.
        fits = fits and sum(have) <= 2 * (sum(wanted) + rounded(spare)) and have[-1] >= spare
        if sizes and not fits:
            self._arena = None
            if self._memory is not None:
                self._memory.free()
                self._memory = None
            torch.cuda.empty_cache()
            self._memory = SharedSlots([*sizes, spare])
            starts = itertools.accumulate(self._memory.sizes, initial=0)
            slots = [Slot(start, size) for start, size in zip(starts, self._memory.sizes, strict=False)]
            self._arena = Arena(self._memory.tensor(), tuple(slots[:-1]))
        assert self._arena is not None, "the first call gives sizes"
        return self._arena

    def start(self, binary: Path) -> ReplayRunner:
        player = self._pool.take()
        try:
            return self._loaded(player, binary, retire=self._pool.retire)
        except (CandidateDied, CandidateHung):
            self._pool.retire(player)
            raise

    def _loaded(
        self, player: PlayerProcess, binary: Path, retire: Callable[[PlayerProcess], None] | None = None
    ) -> ReplayRunner:
        """A runner for the candidate at `binary` in a started player (the process that replays its
        launches), with the arena's memory shared. When the runner is closed, `retire` is called with the
        player, or if it is None, the player is left alone. Raises CandidateDied or CandidateHung, or
        DeviceLost if the memory cannot be mapped."""
        assert self._memory is not None, "arena() comes first"
        properties = player.wait_ready()
        attributes = {int(number): int(value) for number, value in properties["attributes"].items()}
        gpu = self.facts = GpuFacts(str(properties["name"]), int(properties["memory"]), attributes)
        limit_s = settings().call_limit_s

        def answer(question: str) -> int:
            return int(runner.ask(f"fact {question}")["value"])

        runner = _Runner(player, self._recorder, binary, gpu, self.arena(), answer, limit_s)
        runner.retire = retire
        try:
            player.share(self._memory.descriptors)
            sizes = " ".join(str(size) for size in self._memory.sizes)
            runner.ask(f"slots {len(self._memory.sizes)} {sizes}")
        except (CandidateDied, CandidateHung) as error:
            raise DeviceLost(f"a launcher could not map the judge's memory: {error}") from error
        runner.load(binary.parent / CUBIN)
        return runner

    def settle(self) -> None:
        self._pool.settle()
        self._toolbox.settle()
        torch.cuda.synchronize()

    def clock_mhz(self) -> float | None:
        return sm_clock_mhz(str(self._properties.uuid))

    def time_reference(self, run: Callable[[], object]) -> float:
        """Calls `run`, which issues PyTorch work on the GPU, after emptying the L2 cache. Returns the time of
        that work in us, by CUDA events. The GPU is kept busy until all of it is issued, so that a slow or
        busy host makes no difference; if the host was too late, the work is timed again."""
        begin, end = self._events
        times = []
        self._lead.begin()
        while True:
            # As for candidates: what one of both pinned in the cache is not the other's.
            self._driver.cuCtxResetPersistingL2Cache()
            torch.cuda._sleep(int(self._lead.us * CYCLES_PER_US))  # type: ignore[no-untyped-call]
            for _ in range(2):
                self._flush.sum()
            begin.record()
            start = time.perf_counter()
            run()
            end.record()
            issued_us = (time.perf_counter() - start) * 1e6
            in_time = not begin.query()  # type: ignore[no-untyped-call]
            end.synchronize()
            times.append(float(begin.elapsed_time(end)) * 1e3)
            if not self._lead.late(issued_us, in_time=in_time):
                return times[-1] if in_time else min(times)

    def profile(self, jobs: Sequence[ProfileJob]) -> list[Profile]:
        """One profile for each job (one call of a candidate): by Nsight Compute if it is installed and
        permitted, otherwise with durations only."""
        torch.cuda.synchronize()
        if settings().ncu is not None:
            profiles = ncu.profile(self._toolbox, jobs, self.name)
            if profiles is not None:
                return profiles
        return [activity.profile(self.start(job.binary), job, self.name) for job in jobs]

    def findings(self, job: ProfileJob) -> list[str]:
        torch.cuda.synchronize()
        return sanitizer.findings(self._toolbox, job)

    def close(self) -> None:
        self._pool.close()
        self._toolbox.close()
        self._recorder.close()
        self._arena = None
        if self._memory is not None:
            self._memory.free()
            self._memory = None
        self._lock.close()

    def _spec(self) -> GpuSpec:
        """The specification of this GPU: from specs.toml by its name, with its own architecture, SM count and
        L2 size. For a GPU that is not listed, peak rates so high that no kernel exceeds them."""
        major, minor = self._properties.major, self._properties.minor
        suffix = "a" if major >= HOPPER_AND_LATER else ""
        actual = {
            "architecture": f"sm_{major}{minor}{suffix}",
            "multiprocessors": self._properties.multi_processor_count,
            "l2_mb": self._properties.L2_cache_size / 1e6,
        }
        name = self._properties.name  # without a remark on the sandbox
        known = spec_named(name)
        if known is None:
            ffma = self._properties.multi_processor_count * 256 * 2.0e9 / 1e12
            known = GpuSpec(
                name=name.lower().replace(" ", "-"),
                title=name,
                architecture="",
                multiprocessors=0,
                dram_gb_s=10_000,
                l2_mb=0,
                fp32_tflops=ffma,
                tf32_tflops=16 * ffma,
                fp16_tflops=32 * ffma,
                source="not listed: generous bounds from the number of SMs",
            )
        return known.model_copy(update=actual)


class _Runner(ReplayRunner):
    """A runner that hands its player, the process that replays the launches, to `retire` when it is closed,
    to be killed. If `retire` is None, the player belongs to a tool like ncu and ends with it."""

    retire: Callable[[PlayerProcess], None] | None = None

    def close(self) -> None:
        if self.retire is not None:
            self.retire(self._player)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
