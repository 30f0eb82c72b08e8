"""Loads one candidate on the device, verifies it, and times it if it is correct."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch

from kernelblaster.devices import activity
from kernelblaster.devices.device import CandidateDied, CandidateHung, Device, Runner
from kernelblaster.judge.baseline import KernelBaseline
from kernelblaster.judge.cases import SecretDraw
from kernelblaster.judge.clock import Clock, Timed, VerifiedCandidate
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.emulate import counters
from kernelblaster.judge.host_check import check_host_code
from kernelblaster.judge.layout import Layout, slot_bytes, spare_bytes
from kernelblaster.judge.options import Progress, silent
from kernelblaster.judge.order_check import with_note
from kernelblaster.judge.order_sizes import primary_call
from kernelblaster.judge.prepare import Prepared
from kernelblaster.judge.profile import with_resources
from kernelblaster.judge.slow_call import SlowCall
from kernelblaster.judge.stop import failure
from kernelblaster.judge.timing import conclude, floor_us
from kernelblaster.judge.verify import Verifier
from kernelblaster.ptx.machine import NotEmulated
from kernelblaster.records import Accepted, Outcome, Profile, Timing, Unsupported, Verification
from kernelblaster.records.profile import MOST_KERNELS


@dataclass(frozen=True)
class Checked:
    """The result of verification alone: `outcome` is a `Verification` if the candidate passed, else the
    outcome that says what is wrong. `counters` are the emulator's counts in the last verified call; None on a
    GPU."""

    outcome: Verification | Outcome
    counters: Profile | None = None


@dataclass(frozen=True)
class Judged:
    """What verification, timing and profiling of one candidate gave: the fields of its `Evaluation` that do
    not come from compilation. `outcome` is the verdict, `counters` are what the emulator counted in the last
    verified call; None for a stage that was not reached."""

    outcome: Outcome
    verification: Verification | None = None
    timing: Timing | None = None
    counters: Profile | None = None
    profile: Profile | None = None


class CandidateUnderTest:
    """A compiled candidate (`binary`) for the task in `prepared`, to be verified on `device`, or verified and
    timed by `clock`. `draw` holds the seeds of all random choices and, if they are to be repeated, the
    verification cases. Each method loads the candidate anew in processes of its own. `progress` is called
    with the name of each stage."""

    def __init__(
        self,
        device: Device,
        clock: Clock,
        prepared: Prepared,
        binary: Binary,
        draw: SecretDraw,
        progress: Progress = silent,
    ) -> None:
        self._device = device
        self._clock = clock
        self._prepared = prepared
        self._binary = binary
        self._draw = draw
        self._progress = progress

    def verify(self) -> Checked:
        """Loads and verifies the candidate. The result holds a `Verification` if the candidate passed, else
        the outcome that says what is wrong; the outcome is Unsupported if the emulator lacks an
        instruction."""
        try:
            with self._loaded() as runner:
                if not isinstance(runner, Runner):
                    return Checked(runner)
                return self._verify(self._verifier(runner))
        except NotEmulated as error:
            return Checked(Unsupported(reason=str(error)))

    def verify_and_time(self) -> Judged:
        """Loads, verifies and times the candidate. Returns a `Judged`: the outcome, with what verification,
        timing and profiling found as far as they were reached. The outcome follows from the speedup
        (Accepted, Inconclusive, Slower), or is the first failure; it is Unsupported if the emulator lacks an
        instruction. Before a candidate is Accepted, its host code is checked for a use of addresses
        (`check_host_code`)."""
        try:
            with self._loaded() as runner:
                if not isinstance(runner, Runner):
                    return Judged(runner)
                verifier = self._verifier(runner, self._clock.baseline_us(self._prepared))
                checked = self._verify(verifier)
                if not isinstance(checked.outcome, Verification):
                    return Judged(checked.outcome, counters=checked.counters)
                if verifier.slow is not None:
                    return self._slower(verifier.slow, checked.outcome)
                self._progress(self._clock.stage)
                timed = self._clock.time(
                    VerifiedCandidate(self._prepared, self._binary, runner, verifier, self._draw)
                )
                return self._concluded(runner, checked.outcome, timed, checked.counters)
        except NotEmulated as error:
            return Judged(Unsupported(reason=str(error)))

    def _concluded(
        self, runner: Runner, verification: Verification, timed: Timed, counted: Profile | None
    ) -> Judged:
        """The verdict on a verified candidate that was `timed`, while it is still loaded in `runner`. If it
        is faster, its host code is first executed instruction by instruction, to see whether it depends on
        addresses. `counted` are the emulator's counts."""
        result, profile = timed.result, timed.profile.shortened() if timed.profile else None
        if not isinstance(result, Timing):
            return Judged(result, verification, None, counted, profile)
        outcome = conclude(result.speedup)
        if isinstance(outcome, Accepted):
            prepared = self._prepared
            found = check_host_code(runner, primary_call(prepared.task, prepared.baseline.scalars))
            if not isinstance(found, str):
                return Judged(found, verification, None, counted, profile)
            verification = with_note(verification, found)
        return Judged(outcome, verification, result, counted, profile)

    @contextmanager
    def _loaded(self) -> Iterator[Runner | Outcome]:
        """A context with the candidate loaded in processes of its own and memory set up for its workloads;
        yields its runner, or the outcome if loading failed."""
        prepared, baseline = self._prepared, self._prepared.baseline
        slots, spare = prepared.slots, prepared.spare
        if self._draw.cases:
            workloads = (*prepared.planner.workloads, *(case.workload for case in self._draw.cases))
            slots = slot_bytes(prepared.task.signature, workloads)
            spare = spare_bytes(prepared.task.signature, workloads)
        self._device.arena(slots, spare)
        if isinstance(baseline, KernelBaseline):
            baseline.start()
        try:
            runner: Runner | Outcome = self._device.start(self._binary.path)
        except (CandidateDied, CandidateHung) as error:
            runner = failure(error, "verify", "while being loaded")
        try:
            yield runner
        finally:
            if isinstance(runner, Runner):
                runner.close()
            baseline.close()

    def _slower(self, slow: SlowCall, verification: Verification) -> Judged:
        """The verdict on a candidate that is hopelessly slow: timed by the one call `slow`, which is its
        profile, too."""
        prepared, device = self._prepared, self._device
        outcome = slow.outcome
        timing = Timing(
            baseline=prepared.baseline.title,
            baseline_us=slow.baseline_us,
            candidate_us=slow.candidate_us,
            speedup=outcome.speedup,
            samples=1,
            candidate_wall_us=None,
            candidate_activity_us=slow.candidate_us,
            floor_us=floor_us(device.spec, prepared.task, prepared.floor),
            seconds=0.0,
        )
        profile = activity.profile_of([slow.work], prepared.task.primary.name, device.name)
        resources = self._binary.compilation.resources
        profile = with_resources(profile, resources, device.spec.architecture)
        return Judged(outcome, verification, timing, None, profile.shortened())

    def _verifier(self, runner: Runner, baseline_us: Callable[[Layout], float] | None = None) -> Verifier:
        """A verifier for the loaded candidate, with the cases of the secret draw, or newly planned ones if it
        has none. `baseline_us`, which measures the baseline's time, has it end early for one that is
        hopelessly slow; not where cases are given."""
        plan, values, _ = self._draw.seeds
        prepared = self._prepared
        cases = list(self._draw.cases) if self._draw.cases else prepared.planner.draw(plan)
        return Verifier(
            self._device,
            prepared.task,
            prepared.baseline,
            runner,
            values,
            cases,
            rounding=prepared.rounding,
            baseline_us=None if self._draw.cases else baseline_us,
        )

    def _verify(self, verifier: Verifier) -> Checked:
        """Run all cases of the verifier; returns its result with the emulator's counters of the last call, if
        any."""
        self._progress("verifying")
        with one_thread() if self._clock.largest_bytes is not None else nullcontext():
            outcome = verifier.verify()
        if isinstance(outcome, Verification) and not self._draw.cases:
            notes = (*outcome.notes, *self._prepared.planner.cut_short)
            outcome = outcome.model_copy(update={"notes": notes})
        return Checked(outcome, counters(self._device.name, "small", verifier.work[:MOST_KERNELS]))


@contextmanager
def one_thread() -> Iterator[None]:
    """A context in which PyTorch runs on one host thread: at small sizes, waking further threads takes longer
    than computing."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
