"""How candidates are timed: measured on the GPU, or modelled on the emulator where there is no GPU."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelblaster.devices.device import CandidateDied, CandidateHung, Device, Runner
from kernelblaster.judge.cases import SecretDraw
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.emulate import LARGEST_BYTES
from kernelblaster.judge.layout import Layout
from kernelblaster.judge.modelled import ModelledTimer
from kernelblaster.judge.prepare import Prepared
from kernelblaster.judge.profile import Profiled, profile_candidates
from kernelblaster.judge.stop import failure
from kernelblaster.judge.timing import Timer, conclude
from kernelblaster.judge.verify import Verifier
from kernelblaster.ptx.machine import NotEmulated
from kernelblaster.records import Accepted, Outcome, Profile, Timing, Unsupported
from kernelblaster.records.profile import Depth

BASELINE_CALLS = 3  # of which the fastest counts, where a slow candidate is held against it


@dataclass(frozen=True)
class VerifiedCandidate:
    """A candidate that passed verification and is still loaded in `runner`, ready to be timed. `prepared` is
    its task with the reference, `binary` the compiled candidate. `verifier` has verified it, and knows the
    error bounds of its outputs. `draw` holds the secret seeds."""

    prepared: Prepared
    binary: Binary
    runner: Runner
    verifier: Verifier
    draw: SecretDraw


@dataclass(frozen=True)
class Timed:
    """Result of `Clock.time`. `result` is the timing, or the outcome of a candidate that failed while being
    timed. `profile` is the profile from which the modelled clock took its time; None by the measured
    clock."""

    result: Timing | Outcome
    profile: Profile | None = None


class Clock(Protocol):
    """How candidates are timed: measured or modelled. `stage` names it in progress messages ("timing").
    `largest_bytes` is None on a GPU, where candidates run at the primary workload (the sizes that are timed).
    On the emulator they run at smaller workloads only: those whose tensors take at most `largest_bytes`
    together."""

    stage: str
    largest_bytes: int | None

    def time(self, verified: VerifiedCandidate) -> Timed:
        """Times a candidate against its baseline (PyTorch, or the user's kernel) at the primary workload, the
        sizes that are timed. `verified` has the candidate, which has just passed verification and is still
        loaded. Returns a `Timed`, which holds the timing, or the outcome if the candidate failed."""
        ...

    def baseline_us(self, prepared: Prepared) -> Callable[[Layout], float] | None:
        """If the device is a GPU, returns a function that measures the time of the baseline of the task in
        `prepared`. Its argument is a layout of the primary workload (the timed sizes) whose tensors are
        filled with values. It returns the baseline's time on these values in us: measured at the first call
        for a task, the same number at later calls. Where times are modelled, there is no such function:
        returns None."""
        ...

    def profiles(
        self, wanted: Sequence[tuple[Prepared, Sequence[Binary]]], *, depth: Depth
    ) -> list[list[Profile]]:
        """Profiles of candidates at the primary workload (the sizes that are timed). `wanted` has pairs: a
        task with what was prepared for it (`Prepared`), and its compiled candidates, which must have passed
        verification. Returns for each pair a list with one profile per candidate. `depth` says how much is
        collected: "quick" (what performance states are named from), "usual" (also the profiler's advice) or
        "detailed" (also counts by instruction)."""
        ...

    def forget(self) -> None:
        """Drops what the clock remembers about tasks from one call to the next, such as baseline times. The
        judge calls it when it is closed."""
        ...


class MeasuredClock:
    """Times candidates on a GPU (`device`). Baseline and candidate are run in pairs, one run of each; a
    timing has the medians of both and the speedup. With `keep_samples`, it also has every pair of times
    (baseline, candidate) in us."""

    stage = "timing"
    largest_bytes: int | None = None

    def __init__(self, device: Device, *, keep_samples: bool) -> None:
        self._device = device
        self._keep_samples = keep_samples
        self._baseline_us: dict[str, float] = {}

    def time(self, verified: VerifiedCandidate) -> Timed:
        prepared = verified.prepared
        timer = Timer(
            self._device,
            prepared.task,
            prepared.baseline,
            verified.runner,
            verified.draw.seeds[2],
            verified.verifier.primary_errors(),
            verified.verifier.leash,
            keep_samples=self._keep_samples,
        )
        return Timed(timer.time(prepared.floor))

    def baseline_us(self, prepared: Prepared) -> Callable[[Layout], float] | None:
        digest = prepared.task.digest

        def measured(layout: Layout) -> float:
            if digest not in self._baseline_us:
                baseline = prepared.baseline.at(prepared.task.primary)
                baseline.adopt(layout)
                self._baseline_us[digest] = min(baseline.timed(layout)[0] for _ in range(BASELINE_CALLS))
            return self._baseline_us[digest]

        return measured

    def profiles(
        self, wanted: Sequence[tuple[Prepared, Sequence[Binary]]], *, depth: Depth
    ) -> list[list[Profile]]:
        jobs = [Profiled(p.task, p.baseline, binaries) for p, binaries in wanted]
        profiles = profile_candidates(self._device, [job for job in jobs if job.binaries], depth=depth)
        return [next(profiles) if job.binaries else [] for job in jobs]

    def forget(self) -> None:
        self._baseline_us.clear()


class ModelledClock:
    """Models the times of candidates on the emulator (`device`): they are run at small workloads only, and
    the time at the primary workload (the timed sizes) is modelled from the instructions and memory accesses
    of some blocks."""

    stage = "modelling time"
    largest_bytes: int | None = LARGEST_BYTES

    def __init__(self, device: Device) -> None:
        self._device = device
        self._timers: dict[str, ModelledTimer] = {}
        self._latest: ModelledTimer | None = None

    def time(self, verified: VerifiedCandidate) -> Timed:
        """Models the time of the candidate in `verified` at the primary workload, and compares it with the
        baseline's. Returns a `Timed`, which holds the timing, or the outcome if the candidate fails or cannot
        be emulated; and the modelled profile, if there is one. If the candidate seems faster, its time is
        modelled once more from other blocks, drawn in secret; 32 times if its kernels read clocks. If one of
        these times is more than 1.2 times the first one, the longest counts instead of the first."""
        timer, floor = self._timer(verified.prepared), verified.prepared.floor
        try:
            profile = timer.profiles([verified.binary])[0]
            timed = timer.time(profile, floor)
            if isinstance(timed, Timing) and isinstance(conclude(timed.speedup), Accepted):
                profile = timer.slowest(verified.binary, profile, random.Random(verified.draw.seeds[2]))
                timed = timer.time(profile, floor)
        except (CandidateDied, CandidateHung) as error:
            return Timed(failure(error, "time", "primary workload"))
        except NotEmulated as error:
            return Timed(Unsupported(reason=str(error)))
        return Timed(timed, profile)

    def baseline_us(self, prepared: Prepared) -> Callable[[Layout], float] | None:
        return None

    def profiles(
        self, wanted: Sequence[tuple[Prepared, Sequence[Binary]]], *, depth: Depth
    ) -> list[list[Profile]]:
        """Returns for each pair in `wanted` (a task with what was prepared for it; its compiled candidates) a
        list with one modelled profile per candidate, at the primary workload (the sizes that are timed).
        `depth` has no effect."""
        return [self._timer(prepared).profiles(binaries) for prepared, binaries in wanted]

    def forget(self) -> None:
        self._timers.clear()
        self._latest = None

    def _timer(self, prepared: Prepared) -> ModelledTimer:
        """The timer that models candidates of this task, made once; frees the values that the previous task's
        timer kept."""
        digest = prepared.task.digest
        if digest not in self._timers:
            self._timers[digest] = ModelledTimer(self._device, prepared.task, prepared.baseline)
        timer = self._timers[digest]
        if self._latest is not None and self._latest is not timer:
            self._latest.forget_values()  # those of one task at a time are enough
        self._latest = timer
        return timer


def clock_of(device: Device, *, keep_samples: bool) -> Clock:
    """The clock for a device: a `ModelledClock` if the device is the emulator, else a `MeasuredClock`, which
    keeps every pair of times if `keep_samples`."""
    return ModelledClock(device) if device.modelled else MeasuredClock(device, keep_samples=keep_samples)
