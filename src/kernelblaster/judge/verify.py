"""Verifies a candidate's outputs against the reference, on fresh values of every kind in a plan
(judge/cases.py) and at sizes drawn in secret.

Before each call, outputs are filled with a byte pattern (poison): what still has it afterwards was not
written. Guard zones (unused memory around outputs) are filled, too: a changed byte in them was written out of
bounds. Inputs must be unchanged after the call. Whether repeated runs give the same bits is noted.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from kernelblaster.devices.device import (
    Argument,
    CandidateDied,
    CandidateHung,
    Device,
    LaunchedWork,
    Runner,
    synchronize,
)
from kernelblaster.judge.baseline import Baseline
from kernelblaster.judge.case import Case
from kernelblaster.judge.compare_outputs import OUTPUT_POISONS, OutputComparer
from kernelblaster.judge.layout import Layout, lay_out
from kernelblaster.judge.memory_check import MemoryCheck
from kernelblaster.judge.operand_rounding import OperandRounding
from kernelblaster.judge.samples import FAR, OutputSample, doubtful, share
from kernelblaster.judge.slow_call import LARGE_SHARE, SlowCall, limit_s, slow_call
from kernelblaster.judge.stop import Failure, Leash, Stop, failure, stop_on_report
from kernelblaster.judge.truth import ALWAYS_ROOM, Truth
from kernelblaster.records import (
    Task,
    Verification,
    Workload,
)
from kernelblaster.records.evaluation import CaseResult, Errors

MORE_DRAWS, MOST_DRAWS = 5, 21

ASIDE = 0x5DEECE66D  # gives another sequence of random numbers for the same seed
FEW_THREADS = 1 << 17  # of a call: it is run however many such calls there are
TOO_MANY_THREADS = "some sizes above the primary ones were not run: a call starts too many threads there"


class Verifier:
    """Runs the verification cases (sizes and kinds of values) of one candidate for `task`, which is loaded in
    `runner`. `seed` draws the values; the candidate must know neither it nor `cases`. `rounding` says how the
    baseline (PyTorch) rounds operands of products, as to TF32 (None: it does not). The attribute `work` is
    what the last call put on the device.

    With `baseline_us`, verification ends early for a candidate that is hopelessly slow; `slow` is then the
    call that showed it. `baseline_us(layout)` returns the baseline's time in us on the values in a layout of
    the primary workload (the timed sizes).
    """

    def __init__(
        self,
        device: Device,
        task: Task,
        baseline: Baseline,
        runner: Runner,
        seed: int,
        cases: Sequence[Case],
        rounding: OperandRounding | None = None,
        baseline_us: Callable[[Layout], float] | None = None,
    ) -> None:
        self._device = device
        self._task = task
        self._baseline = baseline
        self._runner = runner
        self._rng = random.Random(seed)
        self._aside = random.Random(seed ^ ASIDE)
        self._fixed_layout_seed = self._rng.getrandbits(48)
        self._cases = cases
        self._arena = device.arena()
        self._truth = Truth(task, baseline, self._arena, self._rng)
        self._comparer = OutputComparer(task, self._truth, rounding or OperandRounding())
        self._key = self._rng.getrandbits(62)
        self._layouts: dict[int, Layout] = {}
        self._recorded: list[tuple[Argument, ...]] = []  # the call of each case
        self._upcoming: tuple[Argument, ...] | None = None  # that of the next case
        self._calls = 0
        self._threads = 0  # of calls at sizes above the usual ones
        self.leash = Leash(device)
        self._deterministic = True
        self._baseline_us = baseline_us
        self.work: tuple[LaunchedWork, ...] = ()
        self.slow: SlowCall | None = None

    @property
    def results(self) -> list[CaseResult]:
        """One entry for each output of each verification case that was compared so far."""
        return self._comparer.results

    def verify(self) -> Verification | Failure:
        """Runs all verification cases in order. Returns the verification, or the outcome of the first case
        that fails. A candidate that is hopelessly slow gets only the cases at small sizes and one call at the
        primary sizes."""
        start = time.perf_counter()
        looked = self._baseline_us is None
        try:
            self._record()
            for number, case in enumerate(self._cases):
                if not looked and self._is_large(case.workload):
                    looked = True
                    with self._drawn_aside():
                        self.slow = self._slow_call()
                    if self.slow is not None:
                        self._comparer.notes.append(self.slow.words)
                        break
                layout = self._layouts.pop(number)
                is_last = number + 1 == len(self._cases)
                self._upcoming = None if is_last else self._recorded[number + 1]
                with self._baseline.at(case.workload).with_scalars(case.scalars):
                    if not self._too_many_threads(case, layout):
                        self._check_if_it_fits(case, layout)
        except Stop as stop:
            return stop.outcome
        except (CandidateDied, CandidateHung) as error:
            return failure(error, "verify", "while its launches were recorded")
        return Verification(
            cases=tuple(self.results),
            calls=self._calls,
            deterministic=self._deterministic,
            seconds=time.perf_counter() - start,
            notes=tuple(dict.fromkeys(self._comparer.notes)),
        )

    def primary_errors(self) -> dict[str, tuple[Errors, Errors | None]]:
        """Returns the tuple (allowed errors, PyTorch's own errors) for each output, by the output's name.
        Both are relative to the float64 reference; without such a reference, PyTorch's own are None. They
        were found at the primary workload (the timed sizes), on values like the task file's own. Call it
        after `verify` has passed."""
        return {
            r.output: (r.bound, r.baseline)
            for r in self.results
            if r.workload == "primary" and r.distribution == "written"
        }

    def _record(self) -> None:
        """Draw where the tensors of each case lie (kept in `_layouts`), and run the candidate's host code for
        all cases in one recording, which is faster than one for each: the runner keeps the launches of each
        and replays them later."""
        for number, case in enumerate(self._cases):
            layout = self._layouts[number] = self._lay_out(case)
            with self._baseline.at(case.workload).with_scalars(case.scalars):
                self._recorded.append(self._arguments(case, layout))
        with self.leash.during("verify"):
            self._runner.record(self._recorded)

    def _lay_out(self, case: Case) -> Layout:
        """Draw addresses for the tensors of a case; cases with `stays` always get the same ones."""
        rng = random.Random(self._fixed_layout_seed) if case.stays else self._rng
        return lay_out(self._arena, self._task.signature, case.workload, rng)

    def _arguments(self, case: Case, layout: Layout) -> tuple[Argument, ...]:
        """The arguments of a case's call with this layout, with the scalars that the baseline (reference) has
        at present."""
        return layout.arguments(self._task.signature, self._baseline.at(case.workload).scalars)

    def _too_many_threads(self, case: Case, layout: Layout) -> bool:
        """Whether a case must be skipped because its call starts too many threads for the device (the
        emulator). This concerns only sizes drawn above the usual ones ("above"), whose calls share a limit on
        threads; a call with few threads (FEW_THREADS) is always run. If a single call is above the limit, a
        note is added."""
        most = self._device.most_threads
        if most is None or case.workload.name != "above":
            return False
        threads = self._runner.threads(self._arguments(case, layout))
        if threads > most:
            self._comparer.notes.append(TOO_MANY_THREADS)
        if threads <= FEW_THREADS:
            return False
        if threads > most - self._threads:
            return True
        self._threads += threads
        return False

    def _is_large(self, workload: Workload) -> bool:
        """Whether a workload's inputs and outputs together are at least LARGE_SHARE of the primary one's."""
        signature = self._task.signature
        tensors = (*signature.outputs, *signature.input_tensors)
        own, primary = (sum(one.bytes(t) for t in tensors) for one in (workload, self._task.primary))
        return own >= LARGE_SHARE * primary

    @contextmanager
    def _drawn_aside(self) -> Iterator[None]:
        """A context in which random choices are taken from numbers of their own. Outside of it, everything is
        drawn as if it had not been there: a proof that is repeated makes no slow call."""
        usual, self._rng = self._rng, self._aside
        try:
            yield
        finally:
            self._rng = usual

    def _slow_call(self) -> SlowCall | None:
        """Run one call at the primary workload (the timed sizes), on values like the task file's own. If it
        shows that the candidate is hopelessly slow, returns it, after comparing its outputs, which raises
        Stop if they are wrong; else None. The call is that of the last case with these sizes and values;
        None if no case has them."""
        assert self._baseline_us is not None
        usual = [n for n in self._layouts if self._is_usual(self._cases[n])]
        if not usual:
            return None
        case, layout = self._cases[usual[-1]], self._layouts[usual[-1]]
        seed = self._rng.getrandbits(48)
        signature = self._task.signature
        inputs = [layout.view(t) for t in signature.input_tensors]
        self._truth.write(case, seed, inputs, [layout.view(t) for t in signature.parameters])
        baseline_us = self._baseline_us(layout)
        check = self._memory_check(layout)
        outputs = self._run(case, layout, check, 0, limit_s=limit_s(baseline_us))
        slow = slow_call(baseline_us, self.work)
        if slow is None:
            return None
        outputs = self._stash(outputs)
        right = self._baseline.at(case.workload).outputs(layout)
        for sample in self._comparer.compare(case, seed, right, [outputs]):
            if not sample.few or not 1 < share([sample]) < FAR:  # so few numbers decide if they are far off
                self._comparer.judge(case, [sample])
        return slow

    def _is_usual(self, case: Case) -> bool:
        """Whether a case has the primary workload, the module's own scalars and values like the task file's
        own."""
        return (
            case.workload.name == "primary"
            and case.distribution == "written"
            and case.scalars is None
            and not case.patched
            and not case.twins
        )

    def _check_if_it_fits(self, case: Case, layout: Layout) -> None:
        """Run and judge a case; raises Stop if the candidate fails it. If PyTorch runs out of GPU memory, the
        case is left out with a note; at the primary workload (the timed sizes) the error is raised."""
        try:
            self._check(case, layout)
        except torch.cuda.OutOfMemoryError:
            if case.workload.name == "primary":
                raise
            torch.cuda.empty_cache()
            self._comparer.notes.append(
                f"{case.workload.name}/{case.title}: PyTorch needs too much memory there"
            )

    def _check(self, case: Case, layout: Layout) -> None:
        """Run and judge one case; raises Stop if the candidate fails it. Outputs of many numbers must be
        within bounds in every draw of input values. For outputs of up to FEW numbers whose errors are near
        the bound, values are drawn again MORE_DRAWS times, up to MOST_DRAWS, and the pooled errors decide;
        but no draw may exceed FAR times the bound."""
        fresh = [self._draw(case, case.runs, layout)]
        drawn: list[list[OutputSample]] = [[] for _ in fresh[0]]
        undecided = set(range(len(drawn)))
        while True:
            for position, samples in enumerate(drawn):
                new = [one[position] for one in fresh]
                samples.extend(new)
                for one in new:
                    if not one.few or share([one]) >= FAR:
                        self._comparer.judge(case, [one])
                if position in undecided and (len(samples) >= MOST_DRAWS or not doubtful(samples)):
                    undecided.remove(position)
                    if samples[0].few:
                        self._comparer.judge(case, samples)
            if not undecided:
                return
            fresh = [self._draw(case, 1, self._lay_out(case)) for _ in range(MORE_DRAWS)]

    def _draw(self, case: Case, runs: int, layout: Layout) -> list[OutputSample]:
        """Fill the tensors of a case with fresh values, run the baseline (reference) once and the candidate
        `runs` times, and compare: returns one sample of errors for each output. Notes whether repeated runs
        differ in any bit."""
        signature = self._task.signature
        seed = self._rng.getrandbits(48)
        inputs = [layout.view(t) for t in signature.input_tensors]
        parameters = [layout.view(t) for t in signature.parameters]
        with self._running(case):  # memory is mapped while values are drawn
            self._runner.prepare(self._arguments(case, layout))
        self._truth.write(case, seed, inputs, parameters)
        if case.patched:
            self._run(case, layout, self._memory_check(layout), 0)
            self._truth.patch(case, seed)
        check = self._memory_check(layout)
        baseline = self._baseline.at(case.workload)
        right = self._stash(baseline.outputs(layout))
        outputs = [self._stash(self._run(case, layout, check, repeat)) for repeat in range(runs)]
        if self._upcoming is not None:  # its memory is mapped while outputs are compared
            with self._running(case):
                self._runner.prepare(self._upcoming)
        for repeated in outputs[1:]:
            if not all(_same_bits(a, b) for a, b in zip(outputs[0], repeated, strict=True)):
                self._deterministic = False
        return self._comparer.compare(case, seed, right, outputs)

    def _memory_check(self, layout: Layout) -> MemoryCheck:
        protected = self._device.protects_inputs
        return MemoryCheck(layout, self._task.signature, self._key, protected=protected)

    def _run(
        self, case: Case, layout: Layout, check: MemoryCheck, repeat: int, limit_s: float | None = None
    ) -> list[torch.Tensor]:
        """One call of the candidate, with outputs poisoned before and memory checked after: returns copies of
        its outputs. `repeat` selects the poison byte. With a `limit_s`, the call is ended after so many
        seconds, and its launches are timed one by one. Raises Stop if the call fails or wrote elsewhere."""
        signature = self._task.signature
        poison = OUTPUT_POISONS[repeat % len(OUTPUT_POISONS)]
        for tensor in signature.outputs:
            layout.raw(tensor).fill_(poison)
        layout.set_guards()
        synchronize(self._device.torch_device)
        scratch = self._rng.choice((0xFF, 0x00, self._rng.randrange(256)))
        with self._running(case):
            report = self._runner.call(
                self._arguments(case, layout),
                scratch_poison=scratch,
                accounting=limit_s is not None,
                kept=case.patched,
                limit_s=limit_s,
            )
        self._calls += 1
        self.work = report.work
        stop_on_report(report, _where(case))
        check.stop_if_touched()
        return [layout.view(t).clone() for t in signature.outputs]

    @contextmanager
    def _running(self, case: Case) -> Iterator[None]:
        """A context for what a candidate does in a case: its time counts, and its failure raises Stop."""
        try:
            with self.leash.during("verify"):
                yield
        except (CandidateDied, CandidateHung) as error:
            raise Stop(failure(error, "verify", _where(case))) from error

    def _stash(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Keeps the given tensors until they are compared: as they are on the emulator or if plenty of GPU
        memory is free, else as copies in host memory."""
        size = sum(t.numel() * t.element_size() for t in tensors)
        if self._device.torch_device.type != "cuda" or size <= ALWAYS_ROOM:
            return tensors
        free = torch.cuda.mem_get_info()[0]
        return tensors if free > 8 * size + (1 << 30) else [_on_host(t) for t in tensors]


def _where(case: Case) -> str:
    """The sizes of a case in words, for evidence."""
    return f"{case.workload.name} workload {case.workload.sizes}"


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of the tensor in page-locked host memory, which PyTorch's allocator reuses."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor)


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))
