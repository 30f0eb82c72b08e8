"""Verifies a candidate's outputs: fresh values of every kind in a plan (judge/cases.py), at sizes drawn in
secret; with poisoned outputs, guard zones, checks that inputs are unchanged, and repeated runs."""

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

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
from kernelblaster.judge.cases import FEW_TERMS, Case
from kernelblaster.judge.layout import Layout, lay_out
from kernelblaster.judge.memory_check import MemoryCheck
from kernelblaster.judge.nonfinite import Demand, demanded
from kernelblaster.judge.operand_rounding import OperandRounding
from kernelblaster.judge.precision import (
    FAINT,
    FAINT_ALONE,
    ROUNDING,
    Comparison,
    all_finite,
    compare,
    exceeded,
    pooled,
    scaled,
)
from kernelblaster.judge.samples import FAR, OutputSample, allowed, doubtful, share, worst
from kernelblaster.judge.stop import Failure, Leash, Stop, failure, stop_on_report
from kernelblaster.judge.truth import Truth
from kernelblaster.records import (
    Incorrect,
    Task,
    Tensor,
    Verification,
)
from kernelblaster.records.evaluation import CaseResult, Errors
from kernelblaster.tasks.arrangements import SAFE

OUTPUT_POISONS = (0xFF, 0x7F, 0xC1)
SMALL_OUTPUT = 1 << 16  # elements: with fewer, PyTorch's own error may be zero by chance
NEAR = 0.5  # of the bound: above, the effect of rounding the inputs is computed too
MORE_DRAWS, MOST_DRAWS = 5, 21
USELESS, USELESS_ROUNDINGS = 0.01, 32.0  # above this RMS error of PyTorch's own, nothing is compared


class Verifier:
    """Runs the verification cases of one candidate, loaded in `runner`. `seed` and `cases` are secret until
    the verdict is known; `rounding` is what the baseline does to operands. Afterwards `results` has one entry
    for each output of each case, `work` what the last call put on the device."""

    def __init__(
        self,
        device: Device,
        task: Task,
        baseline: Baseline,
        runner: Runner,
        seed: int,
        cases: Sequence[Case],
        rounding: OperandRounding | None = None,
    ) -> None:
        self._device = device
        self._task = task
        self._baseline = baseline
        self._runner = runner
        self._rng = random.Random(seed)
        self._fixed_layout_seed = self._rng.getrandbits(48)
        self._cases = cases
        self._rounding = rounding or OperandRounding()
        self._arena = device.arena()
        self._truth = Truth(task, baseline, self._arena, self._rng)
        self._key = self._rng.getrandbits(62)
        self._layouts: dict[int, Layout] = {}
        self._calls = 0
        self.leash = Leash(device)
        self._deterministic = True
        self._notes: list[str] = []
        self.results: list[CaseResult] = []
        self.work: tuple[LaunchedWork, ...] = ()

    def verify(self) -> Verification | Failure:
        """Run all cases in order. Returns the verification, or the outcome of the first failure."""
        start = time.perf_counter()
        try:
            self._record()
            for number, case in enumerate(self._cases):
                layout = self._layouts.pop(number)
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
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def primary_errors(self) -> dict[str, tuple[Errors, Errors | None]]:
        """For each output by name (its error bound, the baseline's own errors), at the primary workload on
        values like the file's own. Call it after `verify` has passed."""
        return {
            r.output: (r.bound, r.baseline)
            for r in self.results
            if r.workload == "primary" and r.distribution == "written"
        }

    def _record(self) -> None:
        """Draw where the tensors of each case lie (kept in `_layouts`), and run the candidate's host code on
        all cases in one recording: the runner keeps the launch list of each and replays it later. One
        recording for all is faster than one for each."""
        calls = []
        for number, case in enumerate(self._cases):
            layout = self._layouts[number] = self._lay_out(case)
            with self._baseline.at(case.workload).with_scalars(case.scalars):
                calls.append(self._arguments(case, layout))
        with self.leash.during("verify"):
            self._runner.record(calls)

    def _lay_out(self, case: Case) -> Layout:
        """Draw addresses for a case's tensors; always the same ones for cases with `stays`."""
        rng = random.Random(self._fixed_layout_seed) if case.stays else self._rng
        return lay_out(self._arena, self._task.signature, case.workload, rng)

    def _arguments(self, case: Case, layout: Layout) -> tuple[Argument, ...]:
        """The arguments of a case's call, with the scalars that the baseline has at present."""
        return layout.arguments(self._task.signature, self._baseline.at(case.workload).scalars)

    def _too_many_threads(self, case: Case, layout: Layout) -> bool:
        """Whether a case is skipped: it is at an enlarged size and starts more threads than the device can
        run in acceptable time."""
        most = self._device.most_threads
        if most is None or case.workload.name != "above":
            return False
        return self._runner.threads(self._arguments(case, layout)) > most

    def _check_if_it_fits(self, case: Case, layout: Layout) -> None:
        """Run a case. If PyTorch runs out of memory at a drawn size, that is noted; at the primary size it is
        raised."""
        try:
            self._check(case, layout)
        except torch.cuda.OutOfMemoryError:
            if case.workload.name == "primary":
                raise
            torch.cuda.empty_cache()
            self._notes.append(f"{case.workload.name}/{case.title}: PyTorch needs too much memory there")

    def _check(self, case: Case, layout: Layout) -> None:
        """Run and judge one case; raises Stop if it fails. Outputs of many numbers must be within bounds in
        every draw of values. Outputs of up to FEW numbers: near the bound, redraw MORE_DRAWS at a time, at
        most MOST_DRAWS, and decide on the pooled errors; but no draw may exceed FAR times the bound."""
        fresh = [self._draw(case, case.runs, layout)]
        drawn: list[list[OutputSample]] = [[] for _ in fresh[0]]
        undecided = set(range(len(drawn)))
        while True:
            for position, samples in enumerate(drawn):
                new = [one[position] for one in fresh]
                samples.extend(new)
                for one in new:
                    if not one.few or share([one]) >= FAR:
                        self._judge(case, [one])
                if position in undecided and (len(samples) >= MOST_DRAWS or not doubtful(samples)):
                    undecided.remove(position)
                    if samples[0].few:
                        self._judge(case, samples)
            if not undecided:
                return
            fresh = [self._draw(case, 1, self._lay_out(case)) for _ in range(MORE_DRAWS)]

    def _draw(self, case: Case, runs: int, layout: Layout) -> list[OutputSample]:
        """Fill a layout with fresh values, run the baseline once and the candidate `runs` times, and compare:
        one sample for each output. Notes whether repeated runs differ."""
        signature = self._task.signature
        seed = self._rng.getrandbits(48)
        inputs = [layout.view(t) for t in signature.input_tensors]
        parameters = [layout.view(t) for t in signature.parameters]
        self._truth.write(case, seed, inputs, parameters)
        if case.patched:
            self._run(case, layout, self._memory_check(layout), 0)
            self._truth.patch(case, seed)
        check = self._memory_check(layout)
        baseline = self._baseline.at(case.workload)
        right = self._stash(baseline.outputs(layout))
        outputs = [self._stash(self._run(case, layout, check, repeat)) for repeat in range(runs)]
        for repeated in outputs[1:]:
            if not all(_same_bits(a, b) for a, b in zip(outputs[0], repeated, strict=True)):
                self._deterministic = False
        return self._compare(case, seed, right, outputs)

    def _memory_check(self, layout: Layout) -> MemoryCheck:
        protected = self._device.protects_inputs
        return MemoryCheck(layout, self._task.signature, self._key, protected=protected)

    def _run(self, case: Case, layout: Layout, check: MemoryCheck, repeat: int) -> list[torch.Tensor]:
        """One call of the candidate, with outputs poisoned before and memory checked after: copies of its
        outputs. `repeat` selects the poison. Raises Stop if the call fails."""
        signature = self._task.signature
        poison = OUTPUT_POISONS[repeat % len(OUTPUT_POISONS)]
        for tensor in signature.outputs:
            layout.raw(tensor).fill_(poison)
        layout.set_guards()
        synchronize(self._device.torch_device)
        scratch = self._rng.choice((0xFF, 0x00, self._rng.randrange(256)))
        where = f"{case.workload.name} workload {case.workload.sizes}"
        try:
            with self.leash.during("verify"):
                report = self._runner.call(
                    self._arguments(case, layout),
                    scratch_poison=scratch,
                    accounting=False,
                    kept=case.patched,
                )
        except (CandidateDied, CandidateHung) as error:
            raise Stop(failure(error, "verify", where)) from error
        self._calls += 1
        self.work = report.work
        stop_on_report(report, where)
        check.stop_if_touched()
        return [layout.view(t).clone() for t in signature.outputs]

    def _compare(
        self,
        case: Case,
        seed: int,
        right: list[torch.Tensor],
        outputs: list[list[torch.Tensor]],
    ) -> list[OutputSample]:
        """One sample for each output: the candidate's `outputs` of each run, and the baseline's (`right`),
        compared with the float64 reference on the values of `seed`; with the baseline's if there is none."""
        truth, seen = self._truth.outputs(case, seed)
        if truth is None:
            self._notes.append("no float64 reference: compared with the baseline's own output")
        demands = (
            self._truth.demands(case, seed, truth, right, seen)
            if case.planted and truth is not None
            else None
        )
        faint = FAINT_ALONE if seen.pointwise else FAINT
        lenience = 1.0 if case.distribution in FEW_TERMS and seen.few else case.lenience
        samples = []
        for position, tensor in enumerate(self._task.signature.outputs):
            exact = truth[position] if truth is not None else right[position]
            mine, theirs = [output[position] for output in outputs], right[position]
            if demands is not None:
                mine = [demanded(output, demands[position]) for output in mine]
                theirs = demanded(theirs, demands[position])
            own = compare(theirs, exact, faint=faint).errors if truth is not None else None
            known = theirs if truth is not None else None
            comparisons = [compare(output, exact, known, faint=faint) for output in mine]
            furthest = worst(comparisons)
            output = outputs[comparisons.index(furthest)][position].reshape(-1)
            at_worst = output[
                furthest.index : furthest.index + 1
            ].clone()  # a view would keep the whole output
            excuse = self._excuse(case, tensor, exact, own if truth is not None else "no truth")
            if excuse is not None:
                self._notes.append(f"{case.workload.name}/{case.title}: {excuse}")
            coarse = None if self._rounding.products == "none" else own  # at least
            about = (own, None, exact.numel(), excuse is not None, lenience, seen.terms, coarse)
            samples.append(OutputSample(tensor, tuple(comparisons), at_worst, *about))
        if truth is None:
            return samples
        return self._conditioned(case, seed, truth, self._coarsened(case, seed, truth, demands, samples))

    def _coarsened(
        self,
        case: Case,
        seed: int,
        truth: list[torch.Tensor],
        demands: Sequence[Demand] | None,
        samples: list[OutputSample],
    ) -> list[OutputSample]:
        """The samples with `coarse` set where the baseline rounds operands and errors are near the bound
        without it. That takes one more run of the float64 reference."""
        clear = all(one.excused or share([one]) < NEAR for one in samples)
        rounded = None if clear else self._truth.coarse(case, seed, self._rounding.products)
        if rounded is None:
            return samples
        found = []
        for position, (one, output) in enumerate(zip(samples, rounded, strict=True)):
            required = demanded(output, demands[position]) if demands is not None else output
            errors = compare(required, truth[position]).errors if one.tensor.floating else None
            found.append(one if errors is None else replace(one, coarse=scaled(errors, self._rounding.ratio)))
        return found

    def _conditioned(
        self, case: Case, seed: int, truth: list[torch.Tensor], samples: list[OutputSample]
    ) -> list[OutputSample]:
        """The samples with `moved` set, the effect of one rounding of the inputs, where errors are near the
        bound or the output is small. That takes a second run of the float64 reference."""
        clear = [one.excused or (one.count > SMALL_OUTPUT and share([one]) < NEAR) for one in samples]
        if case.planted or all(clear):
            return samples
        moved = self._truth.rounded(case, seed) or truth
        errors = [compare(m, t).errors for m, t in zip(moved, truth, strict=True)]
        return [replace(one, moved=e) for one, e in zip(samples, errors, strict=True)]

    def _excuse(
        self, case: Case, tensor: Tensor, exact: torch.Tensor, own: Errors | Literal["no truth"] | None
    ) -> str | None:
        """Why an output cannot be judged on these values, in words for a note; None where it can. `exact` is
        what it is compared with, `own` PyTorch's errors (None: not finite)."""
        if own == "no truth":
            usable = tensor.floating is False or all_finite(exact)
            known = self._task.kind == "cuda" or all(
                case.arrangement(i) in SAFE for i in range(len(self._task.signature.input_tensors))
            )
            return None if usable and known else "there is no float64 reference for such values"
        if own is None:
            return "PyTorch itself overflows there"
        if not tensor.floating:
            return None
        if not case.planted and case.workload.name != "primary" and not all_finite(exact):
            return "the reference is not finite there"
        limit = max(USELESS, USELESS_ROUNDINGS * ROUNDING[getattr(torch, tensor.dtype)])
        if own.rms > limit and case.distribution != "written":
            return f"PyTorch itself is off by {own.rms:.2g} there"
        return None

    def _judge(self, case: Case, samples: Sequence[OutputSample]) -> None:
        """Add the pooled result of all draws of one output to `results`, unless all are excused; raises Stop
        (Incorrect) if it exceeds the bound."""
        samples = [one for one in samples if not one.excused]
        if not samples:
            return
        own = [one.own for one in samples if one.own is not None]
        drawn = [one.errors for one in samples]
        baseline = pooled(own) if own else None
        bounds = allowed(samples)
        errors = pooled([one for one in drawn if one is not None]) if None not in drawn else None
        too_large = exceeded(errors, bounds) if errors is not None else "not finite"
        tensor = samples[0].tensor
        result = CaseResult(
            workload=case.workload.name,
            distribution=case.title,
            output=tensor.name,
            candidate=errors,
            baseline=baseline,
            bound=bounds,
            passed=too_large is None,
        )
        self.results.append(result)
        if too_large is None:
            return
        shown = next((one for one in samples if one.errors is None), samples[0])
        too_large += f" over {len(samples)} draws" if len(samples) > 1 else ""
        evidence = _evidence(case, tensor, worst(shown.found), too_large)
        raise Stop(Incorrect(reason=_reason(shown.at_worst), evidence=evidence))

    def _stash(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """The results, kept on the device while there is room for them, else copied to the host."""
        if self._device.torch_device.type != "cuda":
            return tensors
        free = torch.cuda.mem_get_info()[0]
        size = sum(t.numel() * t.element_size() for t in tensors)
        return tensors if free > 8 * size + (1 << 30) else [_on_host(t) for t in tensors]


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in page-locked host memory, which PyTorch's allocator reuses."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor)


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))


def _reason(number: torch.Tensor) -> Literal["unwritten output", "wrong values"]:
    """The reason for a wrong element: "unwritten output" if it still has the poison, else "wrong values"."""
    raw = number.view(torch.uint8)
    return "unwritten output" if any(bool((raw == p).all()) for p in OUTPUT_POISONS) else "wrong values"


def _evidence(case: Case, tensor: Tensor, comparison: Comparison, too_large: str) -> str:
    """A sentence with the workload, the kind of values, the measure that is too large, and the worst
    element."""
    indices = []
    rest = comparison.index
    for extent in reversed(case.workload.shape(tensor)):
        indices.append(rest % extent)
        rest //= extent
    where = f"{tensor.name}[{', '.join(str(p) for p in reversed(indices))}]"
    return (
        f"{case.workload.name} workload {case.workload.sizes}, values {case.title}: {too_large}; "
        f"worst at {where}: expected {comparison.expected:.9g}, got {comparison.got:.9g}"
    )
