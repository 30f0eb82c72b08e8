"""How far a candidate's outputs are from the truth on one draw of values, and what several draws say
together."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelblaster.judge.precision import FEW, MEASURES, Comparison, bound, pooled, share_of
from kernelblaster.records import Tensor
from kernelblaster.records.evaluation import Errors

ALIKE = 4  # numbers of one draw that luck treats alike: more of them say no more
FAR = 4.0  # times what is allowed: one draw is enough


@dataclass(frozen=True)
class OutputSample:
    """One output on one draw of values: how far each run of the candidate was from the truth, `own` how far
    PyTorch was, and `moved` how far one rounding of the inputs leads. `at_worst` is the candidate's own
    number where it was furthest off. `excused`: PyTorch's own result is of no use there. `lenience` is a
    factor on what is allowed; `terms` are those of the longest sum."""

    tensor: Tensor
    found: tuple[Comparison, ...]
    at_worst: torch.Tensor
    own: Errors | None
    moved: Errors | None
    count: int
    excused: bool
    lenience: float = 1.0
    terms: int = 1

    @property
    def errors(self) -> Errors | None:
        """The largest of all runs, by measure; None where one is not finite."""
        known = [one.errors for one in self.found if one.errors is not None]
        if len(known) < len(self.found):
            return None
        return Errors(**{m: max(getattr(e, m) for e in known) for m in MEASURES})

    @property
    def few(self) -> bool:
        """Whether one draw of so few floating numbers may be lucky."""
        return self.tensor.floating and self.own is not None and self.count <= FEW


def worst(found: Sequence[Comparison]) -> Comparison:
    """The one with the largest RMS error; one that is not finite before all others."""
    return max(found, key=lambda one: one.errors.rms if one.errors else float("inf"))


def share(samples: Sequence[OutputSample]) -> float:
    """How much of what is allowed all draws together use up; where one is not finite, that is infinite."""
    errors = [one.errors for one in samples if one.errors is not None]
    return share_of(pooled(errors), allowed(samples)) if len(errors) == len(samples) else float("inf")


def doubtful(samples: Sequence[OutputSample]) -> bool:
    """Whether more draws are needed: of outputs of few numbers, the errors of all draws together are near
    the bound. The more was drawn, the nearer: from 0.2 to 4 times the bound for one number, from 0.5 to 4
    for four, from 0.8 to 1.6 for sixteen."""
    samples = [one for one in samples if not one.excused]
    if not samples or not samples[0].few:
        return False
    numbers = len(samples) * min(samples[0].count, ALIKE)
    near = numbers / (numbers + ALIKE)
    return near < share(samples) < min(FAR, near**-2)


def allowed(samples: Sequence[OutputSample]) -> Errors:
    """The bound on the errors of all draws of one output together."""
    own = [one.own for one in samples if one.own is not None]
    moved = [one.moved for one in samples if one.moved is not None]
    dtype = getattr(torch, samples[0].tensor.dtype)
    condition = pooled(moved) if moved else None
    first = samples[0]
    found = bound(pooled(own) if own else None, condition, dtype, first.count, first.terms)
    return Errors(**{m: getattr(found, m) * first.lenience for m in MEASURES})
