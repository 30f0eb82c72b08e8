"""`DeviceJudge`, the judge of one device: screens, compiles, verifies, times and profiles candidates (CUDA
sources for a task), and decides the outcome."""

import secrets
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace

import torch

from kernelblaster.devices.device import Device
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.case import Case
from kernelblaster.judge.cases import SecretDraw
from kernelblaster.judge.clock import clock_of
from kernelblaster.judge.compile import Binary, compile_candidate, compilers
from kernelblaster.judge.estimate import Estimator, estimates
from kernelblaster.judge.needs import out_of_memory
from kernelblaster.judge.options import EvaluationOptions
from kernelblaster.judge.order_check import OrderCheck, with_note
from kernelblaster.judge.prepare import Prepared, TaskPreparer
from kernelblaster.judge.sanitize import CLEAN, sanitize
from kernelblaster.judge.size_check import SizeCheck, SizesRun, was_run
from kernelblaster.judge.sweep import variants
from kernelblaster.judge.under_test import CandidateUnderTest, Checked, Judged
from kernelblaster.judge.verified_profiles import VerifiedProfiles
from kernelblaster.records import (
    Accepted,
    Candidate,
    Evaluation,
    Fitness,
    Floor,
    Inconclusive,
    Outcome,
    Profile,
    Rejected,
    RuntimeFailed,
    Slower,
    Task,
)
from kernelblaster.records.outcome import CORRECT
from kernelblaster.records.profile import Depth


class DeviceJudge:
    """Verifies, times and profiles candidates (CUDA sources for a task) on one device. `options` say what an
    evaluation includes; None: the defaults of EvaluationOptions. References and error bounds of each task are
    prepared once and kept. The caller opens the device and closes it. Not for use from several threads at
    once, except for `compile`."""

    def __init__(self, device: Device, options: EvaluationOptions | None = None) -> None:
        """Use an open device. Raises KernelBlasterError if the options ask for anything but eager PyTorch as
        the baseline on the emulator, whose times are modelled."""
        self.device = device
        self.options = options or EvaluationOptions()
        if device.modelled and self.options.baseline != "eager":
            raise KernelBlasterError(
                f"--baseline {self.options.baseline} needs a GPU: only eager PyTorch is modelled."
            )
        self._clock = clock_of(device, keep_samples=self.options.keep_samples)
        self._tasks = TaskPreparer(device, self.options, self.compile, self._clock.largest_bytes)
        self._profiles = VerifiedProfiles(self._clock, self._check, self.options.progress)
        self._order_check = OrderCheck(device.spec, lambda: device.facts)
        self._size_check = SizeCheck(device)
        self._estimator = Estimator(device.spec, lambda: device.facts)

    def evaluate(self, task: Task, candidate: Candidate, draw: SecretDraw | None = None) -> Evaluation:
        """Compiles, verifies and times one candidate for `task`. Returns its evaluation: the verdict, with
        what each stage found. A bad candidate is an outcome in it, not an exception. `draw` repeats the
        random choices (seeds) of an earlier evaluation; None draws new ones. Raises BadTask if the task is
        unfit, DeviceLost if the device fails."""
        self.options.progress("compiling")
        start = time.perf_counter()
        return self.finish(task, candidate, self.compile(task, candidate), start, draw)

    def cases(self, task: Task, seed: int) -> tuple[Case, ...]:
        """Returns the verification cases (sizes and kinds of values) that this judge uses in an evaluation of
        a candidate for `task` with this seed. Another judge has other cases for the same seed, because each
        judge draws once, in secret, which sizes its cases may have."""
        return tuple(self._tasks.prepare(task).planner.draw(SecretDraw(seed).seeds[0]))

    def check(self, task: Task, candidate: Candidate) -> Checked:
        """Compiles and verifies a candidate for `task` without timing it. The result's `outcome` is a
        `Verification` if the candidate passed, else the outcome that says what is wrong with it."""
        self.options.progress("compiling")
        binary = self.compile(task, candidate)
        if not isinstance(binary, Binary):
            return Checked(binary)
        return self._check(self._tasks.prepare(task), binary)

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        """Yields an evaluation for each job (a task and a candidate), in the order of the jobs, as soon as it
        is done; later jobs are compiled while earlier ones are judged."""
        with compilers() as pool:
            started = time.perf_counter()
            for own in {task.digest: task for task, _ in jobs if task.kind == "cuda"}.values():
                pool.submit(self.compile, own, Candidate(source=own.source))  # kept for its preparation
            waiting: list[Future[Binary | Outcome]] = [
                pool.submit(self.compile, task, candidate) for task, candidate in jobs
            ]
            try:
                for (task, candidate), binary in zip(jobs, waiting, strict=True):
                    yield self.finish(task, candidate, binary.result(), started)
                    started = time.perf_counter()
            finally:
                for binary in waiting:
                    binary.cancel()

    def sweep(self, task: Task, candidate: Candidate) -> tuple[Evaluation, list[Evaluation]]:
        """Evaluates the candidate for `task` with every combination of values of its source's tunable
        constants. Returns (the evaluation of the fastest correct one, or the first evaluation if none is
        correct; all evaluations)."""
        jobs = [(task, variant) for variant in variants(candidate)]
        evaluations = []
        for number, evaluation in enumerate(self.evaluate_many(jobs), 1):
            self.options.progress(f"variant {number} of {len(jobs)}: {evaluation.outcome.kind}")
            evaluations.append(evaluation)
        correct = [e for e in evaluations if e.timing is not None and isinstance(e.outcome, CORRECT)]
        if not correct:
            return evaluations[0], evaluations
        return max(correct, key=_estimate), evaluations

    def profile(
        self, task: Task, candidates: Sequence[Candidate], *, depth: Depth = "detailed"
    ) -> list[Profile | Outcome]:
        """Returns for each candidate for `task` its profile at the primary workload (the timed sizes), or its
        outcome if it does not compile or fails verification. Candidates that this judge has found correct
        before are not verified again. All are profiled in one start of the profiler. `depth` says how much is
        collected: "quick" (what performance states are named from), "usual" (also the profiler's advice) or
        "detailed" (also counts by instruction)."""
        return self.profile_many([(task, candidates)], depth=depth)[0]

    def profile_many(
        self, wanted: Sequence[tuple[Task, Sequence[Candidate]]], *, depth: Depth = "detailed"
    ) -> list[list[Profile | Outcome]]:
        """Profiles candidates of several tasks at their primary workloads (the timed sizes). `wanted` has
        pairs: a task, and candidates for it. Returns for each pair a list with the profile of each candidate,
        or the candidate's outcome if it does not compile or fails verification. Tasks whose tensors take at
        most 4 GiB together are profiled in one start of the profiler. `depth` says how much is collected:
        "quick" (what performance states are named from), "usual" (also the profiler's advice) or "detailed"
        (also counts by instruction)."""
        self.options.progress("compiling")
        compiled = [
            (self._tasks.prepare(task), [(one, self.compile(task, one)) for one in candidates])
            for task, candidates in wanted
        ]
        return self._profiles.profile(compiled, depth)

    def estimate(self, task: Task, candidates: Sequence[Candidate]) -> list[float | None]:
        """Returns the modelled time in us of each candidate for `task` at the primary workload (the timed
        sizes), from the emulator and without verification; None where it does not compile, fails, or cannot
        be modelled. Candidates are compiled in parallel."""
        self.options.progress("estimating")
        return estimates(self._estimator, task, candidates, self.device.spec.architecture)

    def prepare(self, task: Task) -> tuple[Fitness, Floor]:
        """Returns (fitness, floor) of a task: the fitness says whether candidates for it can be verified and
        timed, the floor is the least memory traffic and arithmetic that any kernel for it needs. Computed on
        this device at the first call, remembered after. Raises BadTask if the task is unfit."""
        prepared = self._tasks.prepare(task)
        return prepared.fitness, prepared.floor

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """Makes the checks that are too costly to be made for every candidate, and returns `evaluation` with
        their results. The checks are the emulator's search for races and memory-order errors and, if times
        are modelled, a run at the sizes that the time was modelled for. Each check that passes adds a note;
        one that finds an error replaces the outcome by that error. A check whose note the evaluation already
        has is left out. The evaluation of a candidate that is not correct is returned unchanged."""
        if self.device.modelled:
            evaluation = self._confirmed_at_size(task, candidate, evaluation)
        return self._order_check.confirmed(task, candidate, evaluation)

    def close(self) -> None:
        """Forget all prepared tasks and close the judge's emulators; the device stays open."""
        self._tasks.close()
        self._clock.forget()
        self._order_check.close()
        self._size_check.close()
        self._estimator.close()

    def compile(self, task: Task, candidate: Candidate) -> Binary | Outcome:
        """Screens and compiles a candidate for this device. Returns the compiled candidate; if that fails,
        the outcome that says why. Thread-safe: may run while another thread uses the device."""
        return compile_candidate(task, candidate, self.device.spec.architecture)

    def finish(
        self,
        task: Task,
        candidate: Candidate,
        binary: Binary | Outcome,
        started: float | None = None,
        draw: SecretDraw | None = None,
    ) -> Evaluation:
        """Verifies and times a `candidate` for `task` that was given to `compile` before; `binary` is what
        `compile` returned. Returns its evaluation: the verdict, with what each stage found. If compilation
        failed, that failure is the verdict. `started` (a value of time.perf_counter()) is when the
        evaluation's `seconds` begin to count; None: now. `draw` repeats the random choices of an earlier
        evaluation; None draws new ones."""
        started = time.perf_counter() if started is None else started
        draw = draw or SecretDraw(secrets.randbits(60))
        if isinstance(binary, Binary):
            judged, held_s = self._judge_held(task, candidate, binary, draw)
        else:
            judged, held_s = Judged(binary), 0.0
        return Evaluation(
            task=task.name,
            candidate=candidate.digest,
            device=self.device.name,
            outcome=judged.outcome,
            defines=candidate.defines,
            compilation=binary.compilation if isinstance(binary, Binary) else None,
            verification=judged.verification,
            timing=judged.timing,
            counters=judged.counters,
            profile=judged.profile if self.options.profile or _is_hopeless(judged.outcome) else None,
            seconds=time.perf_counter() - started,
            device_seconds=held_s,
            seed=draw.seed if isinstance(binary, Binary) else None,
        )

    def _judge_held(
        self, task: Task, candidate: Candidate, binary: Binary, draw: SecretDraw
    ) -> tuple[Judged, float]:
        """Returns (the verdict on a compiled candidate, the seconds that the device was in use for it).
        Raises BadTask if PyTorch runs out of GPU memory."""
        try:
            prepared = self._tasks.prepare(task)
            start = time.perf_counter()
            judged = self._judge(prepared, binary, draw)
            if _is_hopeless(judged.outcome):  # Nsight Compute would take longer than all the rest
                modelled = self._estimator.profile(task, binary)
                judged = judged if modelled is None else replace(judged, profile=modelled.shortened())
        except torch.cuda.OutOfMemoryError as error:
            raise out_of_memory(task) from error
        if isinstance(judged.outcome, CORRECT):
            self._profiles.remember(task, candidate)
        return judged, time.perf_counter() - start

    def _check(self, prepared: Prepared, binary: Binary) -> Checked:
        """Verify a compiled candidate with newly drawn cases and values."""
        return self._under_test(prepared, binary, SecretDraw(secrets.randbits(60))).verify()

    def _judge(self, prepared: Prepared, binary: Binary, draw: SecretDraw) -> Judged:
        """Verifies and times a compiled candidate. On a GPU, one that is faster is also checked for races in
        the emulator, before all else if the options ask for that; on the emulator, it is run at the timed
        sizes. A correct candidate is then run under compute-sanitizer and profiled, if the options say so.
        Returns the verdict of the first stage that objects; that on a hopelessly slow candidate as it is."""
        options, measured = self.options, not self.device.modelled
        note = self._look(prepared.task, binary) if options.filter is not None and measured else None
        if isinstance(note, Rejected):
            return Judged(note)
        judged = self._under_test(prepared, binary, draw).verify_and_time()
        if isinstance(judged.outcome, Accepted) and not measured:
            judged = self._at_size(prepared, binary, judged, draw)
        if isinstance(judged.outcome, RuntimeFailed) and measured:
            return replace(judged, outcome=self._located(prepared.task, binary, judged.outcome))
        if isinstance(judged.outcome, Accepted):
            # It may be faster because it lacks a synchronization, which rarely shows in its results.
            note = note or self._look(prepared.task, binary)
            if isinstance(note, Rejected):
                return replace(judged, outcome=note, timing=None)
            assert judged.verification is not None
            judged = replace(judged, verification=with_note(judged.verification, note))
        if not isinstance(judged.outcome, CORRECT) or _is_hopeless(judged.outcome):
            return judged
        if options.sanitize and measured:  # the emulator has checked every access already
            options.progress("sanitizing")
            found = sanitize(self.device, prepared, binary)
            if found is not None:
                return replace(judged, outcome=found)
            assert judged.verification is not None
            judged = replace(judged, verification=with_note(judged.verification, CLEAN))
        if options.profile and judged.profile is None:
            options.progress("profiling")
            [[profile]] = self._clock.profiles([(prepared, [binary])], depth="detailed")
            judged = replace(judged, profile=profile.shortened())
        return judged

    def _at_size(self, prepared: Prepared, binary: Binary, judged: Judged, draw: SecretDraw) -> Judged:
        """The verdict on a candidate that a model finds faster, after it was run at the modelled sizes:
        wrong, unchanged, or inconclusive because too little of it could be run there. `judged` is the verdict
        so far."""
        assert judged.timing is not None and judged.verification is not None
        self.options.progress("running at the primary sizes")
        found = self._size_check.look(prepared, binary, judged.profile, draw.seeds[2])
        if not isinstance(found, SizesRun):
            return replace(judged, outcome=found, timing=None)
        outcome = judged.outcome
        if found.missing is not None:
            reason = f"not confirmed at the primary sizes: {found.missing}"
            outcome = Inconclusive(speedup=judged.timing.speedup, reason=reason)
        return replace(judged, outcome=outcome, verification=with_note(judged.verification, found.note))

    def _confirmed_at_size(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """The part of `confirmed` that runs a correct candidate at the sizes its time is modelled for: the
        evaluation with a note added, or with the failure as its outcome; unchanged if it is not correct or
        was run before."""
        verification = evaluation.verification
        if not isinstance(evaluation.outcome, CORRECT) or verification is None or was_run(verification):
            return evaluation
        binary = self.compile(task, candidate)
        assert isinstance(binary, Binary)
        prepared = self._tasks.prepare(task)
        found = self._size_check.look(prepared, binary, evaluation.profile, secrets.randbits(60))
        if not isinstance(found, SizesRun):
            return evaluation.model_copy(update={"outcome": found, "timing": None})
        return evaluation.model_copy(update={"verification": with_note(verification, found.note)})

    def _under_test(self, prepared: Prepared, binary: Binary, draw: SecretDraw) -> CandidateUnderTest:
        return CandidateUnderTest(self.device, self._clock, prepared, binary, draw, self.options.progress)

    def _located(self, task: Task, binary: Binary, failed: RuntimeFailed) -> RuntimeFailed:
        """Adds to a failure on a GPU, which seldom says where it happened, what the emulator finds in the
        same candidate: the access, its line and its thread. Unchanged if the emulator finds nothing."""
        found = self._look(task, binary)
        if not isinstance(found, Rejected):
            return failed
        where = found.evidence.splitlines()[0]
        return failed.model_copy(update={"evidence": f"{failed.evidence}; on the PTX machine: {where}"})

    def _look(self, task: Task, binary: Binary) -> Rejected | str:
        """The emulator's check of a candidate for races and memory order: Rejected if it objects, else a note
        in words on what it checked."""
        self.options.progress("checking on the PTX machine")
        return self._order_check.look(task, binary)


def _is_hopeless(outcome: Outcome) -> bool:
    """Whether a candidate was judged no further because it is hopelessly slow."""
    return isinstance(outcome, Slower) and bool(outcome.reason)


def _estimate(evaluation: Evaluation) -> float:
    """The estimated speedup over the baseline in the evaluation of a correct candidate."""
    assert isinstance(evaluation.outcome, CORRECT)
    return evaluation.outcome.speedup.estimate
