"""What is required of a candidate's output where inputs hold NaN or infinity.

"Planted" elements are the input elements that a verification case sets to NaN or infinity. An output element
must be NaN or infinite where the float64 reference is and where it depends on a planted element. Where the
reference is finite, it must be right; NaN is accepted there, too, if the element depends on a planted one.

Not checked are: elements whose reference is not finite only because it multiplies NaN or infinity by zero (as
with a diagonal matrix that is written out in full); integers that depend on a NaN, if PyTorch in the task's
own precision gives other ones than in float64, or if they are indices or converted numbers rather than counts
and comparisons; elements on which PyTorch's implementations of attention disagree.

Infinity is planted only into elementwise computations, where it must come out as in the reference; where the
reference turns it into NaN, anything is allowed. In other computations NaN in place of infinity, or the
reverse, is accepted: splitting an operand into two parts turns one into the other, and so does a running
mean.
"""

from dataclasses import dataclass

import torch

APART = 1e-4  # relative: smaller differences are rounding


def depends(high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    """A boolean mask of the output elements that depend on planted input elements (those that are set to NaN
    or infinity): they differ between `high` and `low`, the reference's outputs with the planted elements set
    far above and far below all other values."""
    if not high.is_floating_point():
        return high != low
    scale = torch.maximum(high.abs(), low.abs())
    still = (high == low) | ((high - low).abs() <= APART * scale)
    return ~(still & torch.isfinite(high) & torch.isfinite(low))


@dataclass(frozen=True)
class Demand:
    """What is known about one output of a verification case in which some input elements are NaN or infinite
    ("planted"). `truth` is the float64 reference. `other` is the same, computed with attention written out as
    products and a softmax instead of PyTorch's fused kernel. `moving` is a mask of the output elements that
    depend on planted ones. `own` is PyTorch's output in the task's own precision. `infinite`: infinity was
    planted, not NaN. `made`: integers in the outputs may be indices or converted floating-point numbers, not
    only counts and comparisons."""

    truth: torch.Tensor
    other: torch.Tensor
    moving: torch.Tensor
    own: torch.Tensor
    infinite: bool = False
    made: bool = False


def demanded(output: torch.Tensor, demand: Demand) -> torch.Tensor:
    """A copy of the candidate's output for the usual comparison with the float64 reference: elements that may
    be anything, because of NaN or infinity in the inputs, have the reference's value instead of the
    candidate's."""
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
