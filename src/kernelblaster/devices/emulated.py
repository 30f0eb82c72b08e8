"""The emulated device: runs candidates without a GPU. Host code is recorded as for a GPU and the launches are
replayed on the PTX machine, which checks every access and counts every instruction. Times are modelled from
the cost of some blocks of each launch."""

import itertools
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import torch

from kernelblaster.devices.device import (
    Arena,
    Argument,
    BatchReport,
    CallReport,
    CandidateDied,
    GpuFacts,
    ProfileJob,
    Slot,
    TimeReport,
)
from kernelblaster.devices.device_code import PTX, device_code
from kernelblaster.devices.launch_list import LaunchList, RecordedLaunch
from kernelblaster.devices.modelled_facts import facts_of
from kernelblaster.devices.modelled_profile import modelled_profile
from kernelblaster.devices.native_build import emulating_player
from kernelblaster.devices.occupancy import WARP, blocks_per_sm, limits_of
from kernelblaster.devices.player_process import PlayerProcess, start_player
from kernelblaster.devices.recorder import Recorder
from kernelblaster.devices.replay import ReplayRunner
from kernelblaster.devices.specs import GpuSpec, gpu_named
from kernelblaster.devices.window import rounded
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.ptx.machine import Draws, NotEmulated
from kernelblaster.records import Profile
from kernelblaster.settings import settings

DEFAULT_GPU = "h200"
REPEATED_BYTES = 16 << 20  # of each tensor: what a caller of `profile` fills; the rest repeats it
PAGE = 4096  # slots of the arena are multiples of this: the machine knows every tensor's own bounds
PORTABLE_CLUSTER = 8
PATIENCE = 6


class EmulatedDevice:
    """The PTX machine (an emulator on the CPU) as a `Device` to run candidates on. `gpu` is the GPU that it
    stands for, by short name or specification. `facts` are the properties that candidates' host code sees; by
    default they follow from the specification."""

    modelled = True
    protects_inputs = True
    patience = PATIENCE
    most_threads = 1 << 22
    facts = None
    torch_device = torch.device("cpu")

    def __init__(self, gpu: str | GpuSpec = DEFAULT_GPU, facts: GpuFacts | None = None) -> None:
        self.spec: GpuSpec = gpu_named(gpu) if isinstance(gpu, str) else gpu
        self._executable = emulating_player()
        self._recorder = Recorder()
        self._gpu = facts or facts_of(self.spec)
        self._memory: int | None = None  # descriptor of the file behind the arena
        self._arena: Arena | None = None

    @property
    def name(self) -> str:
        return f"PTX machine ({self.spec.title}){self._recorder.remark}"

    def arena(self, sizes: Sequence[int] = (), spare: int = 0) -> Arena:
        """Returns the memory that candidates work on, with a slot for each of `sizes` in bytes (rounded up to
        4 KiB pages) and `spare` further bytes for the judge. If the sizes differ from those of the present
        memory, new memory is made; runners that were started before keep the old one mapped. Without `sizes`:
        the present memory."""
        pages = [rounded(size, PAGE) for size in sizes]
        extra = rounded(spare, PAGE) if spare else 0
        known = [slot.bytes for slot in self._arena.slots] if self._arena else None
        if self._arena is None or (
            sizes and (known != pages or self._arena.memory.numel() != sum(pages) + extra)
        ):
            self._forget()
            total = sum(pages) + extra
            self._memory = os.memfd_create("kernelblaster-arena")
            os.ftruncate(self._memory, total)
            path = f"/proc/self/fd/{self._memory}"
            memory = torch.from_file(path, shared=True, size=total, dtype=torch.uint8)
            starts = itertools.accumulate(pages, initial=0)
            slots = tuple(Slot(start, size) for start, size in zip(starts, pages, strict=False))
            self._arena = Arena(memory, slots)
        assert self._arena is not None, "the first call gives sizes"
        return self._arena

    def start(self, binary: Path) -> "EmulatedRunner":
        arena = self.arena()
        assert self._memory is not None
        player = start_player(self._executable, [], {}, computes=True)
        try:
            runner = EmulatedRunner(
                player,
                self._recorder,
                binary,
                self._gpu,
                arena,
                lambda question: _answer(self.spec, binary, question),
                lambda arguments: self.profile([ProfileJob(binary, tuple(arguments), "primary")])[0],
                lambda launch: _resident(self.spec, binary, launch),
            )
            player.wait_ready()
            player.share([self._memory])
            slots = " ".join(f"{slot.start} {slot.bytes}" for slot in arena.slots)
            runner.ask(f"slots {len(arena.slots)} {slots}")
            runner.draw(Draws(secrets.randbits(63)))
            runner.load(binary.parent / PTX)
        except BaseException:
            player.kill()
            raise
        return runner

    def settle(self) -> None:
        pass

    def clock_mhz(self) -> float | None:
        return None

    def time_reference(self, run: Callable[[], object]) -> float:
        raise KernelBlasterError("PyTorch cannot be timed on the emulated device: it has no clock.")

    def profile(self, jobs: Sequence[ProfileJob]) -> list[Profile]:
        """Returns one profile with modelled times for each job (one call of a candidate). The caller need not
        fill large tensors completely: reads beyond the first 16 MiB (REPEATED_BYTES, rounded up to a whole
        page) wrap around to the tensor's beginning."""
        return [self._profile(job) for job in jobs]

    def _profile(self, job: ProfileJob) -> Profile:
        runner = self.start(job.binary)
        try:
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
        self._recorder.close()
        self._forget()

    def _forget(self) -> None:
        """Close the file behind the arena (the memory that candidates work on); runners that have it mapped
        keep it."""
        self._arena = None
        if self._memory is not None:
            os.close(self._memory)
            self._memory = None


class EmulatedRunner(ReplayRunner):
    """A candidate loaded in the PTX machine, the emulator. `recorder` records the launches of its host code,
    and `player` replays them on the tensors in `arena`. `binary` is its shared object. When its host code
    queries the GPU, it is told the properties `gpu`; for anything else that it asks, `answer` gets the
    question as text and returns a number. `model(arguments)` returns the modelled profile of a call, from
    which times are taken. `resident(launch)` says how many clusters of a launch the GPU runs at once (blocks,
    if the launch has no clusters).

    Two attributes describe the last call. `doubtful`: some volatile or relaxed read might have returned an
    older value on real hardware. `exhausted`: the call was ended because it took more work than
    `Draws.most_work`.
    """

    doubtful = False
    exhausted = False

    def __init__(
        self,
        player: PlayerProcess,
        recorder: Recorder,
        binary: Path,
        gpu: GpuFacts,
        arena: Arena,
        answer: Callable[[str], int],
        model: Callable[[Sequence[Argument]], Profile],
        resident: Callable[[RecordedLaunch], int],
    ) -> None:
        super().__init__(player, recorder, binary, gpu, arena, answer, settings().call_limit_s)
        self._model = model
        self._resident = resident
        self._numbered = 0  # calls of which the player knows how many blocks run at once
        self._restored = False

    def draw(self, draws: Draws, *, restored: bool = False) -> None:
        """Sets, for all later calls, the random choices and the limits of the emulator. The fields of `draws`
        say how it decides where hardware leaves something open, such as the order of warps. SM and warp
        counts are not taken from `draws`, but from the device's GPU. With `restored`, global variables are
        reset to their initial values before every call."""
        known = self._candidate.gpu.attributes
        drawn = replace(draws, multiprocessors=known[16], warp_slots=known[39] // WARP)
        self.ask(" ".join(["draws", *(str(word) for word in drawn.words)]))
        self._restored = restored

    def ask(self, command: str, limit_s: float | None = None) -> dict[str, Any]:
        """Sends a command to the emulating process and returns its answer. The time limit is `limit_s`
        seconds; None: 60 s, six times (PATIENCE) the limit of a call on a GPU (`call_limit_s` of the
        settings). Raises NotEmulated if the emulator lacks an instruction, unless it had already found an
        error in the same call; then the answer reports that error. Raises DeviceLost if the emulator itself
        fails; CandidateDied or CandidateHung."""
        answer = super().ask(command, limit_s or PATIENCE * self._limit_s)
        reports = [work.get("report", {}) for work in answer.get("work", [])]
        self.doubtful = any(report.get("doubtful", False) for report in reports)
        self.exhausted = any(report.get("exhausted", False) for report in reports)
        faulty = any(report.get("findings") for report in reports)
        for work in answer.get("work", []):
            report = work.get("report", {})
            if "unsupported" in report and not faulty:
                raise NotEmulated(f"{work['name']}: not emulated: {report['unsupported']}")
            if "error" in report:
                raise DeviceLost(f"the emulator failed in {work['name']}: {report['error']}")
        if not faulty and "not emulated" in str(answer.get("error", "")):
            raise NotEmulated(str(answer["error"]))
        return answer

    def mapped(self, arguments: Sequence[Argument], *, alone: bool = False) -> int:
        """Prepares a call with these `arguments` in the emulating process, if that was not done before: sends
        its launch list (the recorded launches and copies, as lines), maps the memory of its tensors, and
        tells how many blocks of each launch run at once. Returns the number by which later commands name the
        call. With `alone`, the memory of all other calls is unmapped first."""
        number = super().mapped(arguments, alone=alone)
        if number > self._numbered:
            self._numbered = number
            clusters = [self._resident(launch) for launch in self.recorded(arguments).launches]
            self.ask(" ".join(str(word) for word in ("resident", number, *clusters)))
        return number

    def _coin(self) -> int:
        """1 to reset global variables before the next call, 0 to keep them: drawn at random, but always 1
        after `draw(..., restored=True)`."""
        return 1 if self._restored else super()._coin()

    def report(self, launches: LaunchList, answer: dict[str, Any]) -> CallReport:
        """Makes the report of a call. `launches` is what its host code asked for, `answer` is what the
        emulator reported after executing it. The report has what a GPU's has, and in addition: (1) each entry
        of `work` has the emulator's counters; (2) `findings` has a line of text for each fault that the
        emulator found; (3) `live_bytes` and `leaks` include memory that kernels allocated with malloc and did
        not free."""
        report = super().report(launches, answer)
        reports = [work.get("report", {}) for work in answer.get("work", [])]
        findings = [finding for one in reports for finding in one.get("findings", [])]
        work = zip(report.work, reports, strict=True)
        heap = int(answer.get("heap_bytes", 0))
        leak = (f"leak: {heap} bytes of malloc in kernels were never freed",) if heap else ()
        return replace(
            report,
            live_bytes=report.live_bytes + heap,
            leaks=(*report.leaks, *leak),
            work=tuple(replace(one, counts=of.get("counts")) for one, of in work),
            findings=tuple(
                f"{f['kind']} in {f['kernel']}, line {f['line']}, block {f['block']}, thread {f['thread']}: "
                f"{f['detail']}"
                for f in findings
            ),
        )

    def call(
        self,
        arguments: Sequence[Argument],
        *,
        scratch_poison: int,
        accounting: bool,
        kept: bool = False,
        limit_s: float | None = None,
    ) -> CallReport:
        called = super().call(
            arguments, scratch_poison=scratch_poison, accounting=accounting, kept=kept, limit_s=limit_s
        )
        return self._with_durations(called, arguments) if accounting else called

    def time(self, arguments: Sequence[Argument]) -> TimeReport:
        """Runs one call with these `arguments` and models its time: the sum of the modelled durations of its
        kernels, copies and fills in us. All times in the report are equal to this sum, except `flush_us`,
        which is 0."""
        called = self.call(arguments, scratch_poison=-1, accounting=True)
        total_us = sum(work.duration_us or 0.0 for work in called.work)
        return TimeReport(called, total_us, total_us, total_us, total_us, flush_us=0.0)

    def again(self, arguments: Sequence[Argument], count: int) -> BatchReport:
        total_us = count * self.time(arguments).event_us
        return BatchReport(total_us, total_us)

    def _with_durations(self, called: CallReport, arguments: Sequence[Argument]) -> CallReport:
        """The report `called` with a modelled duration in us for each launch, copy and fill."""
        pairs = zip(called.work, self._model(arguments).kernels, strict=True)
        return replace(called, work=tuple(replace(w, duration_us=k.duration_us) for w, k in pairs))


def _resident(spec: GpuSpec, binary: Path, launch: RecordedLaunch) -> int:
    """How many clusters of a launch, or blocks where it has none, the GPU runs at once, from ptxas' report; 0
    if there is no report."""
    known = device_code(binary.parent).kernels.get(launch.kernel)
    if known is None or known.resources is None:
        return 0
    resources = known.resources
    shared = resources.shared_bytes + launch.shared_bytes
    blocks = blocks_per_sm(spec.architecture, prod(launch.block), resources.registers, shared)
    return max(1, blocks * spec.multiprocessors // max(1, prod(launch.cluster)))


def _answer(spec: GpuSpec, binary: Path, question: str) -> int:
    """The result of a CUDA occupancy function, computed from ptxas' report. `question` is the text that the
    recorder of host code passes on: the kind (blocks, clusters, cluster_size, shared), the mangled kernel,
    threads, shared memory or blocks. Raises CandidateDied for another kind."""
    kind, kernel, threads, other, *rest = question.split(" ")
    known = device_code(binary.parent).kernels.get(kernel)
    resources = known.resources if known else None
    registers, static = (resources.registers, resources.shared_bytes) if resources else (32, 0)
    limits = limits_of(spec.architecture)
    if kind == "shared":
        return limits.shared_bytes // max(1, int(other)) - limits.reserved_shared_bytes - static
    blocks = blocks_per_sm(spec.architecture, int(threads), registers, static + int(other))
    if kind == "blocks":
        return blocks
    if kind == "clusters":
        return max(1, blocks) * spec.multiprocessors // max(1, int(rest[0]))
    if kind == "cluster_size":
        return PORTABLE_CLUSTER
    raise CandidateDied(f"a question about the GPU that nobody can answer: {kind}")
