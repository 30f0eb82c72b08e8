"""What is demanded of an output where inputs hold NaN or infinity.

An output must be NaN or infinite where the float64 reference is and where it depends on the planted places;
it must be right where the reference is finite. Nothing is demanded where the reference is not finite only
because it multiplies by zero (a diagonal matrix written out), and of whole numbers that depend on a NaN where
PyTorch in its own precision disagrees, or where they are places or converted numbers and not only counts and
comparisons. Infinity is planted only where each element stands for itself. There it must come out as it went
in; only where the reference makes NaN of it, nothing is demanded. Elsewhere, infinity and NaN may stand for
each other: operands that are split into two parts turn one into the other, and so does a running mean. Where
PyTorch's implementations of attention disagree, none is the right one.
"""

from dataclasses import dataclass

import torch

APART = 1e-4  # relative: what moves less is rounding


def depends(high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    """Which outputs move when the planted places go from far above all other values to far below."""
    if not high.is_floating_point():
        return high != low
    scale = torch.maximum(high.abs(), low.abs())
    still = (high == low) | ((high - low).abs() <= APART * scale)
    return ~(still & torch.isfinite(high) & torch.isfinite(low))


@dataclass(frozen=True)
class Demand:
    """Of one output: the float64 reference, the same by another implementation of attention, which elements
    depend on what was planted, and PyTorch's own output. `infinite`: infinity was planted; `made`: whole
    numbers were made of floating ones by more than comparing them."""

    truth: torch.Tensor
    other: torch.Tensor
    moving: torch.Tensor
    own: torch.Tensor
    infinite: bool = False
    made: bool = False


def demanded(output: torch.Tensor, demand: Demand) -> torch.Tensor:
    """The output with the truth in the places of which nothing is demanded."""
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
