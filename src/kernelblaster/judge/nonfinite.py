"""What is required of a candidate's output where inputs hold NaN or infinity. "Planted" elements are the
input elements that a verification case sets to NaN or infinity.

For floating-point outputs of most computations, NaN is planted. Where the float64 reference is NaN or
infinite, and the output element depends on a planted one, the candidate may give either NaN or infinity.
(Kernels that split an operand into a high and a low part turn infinity into NaN.) Where the reference is
finite, the candidate must be right; but NaN is accepted there, too, if the element depends on a planted one.

Into elementwise computations, infinity is planted as well. It must come out as in the reference. Where the
reference turns it into NaN, anything is allowed.

Three kinds of elements are not checked: (1) elements whose reference is not finite only because NaN or
infinity is multiplied by zero, as with a diagonal matrix that is written out in full; (2) elements on which
PyTorch's implementations of attention disagree; (3) integers that depend on a NaN, if PyTorch computes other
ones in the task's own precision than in float64, or if they are indices or converted numbers. Of integers
that depend on a NaN, this leaves counts and comparisons.
"""

from dataclasses import dataclass

import torch

APART = 1e-4  # relative: smaller differences are rounding


def depends(high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    """A boolean mask over one output: which of its elements depend on planted input elements (those that are
    set to NaN or infinity). `high` and `low` are the reference's outputs with all planted elements set far
    above, and far below, all other values. Where these two differ, the output depends on planted elements."""
    if not high.is_floating_point():
        return high != low
    scale = torch.maximum(high.abs(), low.abs())
    still = (high == low) | ((high - low).abs() <= APART * scale)
    return ~(still & torch.isfinite(high) & torch.isfinite(low))


@dataclass(frozen=True)
class Demand:
    """What is known about one output of a verification case in which some input elements are "planted", that
    is NaN or infinite. `truth` is the float64 reference. `other` is the same with attention computed from
    plain products and a softmax, not by PyTorch's fused kernel. `moving` is a mask of the output elements
    that depend on planted ones. `own` is PyTorch's output in the task's own precision. `infinite`: infinity
    was planted, not NaN. `made`: an integer output may consist of indices or of converted floating-point
    numbers, not only of counts or comparisons."""

    truth: torch.Tensor
    other: torch.Tensor
    moving: torch.Tensor
    own: torch.Tensor
    infinite: bool = False
    made: bool = False


def demanded(output: torch.Tensor, demand: Demand) -> torch.Tensor:
    """Returns a copy of a candidate's output that can be compared with the float64 reference element by
    element. Elements that may have any value, because inputs hold NaN or infinity (`demand` says which), get
    the reference's value; all others keep the candidate's."""
    truth, other, moving = (t.to(output.device) for t in (demand.truth, demand.other, demand.moving))
    if not output.is_floating_point():
        disagreed = demand.own.to(output.device) != truth.to(output.dtype)
        return torch.where(moving & (disagreed | demand.made), truth.to(output.dtype), output)
    if demand.infinite:
        return torch.where(torch.isnan(truth), truth.to(output.dtype), output)
    free = ~torch.isfinite(truth) & ~moving
    free |= torch.isfinite(truth) != torch.isfinite(other)
    free |= torch.isinf(truth) & torch.isnan(output)
    free |= torch.isnan(truth) & torch.isinf(output)
    free |= torch.isfinite(truth) & moving & torch.isnan(output)
    return torch.where(free, truth.to(output.dtype), output)
