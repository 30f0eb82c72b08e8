"""What is required of a candidate's output where inputs hold NaN or infinity.

"Planted" elements are the input elements that were set to NaN or infinity. An output element must be NaN or
infinite where the float64 reference is and where it depends on a planted element; it must be right where the
reference is finite.

Exempt are: elements whose reference is not finite only because it multiplies by zero (a diagonal matrix
written out); integers that depend on a NaN, where PyTorch in the task's own precision disagrees with float64,
or where they are indices or converted numbers rather than counts and comparisons; elements on which PyTorch's
implementations of attention disagree.

Infinity is planted only into elementwise computations, where it must come out as in the reference; where the
reference turns it into NaN, anything is allowed. Elsewhere infinity and NaN are interchangeable: splitting an
operand into two parts turns one into the other, and so does a running mean.
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
    """What is known about one output of a case in which some input elements are NaN or infinite ("planted").
    `truth` is the float64 reference, `other` the same by another implementation of attention, `moving` a mask
    of the elements that depend on planted ones, `own` PyTorch's output in its own precision. `infinite`:
    infinity was planted, not NaN. `made`: integers were computed from floating values by more than
    comparisons."""

    truth: torch.Tensor
    other: torch.Tensor
    moving: torch.Tensor
    own: torch.Tensor
    infinite: bool = False
    made: bool = False


def demanded(output: torch.Tensor, demand: Demand) -> torch.Tensor:
    """A copy of the candidate's output in which elements that NaN or infinity in the inputs leaves free are
    replaced by the reference's, so that it can be compared with the reference as usual."""
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
