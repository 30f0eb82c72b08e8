"""The errors of a candidate's outputs on one set of random input values (a draw), and the decision that
follows from several draws."""

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
    """The errors of one output of a task on one draw of random input values. `found` compares each of the
    candidate's runs with the float64 reference, and `own` are PyTorch's errors. `moved` is the effect of one
    rounding of the inputs (None: not computed); `coarse` that of rounding operands as PyTorch does at the
    timed sizes, like TF32 (None: it does not). `at_worst` is the candidate's value where it was furthest off
    (one element), `count` the number of elements. `excused`: PyTorch's own result is of no use for these
    values, so nothing is judged. `lenience` is a factor on the bound, `terms` the number of terms of the
    longest sum."""

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
        """For each error measure the largest of all runs; None if the output of some run is NaN or infinite
        where the reference is finite, or the reverse."""
        known = [one.errors for one in self.found if one.errors is not None]
        if len(known) < len(self.found):
            return None
        return Errors(**{m: max(getattr(e, m) for e in known) for m in MEASURES})

    @property
    def few(self) -> bool:
        """True for a floating-point output of at most 4096 elements: its error on a single draw of input
        values is too much a matter of chance to decide on."""
        return self.tensor.floating and self.own is not None and self.count <= FEW


def worst(found: Sequence[Comparison]) -> Comparison:
    """The comparison with the largest RMS error. One whose `errors` are None (NaN or infinity where the
    reference is finite, or the reverse) counts as larger than any other."""
    return max(found, key=lambda one: one.errors.rms if one.errors else float("inf"))


def share(samples: Sequence[OutputSample]) -> float:
    """The errors of one output, pooled over all draws of input values (one sample each), divided by the bound
    on them: the largest ratio of all error measures. Up to 1 passes. Infinite if some draw gave NaN or
    infinity where the reference is finite, or the reverse."""
    errors = [one.errors for one in samples if one.errors is not None]
    return share_of(pooled(errors), allowed(samples)) if len(errors) == len(samples) else float("inf")


def doubtful(samples: Sequence[OutputSample]) -> bool:
    """True if more draws of input values are needed to decide on one output; `samples` has one sample for
    each draw so far. Always False for an output of many elements (`OutputSample.few` is False). For others it
    is True while the ratio of the pooled errors to their bound (`share`) is near 1: between 0.2 and 4 for one
    element compared so far, 0.5 and 4 for four, 0.8 and 1.6 for sixteen. In general, with n elements (at most
    four counted per draw), it is between r = n / (n + 4) and the smaller of 1 / r^2 and 4."""
    samples = [one for one in samples if not one.excused]
    if not samples or not samples[0].few:
        return False
    numbers = len(samples) * min(samples[0].count, ALIKE)
    near = numbers / (numbers + ALIKE)
    return near < share(samples) < min(FAR, near**-2)


def allowed(samples: Sequence[OutputSample]) -> Errors:
    """The bound on one output's errors, for each error measure, from all draws of input values together (one
    sample each). PyTorch's errors, the effects of one rounding of the inputs, and those of TF32 operands are
    each pooled over the samples; `precision.bound` makes a bound of the three, which is then multiplied by
    the case's lenience."""
    own = [one.own for one in samples if one.own is not None]
    moved = [one.moved for one in samples if one.moved is not None]
    dtype = getattr(torch, samples[0].tensor.dtype)
    condition = pooled(moved) if moved else None
    rounded = [one.coarse for one in samples if one.coarse is not None]
    coarse = pooled(rounded) if rounded else None
    first = samples[0]
    limits = bound(pooled(own) if own else None, condition, dtype, first.count, first.terms, coarse)
    return scaled(limits, first.lenience)
