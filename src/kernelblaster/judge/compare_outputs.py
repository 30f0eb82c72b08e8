"""Compares a candidate's outputs with the float64 reference for one verification case (sizes and kind of
values), and decides whether the errors are within bounds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch

from kernelblaster.judge.case import FEW_TERMS, Case
from kernelblaster.judge.nonfinite import Demand, demanded
from kernelblaster.judge.operand_rounding import OperandRounding
from kernelblaster.judge.precision import (
    FAINT,
    FAINT_ALONE,
    ROUNDING,
    Comparison,
    all_finite,
    compare,
    compare_all,
    either,
    exceeded,
    pooled,
    scaled,
)
from kernelblaster.judge.samples import OutputSample, allowed, share, worst
from kernelblaster.judge.stop import Stop
from kernelblaster.judge.truth import Truth
from kernelblaster.records import Incorrect, Task, Tensor
from kernelblaster.records.evaluation import CaseResult, Errors
from kernelblaster.tasks.arrangements import SAFE
from kernelblaster.tasks.open_choices import settled

OUTPUT_POISONS = (0xFF, 0x7F, 0xC1)
SMALL_OUTPUT = 1 << 16  # elements: with fewer, PyTorch's own error may be zero by chance
MORE_ROUNDINGS, SLIGHTLY = 3, 3.0  # times; of the bound
NEAR = 0.5  # of the bound: above, the effect of rounding the inputs is computed too
SMOOTH = (
    2.0**-10
)  # times the RMS: no element moves further by a rounding of inputs unless something is decided
USELESS, USELESS_ROUNDINGS = 0.01, 32.0  # above this RMS error of PyTorch's own, nothing is compared


class OutputComparer:
    """Compares outputs of one task with the float64 reference, which `truth` computes. `rounding` says
    whether the baseline (PyTorch) rounds operands of products, as to TF32. With `conditioned`, error bounds
    allow for the effect of rounding every input once; to find that effect, the reference is run a second
    time, on rounded inputs.

    `mixed` is for inputs whose rows have different kinds of values. In the second run, equal input values may
    be rounded equally, so that they stay equal. With `mixed`, a third run rounds each value by itself, and
    the larger of the two effects counts. The third run does not count for an output of which some element
    moves in it by 1/1024 (SMOOTH) of the output's root mean square or more: such an element depends on a
    choice between values that were equal before.

    Two lists are attributes: the method `judge` adds an entry to `results` for each output of a case; `notes`
    are sentences on what could not be compared and why.
    """

    def __init__(
        self,
        task: Task,
        truth: Truth,
        rounding: OperandRounding,
        *,
        conditioned: bool = True,
        mixed: bool = False,
    ) -> None:
        self._task = task
        self._truth = truth
        self._rounding = rounding
        self._moves_inputs = conditioned
        self._mixed = mixed
        self.results: list[CaseResult] = []
        self.notes: list[str] = []

    def compare(
        self,
        case: Case,
        seed: int,
        right: list[torch.Tensor],
        outputs: list[list[torch.Tensor]],
        parts: Sequence[torch.Tensor] | None = None,
    ) -> list[OutputSample]:
        """Compares the outputs of one case; decides nothing. Returns one sample for each output of the task.
        It says how far the candidate and PyTorch are from the float64 reference; where there is no such
        reference, how far the candidate is from PyTorch. `outputs` has a list of the candidate's outputs for
        each of its runs, `right` are PyTorch's outputs. All of them were computed on the values that `case`
        and `seed` determine. `parts` has for each output the flat indices of the elements to compare; None:
        all."""
        truth, seen, choices = self._truth.outputs(case, seed)
        if truth is None:
            self.notes.append("no float64 reference: compared with the baseline's own output")
        else:  # indices of equal elements, before other cases' values overwrite the elements
            outputs = [[settled(o, c) for o, c in zip(one, choices, strict=True)] for one in outputs]
            right = [settled(o, c) for o, c in zip(right, choices, strict=True)]
        demands = (
            self._truth.demands(case, seed, truth, right, seen)
            if case.planted and truth is not None
            else None
        )
        faint = FAINT_ALONE if seen.pointwise else FAINT
        strict = case.distribution in FEW_TERMS and seen.few
        if demands is not None:
            outputs = [[demanded(o, d) for o, d in zip(one, demands, strict=True)] for one in outputs]
            right = [demanded(o, d) for o, d in zip(right, demands, strict=True)]
        if parts is not None:
            truth = _of(truth, parts) if truth is not None else None
            right, outputs = _of(right, parts), [_of(one, parts) for one in outputs]
        samples = []
        for position, tensor in enumerate(self._task.signature.outputs):
            exact = truth[position] if truth is not None else right[position]
            mine, theirs = [output[position] for output in outputs], right[position]
            if truth is not None:
                known = [None, *[theirs for _ in mine]]
                first, *comparisons = compare_all([theirs, *mine], exact, known, faint=faint)
                own = first.errors
            else:
                comparisons, own = compare_all(mine, exact, [None for _ in mine], faint=faint), None
            furthest = worst(comparisons)
            output = outputs[comparisons.index(furthest)][position].reshape(-1)
            at_worst = output[furthest.index : furthest.index + 1].clone()  # a view would keep all of it
            if parts is not None and parts[position].numel():
                comparisons = [replace(c, index=int(parts[position][c.index])) for c in comparisons]
            excuse = self._excuse(case, tensor, exact, own if truth is not None else "no truth")
            if excuse is not None:
                self.notes.append(f"{case.workload.name}/{case.title}: {excuse}")
            lenience = 1.0 if strict else case.lenience(tensor)
            coarse = None if self._rounding.products == "none" else own  # at least
            about = (own, None, exact.numel(), excuse is not None, lenience, seen.terms, coarse)
            samples.append(OutputSample(tensor, tuple(comparisons), at_worst, *about))
        if truth is None:
            return samples
        samples = self._coarsened(case, seed, truth, demands, samples, parts)
        return self._conditioned(case, seed, truth, samples, parts)

    def _coarsened(
        self,
        case: Case,
        seed: int,
        truth: list[torch.Tensor],
        demands: Sequence[Demand] | None,
        samples: list[OutputSample],
        parts: Sequence[torch.Tensor] | None,
    ) -> list[OutputSample]:
        """Completes the `samples` of a case (`truth` are its float64 outputs): sets `coarse`, the effect of
        operands rounded to TF32, where the baseline rounds operands and errors are near the bound without it.
        That takes one more run of the float64 reference on the values of `seed`. `demands` is what is
        required where inputs are NaN, `parts` the elements to compare."""
        clear = all(one.excused or share([one]) < NEAR for one in samples)
        rounded = None if clear else self._truth.coarse(case, seed, self._rounding.products)
        if rounded is None:
            return samples
        if demands is not None:
            rounded = [demanded(o, d) for o, d in zip(rounded, demands, strict=True)]
        rounded = _of(rounded, parts) if parts is not None else rounded
        coarsened = []
        for one, output, exact in zip(samples, rounded, truth, strict=True):
            errors = compare(output, exact).errors if one.tensor.floating else None
            coarsened.append(
                one if errors is None else replace(one, coarse=scaled(errors, self._rounding.ratio))
            )
        return coarsened

    def _conditioned(
        self,
        case: Case,
        seed: int,
        truth: list[torch.Tensor],
        samples: list[OutputSample],
        parts: Sequence[torch.Tensor] | None,
    ) -> list[OutputSample]:
        """Completes the `samples` of a case (`truth` are its float64 outputs): sets `moved`, the effect of
        one rounding of the inputs, where errors are near the bound or the output is small. That takes a
        second run of the float64 reference on the values of `seed`. Where errors are then a little beyond the
        bound, inputs are rounded at random a few times more, and the largest effect counts: a single one may
        happen to be small where a sum passes through zero. `parts` are the elements to compare."""
        clear = [one.excused or (one.count > SMALL_OUTPUT and share([one]) < NEAR) for one in samples]
        if case.planted or not self._moves_inputs or all(clear):
            return samples
        samples = [
            replace(one, moved=errors)
            for one, errors in zip(samples, self._effects(case, seed, truth, parts), strict=True)
        ]
        for _ in range(MORE_ROUNDINGS):
            if not any(not one.excused and 1 < share([one]) < SLIGHTLY for one in samples):
                break
            further = self._effects(case, seed, truth, parts)
            samples = [
                replace(one, moved=either(one.moved, errors)) if one.moved and errors else one
                for one, errors in zip(samples, further, strict=True)
            ]
        return samples

    def _effects(
        self, case: Case, seed: int, truth: list[torch.Tensor], parts: Sequence[torch.Tensor] | None
    ) -> list[Errors | None]:
        """The effect of one rounding of every input on each output, by a run of the float64 reference."""
        moved = self._truth.rounded(case, seed) or truth
        moved = _of(moved, parts) if parts is not None and moved is not truth else moved
        errors = [compare(m, t).errors for m, t in zip(moved, truth, strict=True)]
        return self._apart(case, seed, truth, errors, parts) if self._mixed else errors

    def _apart(
        self,
        case: Case,
        seed: int,
        truth: list[torch.Tensor],
        errors: list[Errors | None],
        parts: Sequence[torch.Tensor] | None,
    ) -> list[Errors | None]:
        """The effect of one rounding of the inputs on each output, by measure the larger of two: `errors`,
        where equal values were rounded equally, and where each was rounded by itself. The latter counts only
        if no element moves far (SMOOTH), as it does where it is decided otherwise because a tie is gone."""
        moved = self._truth.rounded(case, seed, ties=False) or truth
        moved = _of(moved, parts) if parts is not None and moved is not truth else moved
        apart = [compare(m, t).errors for m, t in zip(moved, truth, strict=True)]
        return [
            either(one, other) if one is not None and other is not None and other.worst < SMOOTH else one
            for one, other in zip(errors, apart, strict=True)
        ]

    def _excuse(
        self, case: Case, tensor: Tensor, exact: torch.Tensor, own: Errors | Literal["no truth"] | None
    ) -> str | None:
        """Why an output cannot be judged on these values, in words for a note; None if it can be. `exact` is
        the tensor that it is compared with. `own` are PyTorch's errors: None if PyTorch's output is not
        finite, "no truth" if there is no float64 reference."""
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

    def judge(self, case: Case, samples: Sequence[OutputSample]) -> None:
        """Decides whether one output of the candidate is precise enough in one verification case (sizes and
        kind of values). `samples` has this output's errors, one sample for each draw of input values. Those
        with `excused` set, on whose values nothing can be judged, do not count. Pools the errors of the
        others, and appends them with their bound to this object's list `results`. Raises Stop (Incorrect) if
        they exceed the bound. Does nothing if all samples are excused."""
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


def _of(tensors: Sequence[torch.Tensor], parts: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The elements to compare: from each tensor those at the flat indices that `parts` has at the same
    position, as 1-D tensors."""
    return [tensor.reshape(-1)[part] for tensor, part in zip(tensors, parts, strict=True)]


def _reason(number: torch.Tensor) -> Literal["unwritten output", "wrong values"]:
    """The reason for a wrong output element, whose value is `number`: "unwritten output" if it still has one
    of the poison bytes that outputs are filled with before the call, else "wrong values"."""
    raw = number.view(torch.uint8)
    return "unwritten output" if any(bool((raw == p).all()) for p in OUTPUT_POISONS) else "wrong values"


def _evidence(case: Case, tensor: Tensor, comparison: Comparison, too_large: str) -> str:
    """A sentence that says why an output is wrong: the workload, the kind of values, the error measure that
    is too large, and the worst element with its expected value."""
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
