"""The judge: screen, compile, verify, time, profile, and say what came of it."""

import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

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
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.layout import arena_bytes
from kernelblaster.judge.profile import filled_layout, profile_candidates
from kernelblaster.judge.sweep import variants
from kernelblaster.judge.timing import Timer, conclude
from kernelblaster.judge.verify import Verifier
from kernelblaster.records import (
    Candidate,
    Evaluation,
    Fitness,
    Floor,
    Outcome,
    Profile,
    Rejected,
    RuntimeFailed,
    Task,
    TimedOut,
    Timing,
    Verification,
)
from kernelblaster.records.outcome import CORRECT
from kernelblaster.tasks.fitness import fitness_of
from kernelblaster.tasks.floor import floor_of

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What one evaluation should include."""

    baseline: BaselineName = "eager"
    profile: bool = False
    sanitize: bool = False
    allow_vendor_libraries: bool = False
    progress: Progress = field(default=lambda stage: None)


@dataclass
class _Prepared:
    """What is computed once for a task."""

    task: Task
    baseline: Baseline
    fitness: Fitness
    floor: Floor
    arena_bytes: int


class Judge:
    """Evaluates candidates on one device. Not for use from several threads at once."""

    def __init__(self, device: Device, options: Options | None = None) -> None:
        self.device = device
        self.options = options or Options()
        self._prepared: dict[str, _Prepared] = {}

    def evaluate(self, task: Task, candidate: Candidate) -> Evaluation:
        """Everything from source to verdict for one candidate."""
        self.options.progress("compiling")
        start = time.perf_counter()
        return self._finish(task, candidate, self._compile(task, candidate), start)

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        """Evaluations in the order of the jobs; compilation runs ahead on all cores."""
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as compilers:
            started = time.perf_counter()
            waiting: list[Future[Binary | Outcome]] = [
                compilers.submit(self._compile, task, candidate) for task, candidate in jobs
            ]
            try:
                for (task, candidate), binary in zip(jobs, waiting, strict=True):
                    yield self._finish(task, candidate, binary.result(), started)
                    started = time.perf_counter()
            finally:
                for binary in waiting:
                    binary.cancel()

    def sweep(self, task: Task, candidate: Candidate) -> tuple[Evaluation, list[Evaluation]]:
        """Every combination of the declared constants; the best correct one, and all of them."""
        jobs = [(task, variant) for variant in variants(candidate)]
        evaluations = []
        for number, evaluation in enumerate(self.evaluate_many(jobs), 1):
            self.options.progress(f"variant {number} of {len(jobs)}: {evaluation.outcome.kind}")
            evaluations.append(evaluation)
        correct = [e for e in evaluations if e.timing is not None and isinstance(e.outcome, CORRECT)]
        if not correct:
            return evaluations[0], evaluations
        return max(correct, key=_estimate), evaluations

    def profile(self, task: Task, candidates: Sequence[Candidate]) -> list[Profile | Outcome]:
        """Profiles under one start of the profiler; a candidate that fails verification gets its
        outcome instead, because profilers run outside the sandbox."""
        prepared = self._prepare(task)
        results: list[Profile | Outcome | Verification] = []
        verified: dict[int, Binary] = {}
        for position, candidate in enumerate(candidates):
            self.options.progress("compiling")
            binary = self._compile(task, candidate)
            outcome = self._verify(prepared, binary) if isinstance(binary, Binary) else binary
            results.append(outcome)
            if isinstance(binary, Binary) and isinstance(outcome, Verification):
                verified[position] = binary
        self.options.progress("profiling")
        if verified:
            binaries = list(verified.values())
            profiles = profile_candidates(self.device, task, prepared.baseline, binaries)
            for position, profile in zip(verified, profiles, strict=True):
                results[position] = profile
        return results  # type: ignore[return-value]

    def prepare(self, task: Task) -> tuple[Fitness, Floor]:
        """Fitness and floor of a task, computed on this device; BadTask if it is unfit."""
        prepared = self._prepare(task)
        return prepared.fitness, prepared.floor

    def close(self) -> None:
        for prepared in self._prepared.values():
            prepared.baseline.close()
        self._prepared.clear()

    def _compile(self, task: Task, candidate: Candidate) -> Binary | Outcome:
        return compile_candidate(
            task,
            candidate,
            self.device.spec.architecture,
            allow_vendor_libraries=self.options.allow_vendor_libraries,
        )

    def _prepare(self, task: Task) -> _Prepared:
        if task.digest in self._prepared:
            return self._prepared[task.digest]
        self.options.progress("preparing the reference")
        fitness = fitness_of(task, self.device.torch_device)
        if not fitness.fit:
            raise BadTask(f"{task.name}: unfit to be scored: {'; '.join(fitness.problems)}")
        prepared = _Prepared(
            task=task,
            baseline=self._baseline(task),
            fitness=fitness,
            floor=floor_of(task, fitness),
            arena_bytes=max(arena_bytes(task.signature, w) for w in task.workloads),
        )
        self._prepared[task.digest] = prepared
        return prepared

    def _baseline(self, task: Task) -> Baseline:
        if task.kind == "module":
            return ModuleBaseline(task, self.device, self.options.baseline)
        binary = self._compile(task, Candidate(source=task.source))
        if not isinstance(binary, Binary):
            detail = getattr(binary, "reason", "")
            raise BadTask(f"{task.name}: its own kernel was not accepted: {binary.kind}: {detail}")
        return KernelBaseline(task, self.device, binary.path)

    def _finish(
        self, task: Task, candidate: Candidate, binary: Binary | Outcome, started: float
    ) -> Evaluation:
        fields: dict[str, object] = {"outcome": binary}
        if isinstance(binary, Binary):
            try:
                fields = {"compilation": binary.compilation, **self._run(self._prepare(task), binary)}
            except torch.cuda.OutOfMemoryError as error:
                raise _does_not_fit(task) from error
        return Evaluation(
            task=task.name,
            candidate=candidate.digest,
            device=self.device.name,
            defines=candidate.defines,
            seconds=time.perf_counter() - started,
            **fields,  # type: ignore[arg-type]
        )

    @contextmanager
    def _loaded(self, prepared: _Prepared, binary: Binary) -> Iterator[Runner | Outcome]:
        """The candidate in a process of its own, with the task's memory in place; an outcome
        where loading it already failed."""
        baseline = prepared.baseline
        self.device.arena(prepared.arena_bytes)
        if isinstance(baseline, KernelBaseline):
            baseline.start()
        try:
            runner: Runner | Outcome = self.device.start(binary.path)
        except CandidateDied as error:
            runner = RuntimeFailed(reason=str(error), evidence="while being loaded")
        except CandidateHung as error:
            runner = TimedOut(stage="verify", limit_s=error.limit_s)
        try:
            yield runner
        finally:
            if isinstance(runner, Runner):
                runner.close()
            baseline.close()

    def _verify(self, prepared: _Prepared, binary: Binary) -> Verification | Outcome:
        with self._loaded(prepared, binary) as runner:
            if not isinstance(runner, Runner):
                return runner
            self.options.progress("verifying")
            return self._verifier(prepared, runner).verify()

    def _verifier(self, prepared: _Prepared, runner: Runner) -> Verifier:
        seed = secrets.randbits(60)
        return Verifier(self.device, prepared.task, prepared.baseline, runner, seed)

    def _run(self, prepared: _Prepared, binary: Binary) -> dict[str, object]:
        """Verify, time, sanitize and profile a compiled candidate: the fields that this yields."""
        fields = self._judge(prepared, binary)
        if not isinstance(fields["outcome"], CORRECT):
            return fields
        if self.options.sanitize:
            self.options.progress("sanitizing")
            findings = self._sanitize(prepared, binary)
            if findings:
                return fields | {"outcome": Rejected(reason="sanitizer", evidence="\n".join(findings))}
        if self.options.profile:
            self.options.progress("profiling")
            task, baseline = prepared.task, prepared.baseline
            fields["profile"] = profile_candidates(self.device, task, baseline, [binary])[0]
        return fields

    def _judge(self, prepared: _Prepared, binary: Binary) -> dict[str, object]:
        with self._loaded(prepared, binary) as runner:
            if not isinstance(runner, Runner):
                return {"outcome": runner}
            self.options.progress("verifying")
            verifier = self._verifier(prepared, runner)
            verification = verifier.verify()
            if not isinstance(verification, Verification):
                return {"outcome": verification}
            self.options.progress("timing")
            timer = Timer(
                self.device,
                prepared.task,
                prepared.baseline,
                runner,
                secrets.randbits(60),
                verifier.primary_errors(),
            )
            timing = timer.time(prepared.floor)
            if not isinstance(timing, Timing):
                return {"outcome": timing, "verification": verification}
            outcome = conclude(timing.speedup)
            return {"outcome": outcome, "verification": verification, "timing": timing}

    def _sanitize(self, prepared: _Prepared, binary: Binary) -> list[str]:
        task = prepared.task
        workload = task.smallest
        layout = filled_layout(self.device, task, prepared.baseline, workload)
        arguments = layout.arguments(task.signature, prepared.baseline.scalars)
        job = ProfileJob(binary.path, arguments, workload.name, layout.extent)
        return self.device.findings(job)


def _does_not_fit(task: Task) -> KernelBlasterError:
    needed = 2 * task.primary.total_bytes(task.signature)
    free = torch.cuda.mem_get_info()[0]
    return KernelBlasterError(
        f"{task.name}: does not fit: judging it needs about {needed / 1e9:.1f} GB of device memory and "
        f"what PyTorch itself uses for its intermediate results; {free / 1e9:.1f} GB are free."
    )


def _estimate(evaluation: Evaluation) -> float:
    assert isinstance(evaluation.outcome, CORRECT)
    return evaluation.outcome.speedup.estimate
