"""The errors of a candidate's outputs on one set of random input values (a draw), and the decision over
several draws."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelblaster.judge.precision import FEW, MEASURES, Comparison, bound, pooled, scaled, share_of
from kernelblaster.records import Tensor
from kernelblaster.records.evaluation import Errors

ALIKE = 4  # independent errors of one draw, at most: those of further elements are correlated
FAR = 4.0  # times the bound: a single draw decides


@dataclass(frozen=True)
class OutputSample:
    """The errors of one output on one draw of random input values. `found` compares each run of the candidate
    with the float64 reference, `own` are PyTorch's errors, `moved` the effect of one rounding of the inputs
    (None: not computed), `coarse` that of operands rounded as PyTorch does at the timed sizes, like TF32
    (None: it does not). `at_worst` is the candidate's element where it was furthest off; `count` the number
    of elements. `excused`: PyTorch's own result is of no use for these values. `lenience` is a factor on the
    bound, `terms` the length of the longest sum."""

    tensor: Tensor
    found: tuple[Comparison, ...]
    at_worst: torch.Tensor
    own: Errors | None
    moved: Errors | None
    count: int
    excused: bool
    lenience: float = 1.0
    terms: int = 1
    coarse: Errors | None = None

    @property
    def errors(self) -> Errors | None:
        """For each error measure the largest of all runs; None if some run is finite where the reference is
        not, or the reverse."""
        known = [one.errors for one in self.found if one.errors is not None]
        if len(known) < len(self.found):
            return None
        return Errors(**{m: max(getattr(e, m) for e in known) for m in MEASURES})

    @property
    def few(self) -> bool:
        """Whether the output has floating-point elements, but so few (at most 4096) that its error on one
        draw of input values is too much a matter of chance to decide on."""
        return self.tensor.floating and self.own is not None and self.count <= FEW


def worst(found: Sequence[Comparison]) -> Comparison:
    """The comparison with the largest RMS error; one without errors (NaN or infinity where the reference is
    finite, or the reverse) counts as larger than any."""
    return max(found, key=lambda one: one.errors.rms if one.errors else float("inf"))


def share(samples: Sequence[OutputSample]) -> float:
    """The errors of one output, pooled over all draws of input values, divided by their bound, for the worst
    measure: up to 1 passes. Infinite where some draw gave NaN or infinity wrongly."""
    errors = [one.errors for one in samples if one.errors is not None]
    return share_of(pooled(errors), allowed(samples)) if len(errors) == len(samples) else float("inf")


def doubtful(samples: Sequence[OutputSample]) -> bool:
    """Whether more draws of input values are needed to decide on one output, compared in all draws so far
    (`samples`). Never for an output of many elements (`OutputSample.few` is False). Else while the errors of
    all draws, pooled as a root mean square, are within a range around their bound that narrows with the
    number n of elements compared in all draws: from n / (n + 4) to its inverse square, at most 4. That is
    0.2 to 4 for n = 1, 0.5 to 4 for 4, 0.8 to 1.6 for 16."""
    samples = [one for one in samples if not one.excused]
    if not samples or not samples[0].few:
        return False
    numbers = len(samples) * min(samples[0].count, ALIKE)
    near = numbers / (numbers + ALIKE)
    return near < share(samples) < min(FAR, near**-2)


def allowed(samples: Sequence[OutputSample]) -> Errors:
    """The bound on one output's errors, for each error measure, from all draws of input values together:
    PyTorch's own errors, the conditioning and TF32 effect that the samples hold are pooled, then multiplied
    by the case's lenience."""
    own = [one.own for one in samples if one.own is not None]
    moved = [one.moved for one in samples if one.moved is not None]
    dtype = getattr(torch, samples[0].tensor.dtype)
    condition = pooled(moved) if moved else None
    rounded = [one.coarse for one in samples if one.coarse is not None]
    coarse = pooled(rounded) if rounded else None
    first = samples[0]
    limits = bound(pooled(own) if own else None, condition, dtype, first.count, first.terms, coarse)
    return scaled(limits, first.lenience)
