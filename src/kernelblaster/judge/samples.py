"""The errors of one output on one draw of random input values (a sample), and the decision from several
samples whether the errors are within the bounds."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelblaster.judge.error_share import MEASURES, share_of
from kernelblaster.judge.precision import FEW, Comparison, bound, pooled, scaled
from kernelblaster.records import Tensor
from kernelblaster.records.evaluation import Errors

ALIKE = 4  # independent errors of one draw, at most: those of further elements are correlated
FAR = 4.0  # times the bound: a single draw decides


@dataclass(frozen=True)
class OutputSample:
    """The errors of one output (`tensor`) on one draw of random input values. `found` compares the output of
    each of the candidate's runs with the float64 reference; `own` are PyTorch's errors. `count` is the number
    of elements, `at_worst` the candidate's value in the element that is furthest off. `excused`: PyTorch's
    own result is useless for these values (such as NaN), so the sample is not judged.

    The rest determines the bound. `moved` is the effect of one rounding of the inputs (None: not computed).
    `coarse` is the effect of rounding operands as PyTorch does at the timed sizes, as to TF32 (None: it does
    not). `terms` is the number of terms of the longest sum, `lenience` a factor on the bound.
    """

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
        """True if the error on a single draw of input values is too much a matter of chance to decide on: for
        a floating-point output of at most 4096 elements that has a float64 reference."""
        return self.tensor.floating and self.own is not None and self.count <= FEW


def worst(found: Sequence[Comparison]) -> Comparison:
    """Returns the comparison among `found` with the largest RMS error. A comparison whose `errors` are None
    (NaN or infinity where the reference is finite, or the reverse) counts as larger than any other."""
    return max(found, key=lambda one: one.errors.rms if one.errors else float("inf"))


def share(samples: Sequence[OutputSample]) -> float:
    """Returns how much of their bound the errors of one output take, pooled over all draws of input values
    (one sample each): the largest ratio of all error measures. Up to 1 passes. Infinite if some draw gave NaN
    or infinity where the reference is finite, or the reverse."""
    errors = [one.errors for one in samples if one.errors is not None]
    return share_of(pooled(errors), allowed(samples)) if len(errors) == len(samples) else float("inf")


def doubtful(samples: Sequence[OutputSample]) -> bool:
    """True if one output needs more draws of input values before it can be decided on; `samples` has one
    sample for each draw so far. Always False for an output of many elements (`OutputSample.few` is False),
    and if all samples are excused.

    For other outputs, the ratio of the pooled errors to their bound (`share`) decides: True while it is above
    r = n / (n + 4), and below both 1 / r^2 and 4. Here n is the number of draws times the number of the
    output's elements, of which at most four count. So the range narrows with each draw: for one element, it
    is 0.2 to 4 after one draw, 0.5 to 4 after four, and 0.8 to 1.6 after sixteen.
    """
    samples = [one for one in samples if not one.excused]
    if not samples or not samples[0].few:
        return False
    numbers = len(samples) * min(samples[0].count, ALIKE)
    near = numbers / (numbers + ALIKE)
    return near < share(samples) < min(FAR, near**-2)


def allowed(samples: Sequence[OutputSample]) -> Errors:
    """The bound on one output's errors, by error measure, from all draws of input values together (one sample
    each). Three things are pooled over the samples: PyTorch's errors, the effects of one rounding of the
    inputs, and the effects of TF32 operands. `precision.bound` makes a bound of them; it is multiplied by the
    `lenience` of the samples, which depends on the kind of values."""
    own = [one.own for one in samples if one.own is not None]
    moved = [one.moved for one in samples if one.moved is not None]
    dtype = getattr(torch, samples[0].tensor.dtype)
    condition = pooled(moved) if moved else None
    rounded = [one.coarse for one in samples if one.coarse is not None]
    coarse = pooled(rounded) if rounded else None
    first = samples[0]
    limits = bound(pooled(own) if own else None, condition, dtype, first.count, first.terms, coarse)
    return scaled(limits, first.lenience)
