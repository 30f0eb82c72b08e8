"""The judge of one device: screens, compiles, verifies, times and profiles candidates, and decides the
outcome."""

import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import torch

from kernelblaster.devices.device import (
    CandidateDied,
    CandidateHung,
    Device,
    ProfileJob,
    Runner,
)
from kernelblaster.errors import BadTask, KernelBlasterError
from kernelblaster.judge.baseline import Baseline, BaselineName, KernelBaseline, ModuleBaseline
from kernelblaster.judge.cases import Case, CasePlanner, SecretDraw
from kernelblaster.judge.clock import Prepared, VerifiedCandidate, clock_of
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.emulate import counters, small_workload
from kernelblaster.judge.estimate import Estimator
from kernelblaster.judge.layout import slot_bytes, spare_bytes
from kernelblaster.judge.order_check import OrderCheck, with_note
from kernelblaster.judge.profile import filled_layout
from kernelblaster.judge.stop import failure
from kernelblaster.judge.sweep import variants
from kernelblaster.judge.timing import conclude
from kernelblaster.judge.verify import Verifier
from kernelblaster.ptx.machine import NotEmulated
from kernelblaster.records import (
    Accepted,
    Candidate,
    Evaluation,
    Fitness,
    Floor,
    Outcome,
    Profile,
    Rejected,
    RuntimeFailed,
    Task,
    Timing,
    Unsupported,
    Verification,
)
from kernelblaster.records.outcome import CORRECT
from kernelblaster.records.profile import MOST_KERNELS, Depth
from kernelblaster.tasks.fitness import fitness_of
from kernelblaster.tasks.floor import floor_of

Progress = Callable[[str], None]


def silent(stage: str) -> None:
    """A `Progress` callback that ignores messages."""


@dataclass(frozen=True)
class EvaluationOptions:
    """What one evaluation includes. `baseline` is how PyTorch is run to compare with; `profile` adds a
    profile, `sanitize` a run of compute-sanitizer. `filter` has the emulator check a candidate before a GPU
    runs it; `keep_samples` stores every pair of times in the evaluation; `progress` is called with the name
    of each stage."""

    baseline: BaselineName = "eager"
    profile: bool = False
    sanitize: bool = False
    filter: Literal["emulated"] | None = None
    keep_samples: bool = False
    progress: Progress = silent


@dataclass(frozen=True)
class Judged:
    """The part of an `Evaluation` that follows compilation; each field is the evaluation's field of that
    name."""

    outcome: Outcome
    verification: Verification | None = None
    timing: Timing | None = None
    counters: Profile | None = None
    profile: Profile | None = None


@dataclass(frozen=True)
class Checked:
    """Result of verification alone: the `Verification` if the candidate passed, else the outcome that ended
    it. `counters` are what the emulator counted; None on a GPU."""

    outcome: Verification | Outcome
    counters: Profile | None = None


def compilers() -> ThreadPoolExecutor:
    """A thread pool for compilation: as many threads as cores, less one that is left to the process that
    times."""
    return ThreadPoolExecutor(max_workers=max(1, (os.cpu_count() or 1) - 1))


class DeviceJudge:
    """Evaluates candidates on one device, which the caller closes. References and error bounds of each task
    are prepared once and kept. Not for use from several threads at once, except for `compile`."""

    def __init__(self, device: Device, options: EvaluationOptions | None = None) -> None:
        """Use an open device. Raises KernelBlasterError if the options ask for a compiled baseline on a
        modelled device."""
        self.device = device
        self.options = options or EvaluationOptions()
        self._prepared: dict[str, Prepared] = {}
        self._verified: set[tuple[str, str]] = set()
        self._filter: OrderCheck | None = None
        self._estimator: Estimator | None = None
        self._clock = clock_of(device, keep_samples=self.options.keep_samples)
        if device.modelled and self.options.baseline != "eager":
            raise KernelBlasterError(
                f"--baseline {self.options.baseline} needs a GPU: only eager PyTorch is modelled."
            )

    def evaluate(self, task: Task, candidate: Candidate, draw: SecretDraw | None = None) -> Evaluation:
        """Compile, verify and time one candidate. A bad candidate is an outcome, not an exception. `draw`
        repeats the random choices of an earlier evaluation; None draws new ones. Raises BadTask if the task
        is unfit, DeviceLost if the device fails."""
        self.options.progress("compiling")
        start = time.perf_counter()
        return self.finish(task, candidate, self.compile(task, candidate), start, draw)

    def cases(self, task: Task, seed: int) -> tuple[Case, ...]:
        """The verification plan that an evaluation of this judge with that seed had; another judge's differs,
        because sizes are drawn per judge."""
        return tuple(self._prepare(task).planner.draw(SecretDraw(seed).seeds[0]))

    def check(self, task: Task, candidate: Candidate) -> Checked:
        """Compile and verify a candidate without timing it."""
        self.options.progress("compiling")
        binary = self.compile(task, candidate)
        if not isinstance(binary, Binary):
            return Checked(binary)
        return self.check_binary(task, binary)

    def check_binary(self, task: Task, binary: Binary) -> Checked:
        """Verify a compiled candidate without timing it."""
        return self._check(self._prepare(task), binary)

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        """Evaluations in the order of the jobs, each yielded as soon as it is done; later jobs are compiled
        while earlier ones are judged."""
        with compilers() as pool:
            started = time.perf_counter()
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
        """Evaluate every combination of the source's tunable constants. Returns the evaluation of the fastest
        correct one (the first evaluation if none is correct), and all evaluations."""
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
        """For each candidate its profile, all from one start of the profiler. A candidate that fails
        verification gets its outcome instead, because profilers run outside the sandbox. What this judge has
        already found correct is not verified again. `depth` selects how many metrics are collected."""
        return self.profile_many([(task, candidates)], depth=depth)[0]

    def profile_many(
        self, wanted: Sequence[tuple[Task, Sequence[Candidate]]], *, depth: Depth = "detailed"
    ) -> list[list[Profile | Outcome]]:
        """As `profile`, for several tasks under one start of the profiler: one list for each task."""
        checked = [self._checked(task, candidates) for task, candidates in wanted]
        self.options.progress("profiling")
        profiled = self._clock.profiles([(p, binaries) for p, binaries, _ in checked], depth=depth)
        for (_, _, results), profiles in zip(checked, profiled, strict=True):
            remaining = iter(profiles)
            results[:] = [next(remaining).shortened() if result is None else result for result in results]
        return [results for _, _, results in checked]  # type: ignore[misc]

    def _checked(
        self, task: Task, candidates: Sequence[Candidate]
    ) -> tuple[Prepared, list[Binary], list[Profile | Outcome | None]]:
        """(the prepared task, binaries of the correct candidates, and for every candidate its outcome or None
        if it is correct). Candidates that this judge found correct before are only compiled."""
        prepared = self._prepare(task)
        binaries: list[Binary] = []
        outcomes: list[Profile | Outcome | None] = []
        for candidate in candidates:
            self.options.progress("compiling")
            binary = self.compile(task, candidate)
            outcome: Verification | Outcome | None = None
            if not isinstance(binary, Binary):
                outcome = binary
            elif (task.digest, candidate.code) not in self._verified:
                outcome = self._check(prepared, binary).outcome
            correct = isinstance(binary, Binary) and (outcome is None or isinstance(outcome, Verification))
            if correct:
                binaries.append(binary)  # type: ignore[arg-type]
            outcomes.append(None if correct else outcome)  # type: ignore[arg-type]
        return prepared, binaries, outcomes

    def estimate(self, task: Task, candidates: Sequence[Candidate]) -> list[float | None]:
        """As `Judge.estimate`; candidates are compiled in parallel."""
        self.options.progress("estimating")
        if self._estimator is None:
            self._estimator = Estimator(self.device.spec, self.device.facts)
        with compilers() as pool:
            binaries = list(pool.map(lambda candidate: self.compile(task, candidate), candidates))
        return [
            self._estimator.microseconds(task, binary) if isinstance(binary, Binary) else None
            for binary in binaries
        ]

    def prepare(self, task: Task) -> tuple[Fitness, Floor]:
        """Fitness and floor of a task, computed on this device the first time. Raises BadTask if the task is
        unfit."""
        prepared = self._prepare(task)
        return prepared.fitness, prepared.floor

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """The evaluation of a correct candidate after the emulator's check for races and memory order, which
        is run if it was not before: with a note, or with the objection as its outcome. Other evaluations are
        returned unchanged."""
        return self._order_check.confirmed(task, candidate, evaluation)

    def close(self) -> None:
        """Forget all prepared tasks and close the order check; the device stays open."""
        for prepared in self._prepared.values():
            prepared.baseline.close()
        self._prepared.clear()
        self._clock = clock_of(self.device, keep_samples=self.options.keep_samples)
        for opened in (self._filter, self._estimator):
            if opened is not None:
                opened.close()
        self._filter = self._estimator = None

    def compile(self, task: Task, candidate: Candidate) -> Binary | Outcome:
        """Screen and compile a candidate for this device; a failure is returned as its outcome. Thread-safe:
        may run while another thread uses the device."""
        return compile_candidate(task, candidate, self.device.spec.architecture)

    def _prepare(self, task: Task) -> Prepared:
        """The reference, the case planner and memory sizes of a task, made once. Raises BadTask if it cannot
        be judged."""
        if task.digest in self._prepared:
            return self._prepared[task.digest]
        self.options.progress("preparing the reference")
        fitness = fitness_of(task, self.device.torch_device)
        if not fitness.fit:
            raise BadTask(f"{task.name}: unfit to be scored: {'; '.join(fitness.problems)}")
        if self._small:
            small_workload(task)  # or BadTask
        baseline = self._baseline(task)
        planner = CasePlanner(task, baseline, small=self._small, most_bytes=self._clock.largest_bytes)
        prepared = Prepared(
            task=task,
            baseline=baseline,
            fitness=fitness,
            floor=floor_of(task, fitness),
            planner=planner,
            slots=slot_bytes(task.signature, planner.workloads),
            spare=spare_bytes(task.signature, planner.workloads),
        )
        self._prepared[task.digest] = prepared
        return prepared

    @property
    def _small(self) -> bool:
        """Whether candidates are executed at small workloads only (on the emulator)."""
        return self._clock.largest_bytes is not None

    def _baseline(self, task: Task) -> Baseline:
        """The baseline of a task. Raises BadTask if a CUDA task's own kernel does not compile."""
        if task.kind == "module":
            return ModuleBaseline(task, self.device, self.options.baseline, small=self._small)
        binary = self.compile(task, Candidate(source=task.source))
        if not isinstance(binary, Binary):
            detail = getattr(binary, "reason", "")
            raise BadTask(f"{task.name}: its own kernel was not accepted: {binary.kind}: {detail}")
        return KernelBaseline(task, self.device, binary.path)

    def finish(
        self,
        task: Task,
        candidate: Candidate,
        binary: Binary | Outcome,
        started: float | None = None,
        draw: SecretDraw | None = None,
    ) -> Evaluation:
        """The evaluation that follows `compile`, whose result is `binary`. Its seconds count from `started`
        (time.perf_counter), or from now; `draw` is as for `evaluate`."""
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
            profile=judged.profile,
            seconds=time.perf_counter() - started,
            device_seconds=held_s,
            seed=draw.seed if isinstance(binary, Binary) else None,
        )

    def _judge_held(
        self, task: Task, candidate: Candidate, binary: Binary, draw: SecretDraw
    ) -> tuple[Judged, float]:
        """The verdict on a compiled candidate, and the seconds that the device was in use for it."""
        try:
            prepared = self._prepare(task)
            start = time.perf_counter()
            judged = self._judge(prepared, binary, draw)
        except torch.cuda.OutOfMemoryError as error:
            raise _does_not_fit(task) from error
        if isinstance(judged.outcome, CORRECT):
            self._verified.add((task.digest, candidate.code))
        return judged, time.perf_counter() - start

    @contextmanager
    def _loaded(self, prepared: Prepared, binary: Binary, draw: SecretDraw) -> Iterator[Runner | Outcome]:
        """A context with the candidate loaded in processes of its own and the arena set up for its workloads;
        yields an outcome instead of a runner if loading failed."""
        baseline = prepared.baseline
        slots, spare = prepared.slots, prepared.spare
        if draw.cases:
            workloads = (*prepared.planner.workloads, *(case.workload for case in draw.cases))
            slots = slot_bytes(prepared.task.signature, workloads)
            spare = spare_bytes(prepared.task.signature, workloads)
        self.device.arena(slots, spare)
        if isinstance(baseline, KernelBaseline):
            baseline.start()
        try:
            runner: Runner | Outcome = self.device.start(binary.path)
        except (CandidateDied, CandidateHung) as error:
            runner = failure(error, "verify", "while being loaded")
        try:
            yield runner
        finally:
            if isinstance(runner, Runner):
                runner.close()
            baseline.close()

    def _check(self, prepared: Prepared, binary: Binary, draw: SecretDraw | None = None) -> Checked:
        """Load and verify a compiled candidate; Unsupported if the emulator lacks an instruction."""
        draw = draw or SecretDraw(secrets.randbits(60))
        try:
            with self._loaded(prepared, binary, draw) as runner:
                if not isinstance(runner, Runner):
                    return Checked(runner)
                return self._verify(self._verifier(prepared, runner, draw))
        except NotEmulated as error:
            return Checked(Unsupported(reason=str(error)))

    def _verifier(self, prepared: Prepared, runner: Runner, draw: SecretDraw) -> Verifier:
        """A verifier with the draw's plan of cases, or a newly drawn one."""
        plan, values, _ = draw.seeds
        cases = list(draw.cases) if draw.cases else prepared.planner.draw(plan)
        return Verifier(self.device, prepared.task, prepared.baseline, runner, values, cases)

    def _verify(self, verifier: Verifier) -> Checked:
        """Run all cases of the verifier; its result with the emulator's counters of the last call, if any."""
        self.options.progress("verifying")
        with _one_thread(self._small):
            outcome = verifier.verify()
        return Checked(outcome, counters(self.device.name, "small", verifier.work[:MOST_KERNELS]))

    def _judge(self, prepared: Prepared, binary: Binary, draw: SecretDraw) -> Judged:
        """Verify and time a compiled candidate; then check an accepted one for races, and sanitize and
        profile a correct one if the options say so. Returns the verdict of the first stage that objects."""
        first = self.options.filter is not None and not self.device.modelled
        note = self._look(prepared.task, binary) if first else None
        if isinstance(note, Rejected):
            return Judged(note)
        judged = self._verify_and_time(prepared, binary, draw)
        if isinstance(judged.outcome, RuntimeFailed) and not self.device.modelled:
            return replace(judged, outcome=self._located(prepared.task, binary, judged.outcome))
        if isinstance(judged.outcome, Accepted):
            # It may be faster because it lacks a synchronization, which rarely shows in its results.
            note = note or self._look(prepared.task, binary)
            if isinstance(note, Rejected):
                return replace(judged, outcome=note, timing=None)
            assert judged.verification is not None
            judged = replace(judged, verification=with_note(judged.verification, note))
        if not isinstance(judged.outcome, CORRECT):
            return judged
        if (
            self.options.sanitize and not self.device.modelled
        ):  # the emulator has checked every access already
            self.options.progress("sanitizing")
            findings = self._sanitize(prepared, binary)
            if findings:
                return replace(judged, outcome=Rejected(reason="sanitizer", evidence="\n".join(findings)))
        if self.options.profile and judged.profile is None:
            self.options.progress("profiling")
            [[profile]] = self._clock.profiles([(prepared, [binary])], depth="detailed")
            judged = replace(judged, profile=profile.shortened())
        return judged

    def _verify_and_time(self, prepared: Prepared, binary: Binary, draw: SecretDraw) -> Judged:
        """Load, verify and time a candidate. The outcome is decided by the speedup, or by the first
        failure."""
        try:
            with self._loaded(prepared, binary, draw) as runner:
                if not isinstance(runner, Runner):
                    return Judged(runner)
                verifier = self._verifier(prepared, runner, draw)
                checked = self._verify(verifier)
                if not isinstance(checked.outcome, Verification):
                    return Judged(checked.outcome, counters=checked.counters)
                self.options.progress(self._clock.stage)
                timed = self._clock.time(VerifiedCandidate(prepared, binary, runner, verifier, draw))
        except NotEmulated as error:
            return Judged(Unsupported(reason=str(error)))
        timing = timed.result if isinstance(timed.result, Timing) else None
        outcome = conclude(timing.speedup) if timing else timed.result
        assert not isinstance(outcome, Timing)
        profile = timed.profile.shortened() if timed.profile and self.options.profile else None
        return Judged(outcome, checked.outcome, timing, checked.counters, profile)

    def _located(self, task: Task, binary: Binary, failed: RuntimeFailed) -> RuntimeFailed:
        """A failure on a GPU, which seldom says where it happened, with what the emulator finds in the same
        candidate: the access, its line and its thread."""
        found = self._look(task, binary)
        if not isinstance(found, Rejected):
            return failed
        where = found.evidence.splitlines()[0]
        return failed.model_copy(update={"evidence": f"{failed.evidence}; on the PTX machine: {where}"})

    def _look(self, task: Task, binary: Binary) -> Rejected | str:
        """The emulator's order check of a candidate: Rejected if it objects, else a note on what it
        checked."""
        self.options.progress("checking on the PTX machine")
        return self._order_check.look(task, binary)

    @property
    def _order_check(self) -> OrderCheck:
        """The order check for this GPU, made when it is first needed."""
        if self._filter is None:
            self._filter = OrderCheck(self.device.spec, self.device.facts)
        return self._filter

    def _sanitize(self, prepared: Prepared, binary: Binary) -> list[str]:
        """Findings of compute-sanitizer in one call at the task's smallest workload, one line each."""
        task = prepared.task
        workload = task.smallest
        layout = filled_layout(self.device, task, prepared.baseline, workload)
        arguments = layout.arguments(task.signature, prepared.baseline.at(workload).scalars)
        job = ProfileJob(binary.path, arguments, workload.name)
        return self.device.findings(job)


@contextmanager
def _one_thread(wanted: bool) -> Iterator[None]:
    """A context in which PyTorch runs on one host thread if `wanted`: at small sizes, waking others takes
    longer than computing."""
    before = torch.get_num_threads()
    if wanted:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _does_not_fit(task: Task) -> KernelBlasterError:
    """The error to raise when PyTorch runs out of GPU memory."""
    needed = 2 * task.primary.total_bytes(task.signature)
    free = torch.cuda.mem_get_info()[0]
    return KernelBlasterError(
        f"{task.name}: does not fit: judging it needs about {needed / 1e9:.1f} GB of device memory and "
        f"what PyTorch itself uses for its intermediate results; {free / 1e9:.1f} GB are free."
    )


def _estimate(evaluation: Evaluation) -> float:
    """The speedup of a correct evaluation."""
    assert isinstance(evaluation.outcome, CORRECT)
    return evaluation.outcome.speedup.estimate
