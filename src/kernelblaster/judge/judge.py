"""The judge: screen, compile, verify, time, profile, and say what came of it."""

import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
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
from kernelblaster.judge.cases import Case, CasePlanner, Draw
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.emulate import LARGEST_BYTES, counters, small_workload
from kernelblaster.judge.layout import slot_bytes, spare_bytes
from kernelblaster.judge.modelled import ModelledTimer
from kernelblaster.judge.order_check import OrderCheck, with_note
from kernelblaster.judge.profile import Profiled, filled_layout, profile_candidates
from kernelblaster.judge.stop import failure
from kernelblaster.judge.sweep import variants
from kernelblaster.judge.timing import Timer, conclude
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
    """Tells nobody."""


@dataclass(frozen=True)
class Options:
    """What one evaluation should include. `filter` has the emulator check a candidate before a GPU
    runs it; `keep_samples` puts every pair of times into the evaluation."""

    baseline: BaselineName = "eager"
    profile: bool = False
    sanitize: bool = False
    filter: Literal["emulated"] | None = None
    keep_samples: bool = False
    progress: Progress = silent


@dataclass
class _Prepared:
    """What is computed once for a task."""

    task: Task
    baseline: Baseline
    fitness: Fitness
    floor: Floor
    planner: CasePlanner
    slots: list[int]
    spare: int
    modelled: ModelledTimer | None


@dataclass(frozen=True)
class Checked:
    """A verification, or the outcome that ended it; and what an emulating device counted."""

    outcome: Verification | Outcome
    counters: Profile | None = None


def compilers() -> ThreadPoolExecutor:
    """Compilation on all cores but one, which is for what is being timed."""
    return ThreadPoolExecutor(max_workers=max(1, (os.cpu_count() or 1) - 1))


class DeviceJudge:
    """Evaluates candidates on one device. Not for use from several threads at once."""

    def __init__(self, device: Device, options: Options | None = None) -> None:
        self.device = device
        self.options = options or Options()
        self._prepared: dict[str, _Prepared] = {}
        self._verified: set[tuple[str, str]] = set()
        self._filter: OrderCheck | None = None
        if device.modelled and self.options.baseline != "eager":
            raise KernelBlasterError(
                f"--baseline {self.options.baseline} needs a GPU: only eager PyTorch is modelled."
            )

    def evaluate(self, task: Task, candidate: Candidate, draw: Draw | None = None) -> Evaluation:
        """Everything from source to verdict for one candidate; `draw` repeats an earlier evaluation."""
        self.options.progress("compiling")
        start = time.perf_counter()
        return self.finish(task, candidate, self.compile(task, candidate), start, draw)

    def cases(self, task: Task, seed: int) -> tuple[Case, ...]:
        """The plan that an evaluation of this judge with that seed had."""
        return tuple(self._prepare(task).planner.draw(Draw(seed).seeds[0]))

    def check(self, task: Task, candidate: Candidate) -> Checked:
        """Compile and verify a candidate, no more."""
        self.options.progress("compiling")
        binary = self.compile(task, candidate)
        if not isinstance(binary, Binary):
            return Checked(binary)
        return self.check_binary(task, binary)

    def check_binary(self, task: Task, binary: Binary) -> Checked:
        """Verify a compiled candidate, no more."""
        return self._check(self._prepare(task), binary)

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        """Evaluations in the order of the jobs; compilation runs ahead."""
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

    def profile(
        self, task: Task, candidates: Sequence[Candidate], *, depth: Depth = "detailed"
    ) -> list[Profile | Outcome]:
        """Profiles under one start of the profiler; a candidate that fails verification gets its
        outcome instead, because profilers run outside the sandbox. What this judge found correct before
        is not verified again."""
        return self.profile_many([(task, candidates)], depth=depth)[0]

    def profile_many(
        self, wanted: Sequence[tuple[Task, Sequence[Candidate]]], *, depth: Depth = "detailed"
    ) -> list[list[Profile | Outcome]]:
        """As `profile`, of several tasks together."""
        checked = [self._checked(task, candidates) for task, candidates in wanted]
        self.options.progress("profiling")
        profiled = self._profiles([(p, binaries) for p, binaries, _ in checked], depth=depth)
        for (_, _, results), profiles in zip(checked, profiled, strict=True):
            found = iter(profiles)
            results[:] = [next(found).shortened() if result is None else result for result in results]
        return [results for _, _, results in checked]  # type: ignore[misc]

    def _checked(
        self, task: Task, candidates: Sequence[Candidate]
    ) -> tuple[_Prepared, list[Binary], list[Profile | Outcome | None]]:
        """The binaries of the correct candidates, and the outcomes of the others; None for a correct one."""
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

    def prepare(self, task: Task) -> tuple[Fitness, Floor]:
        """Fitness and floor of a task, computed on this device; BadTask if it is unfit."""
        prepared = self._prepare(task)
        return prepared.fitness, prepared.floor

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """The evaluation of a correct candidate once the PTX machine has looked at it too, if it had not."""
        return self._order_check.confirmed(task, candidate, evaluation)

    def close(self) -> None:
        for prepared in self._prepared.values():
            prepared.baseline.close()
        self._prepared.clear()
        if self._filter is not None:
            self._filter.close()
            self._filter = None

    def compile(self, task: Task, candidate: Candidate) -> Binary | Outcome:
        """Screened and compiled; several threads may do this while another uses the device."""
        return compile_candidate(task, candidate, self.device.spec.architecture)

    def _prepare(self, task: Task) -> _Prepared:
        if task.digest in self._prepared:
            return self._prepared[task.digest]
        self.options.progress("preparing the reference")
        fitness = fitness_of(task, self.device.torch_device)
        if not fitness.fit:
            raise BadTask(f"{task.name}: unfit to be scored: {'; '.join(fitness.problems)}")
        modelled = self.device.modelled
        if modelled:
            small_workload(task)  # or BadTask
        baseline = self._baseline(task)
        planner = CasePlanner(task, baseline, small=modelled, most_bytes=LARGEST_BYTES if modelled else None)
        prepared = _Prepared(
            task=task,
            baseline=baseline,
            fitness=fitness,
            floor=floor_of(task, fitness),
            planner=planner,
            slots=slot_bytes(task.signature, planner.workloads),
            spare=spare_bytes(task.signature, planner.workloads),
            modelled=ModelledTimer(self.device, task, baseline) if modelled else None,
        )
        self._prepared[task.digest] = prepared
        return prepared

    def _baseline(self, task: Task) -> Baseline:
        if task.kind == "module":
            return ModuleBaseline(task, self.device, self.options.baseline, small=self.device.modelled)
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
        draw: Draw | None = None,
    ) -> Evaluation:
        """The evaluation of what `compile` gave; its seconds count from `started`, or from now."""
        started = time.perf_counter() if started is None else started
        draw = draw or Draw(secrets.randbits(60))
        fields: dict[str, object] = {"outcome": binary}
        if isinstance(binary, Binary):
            try:
                prepared = self._prepare(task)
                held = time.perf_counter()
                fields = {"compilation": binary.compilation, **self._run(prepared, binary, draw)}
                fields["seed"] = draw.seed
                fields["device_seconds"] = time.perf_counter() - held
                if isinstance(fields["outcome"], CORRECT):
                    self._verified.add((task.digest, candidate.code))
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
    def _loaded(self, prepared: _Prepared, binary: Binary, draw: Draw) -> Iterator[Runner | Outcome]:
        """The candidate in a process of its own, with the task's memory in place; an outcome
        where loading it already failed."""
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

    def _check(self, prepared: _Prepared, binary: Binary, draw: Draw | None = None) -> Checked:
        draw = draw or Draw(secrets.randbits(60))
        try:
            with self._loaded(prepared, binary, draw) as runner:
                if not isinstance(runner, Runner):
                    return Checked(runner)
                return self._verify(self._verifier(prepared, runner, draw))
        except NotEmulated as error:
            return Checked(Unsupported(reason=str(error)))

    def _verifier(self, prepared: _Prepared, runner: Runner, draw: Draw) -> Verifier:
        plan, values, _ = draw.seeds
        cases = list(draw.cases) if draw.cases else prepared.planner.draw(plan)
        return Verifier(self.device, prepared.task, prepared.baseline, runner, values, cases)

    def _verify(self, verifier: Verifier) -> Checked:
        self.options.progress("verifying")
        with _one_thread(self.device.modelled):
            outcome = verifier.verify()
        return Checked(outcome, counters(self.device.name, "small", verifier.work[:MOST_KERNELS]))

    def _run(self, prepared: _Prepared, binary: Binary, draw: Draw) -> dict[str, object]:
        """Verify, time, sanitize and profile a compiled candidate: the fields that this yields."""
        if prepared.modelled is not None:
            return self._model(prepared, prepared.modelled, binary, draw)
        first = self._filtered(prepared.task, binary) if self.options.filter else None
        if isinstance(first, Rejected):
            return {"outcome": first}
        fields = self._judge(prepared, binary, draw)
        if isinstance(fields["outcome"], Accepted):
            # What is faster may be so because it does not wait: that hardly ever shows on a GPU.
            note = first or self._filtered(prepared.task, binary)
            if isinstance(note, Rejected):
                return fields | {"outcome": note, "timing": None}
            verification = fields["verification"]
            assert isinstance(verification, Verification)
            fields["verification"] = with_note(verification, note)
        if not isinstance(fields["outcome"], CORRECT):
            return fields
        if self.options.sanitize:
            self.options.progress("sanitizing")
            findings = self._sanitize(prepared, binary)
            if findings:
                return fields | {"outcome": Rejected(reason="sanitizer", evidence="\n".join(findings))}
        if self.options.profile:
            self.options.progress("profiling")
            fields["profile"] = self._profiles([(prepared, [binary])])[0][0].shortened()
        return fields

    def _profiles(
        self, wanted: Sequence[tuple[_Prepared, Sequence[Binary]]], *, depth: Depth = "detailed"
    ) -> list[list[Profile]]:
        if self.device.modelled:
            return [p.modelled.profiles(binaries) if p.modelled else [] for p, binaries in wanted]
        jobs = [Profiled(p.task, p.baseline, binaries) for p, binaries in wanted]
        found = profile_candidates(self.device, [job for job in jobs if job.binaries], depth=depth)
        return [next(found) if job.binaries else [] for job in jobs]

    def _model(
        self, prepared: _Prepared, timer: ModelledTimer, binary: Binary, draw: Draw
    ) -> dict[str, object]:
        """Verify, then model: every access was checked on the way, so there is nothing to sanitize."""
        checked = self._check(prepared, binary, draw)
        fields: dict[str, object] = {"outcome": checked.outcome, "counters": checked.counters}
        if not isinstance(checked.outcome, Verification):
            return fields
        fields["verification"] = checked.outcome
        self.options.progress("modelling time")
        try:
            profile = timer.profiles([binary])[0]
        except (CandidateDied, CandidateHung) as error:
            return fields | {"outcome": failure(error, "time", "primary workload")}
        except NotEmulated as error:
            return fields | {"outcome": Unsupported(reason=str(error))}
        timing = timer.time(profile, prepared.floor)
        if self.options.profile:
            fields["profile"] = profile.shortened()
        if not isinstance(timing, Timing):
            return fields | {"outcome": timing}
        return fields | {"outcome": conclude(timing.speedup), "timing": timing}

    def _filtered(self, task: Task, binary: Binary) -> Rejected | str:
        """What the emulator holds against a candidate; else a note on what it checked."""
        self.options.progress("checking on the PTX machine")
        return self._order_check.look(task, binary)

    @property
    def _order_check(self) -> OrderCheck:
        if self._filter is None:
            self._filter = OrderCheck(self.device.spec, self.device.facts)
        return self._filter

    def _judge(self, prepared: _Prepared, binary: Binary, draw: Draw) -> dict[str, object]:
        with self._loaded(prepared, binary, draw) as runner:
            if not isinstance(runner, Runner):
                return {"outcome": runner}
            verifier = self._verifier(prepared, runner, draw)
            verification = self._verify(verifier).outcome
            if not isinstance(verification, Verification):
                return {"outcome": verification}
            self.options.progress("timing")
            timer = Timer(
                self.device,
                prepared.task,
                prepared.baseline,
                runner,
                draw.seeds[2],
                verifier.primary_errors(),
                keep_samples=self.options.keep_samples,
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
        arguments = layout.arguments(task.signature, prepared.baseline.at(workload).scalars)
        job = ProfileJob(binary.path, arguments, workload.name)
        return self.device.findings(job)


@contextmanager
def _one_thread(wanted: bool) -> Iterator[None]:
    """PyTorch on one thread of the host: at small sizes, waking others takes longer than computing."""
    before = torch.get_num_threads()
    if wanted:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
