"""How far an output is from the truth, and how far it may be.

The truth is the reference in float64. What is allowed follows from the error that PyTorch itself
makes in the task's precision, and from how much the result moves when the inputs move by one
rounding: a candidate may be a stated factor worse, no more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

import torch

from kernelblaster.records.evaluation import Errors

TILE = 256
PIECE = 1 << 24
# A candidate's error may be this many times the baseline's, or the floor's in units of rounding.
FACTORS = Errors(rms=10, worst=16, tile=16, relative=10, lost=5)
FLOOR_ROUNDINGS = Errors(rms=1, worst=4, tile=2, relative=2, lost=0)
LOST_SHARE, LOST_ELEMENTS = 1e-5, 2  # sums that cancel to almost nothing: the larger of the two
# Without a float64 reference (CUDA-source tasks), two orders of summation must be allowed for.
AGREEMENT_ROUNDINGS = Errors(rms=32, worst=512, tile=128, relative=256, lost=0)
ROUNDING = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
}
MEASURES = ("rms", "worst", "tile", "relative", "lost")
SAMPLE = 1 << 16  # elements from which the percentile is taken


@dataclass(frozen=True)
class Comparison:
    """`errors` is None where non-finite values appear that the reference does not have.
    `index` is the flat position of the worst element, with what was expected and what came."""

    errors: Errors | None
    index: int
    expected: float
    got: float


def compare(output: torch.Tensor, truth: torch.Tensor) -> Comparison:
    """Compare an output with the truth, piece by piece; both may live anywhere."""
    if not output.is_floating_point():
        return _compare_exact(output, truth)
    flat, exact = output.reshape(-1), truth.reshape(-1)
    square = 0.0
    for start in range(0, exact.numel(), PIECE):
        square += float(_finite(exact[start : start + PIECE].double()).square().sum())
    scale = (square / max(exact.numel(), 1)) ** 0.5
    tiny = max(scale * 1e-12, torch.finfo(output.dtype).tiny)
    stride = max(1, exact.numel() // SAMPLE)
    squares = worst = tile = 0.0
    lost = index = 0
    sampled = []
    for start in range(0, exact.numel(), PIECE):
        right = exact[start : start + PIECE].double()
        got = flat[start : start + PIECE].to(right.device)
        strange = _strange(got, right)
        if strange is not None:
            place = start + strange
            return Comparison(None, place, float(exact[place]), float(flat[place]))
        error = _finite(got.double() - right).abs()
        right = _finite(right).abs()
        squares += float(error.square().sum())
        ratio = error / right.clamp_min(tiny)
        lost += int((ratio > 0.5).sum())
        sampled.append(ratio[::stride].clone())  # a view would keep the whole piece
        peak, where = error.max(0)
        if float(peak) > worst:
            worst, index = float(peak), start + int(where)
        tile = max(tile, _worst_tile(error, right, tiny))
    count = max(exact.numel(), 1)
    reference = max(scale, torch.finfo(output.dtype).tiny)  # below that, numbers have fewer digits
    errors = Errors(
        rms=(squares / count) ** 0.5 / reference,
        worst=worst / reference,
        tile=tile,
        relative=_percentile(sampled),
        lost=lost / count,
    )
    if exact.numel() == 0:
        return Comparison(errors, 0, 0.0, 0.0)
    return Comparison(errors, index, float(exact[index]), float(flat[index]))


def bound(baseline: Errors | None, condition: Errors | None, dtype: torch.dtype, count: int) -> Errors:
    """What a candidate's errors on `count` elements may be: the stated factors over the larger of
    PyTorch's own error, the effect of one rounding of the inputs, and a floor of a few roundings."""
    unit = ROUNDING.get(dtype, 0.0)
    allowed = {}
    for measure in MEASURES:
        if baseline is None:
            allowed[measure] = getattr(AGREEMENT_ROUNDINGS, measure) * unit
            continue
        least = getattr(FLOOR_ROUNDINGS, measure) * unit
        moved = getattr(condition, measure) if condition else 0.0
        allowed[measure] = getattr(FACTORS, measure) * max(getattr(baseline, measure), moved, least)
    least = max(LOST_SHARE, LOST_ELEMENTS / max(count, 1)) if unit else 0.0
    return Errors(**allowed | {"lost": max(allowed["lost"], least)})


def share_of(errors: Errors, allowed: Errors) -> float:
    """How much of what is allowed is used up, by the measure that uses most."""
    pairs = [(getattr(errors, m), getattr(allowed, m)) for m in MEASURES]
    return max((value / limit if limit else float("inf") for value, limit in pairs if value), default=0.0)


def pooled(errors: Sequence[Errors]) -> Errors:
    """Of several draws together: the root mean square of each measure."""
    return Errors(**{m: hypot(*(getattr(e, m) for e in errors)) / len(errors) ** 0.5 for m in MEASURES})


def all_finite(values: torch.Tensor) -> bool:
    """Whether every element is finite, without a copy of the tensor."""
    flat = values.reshape(-1)
    pieces = range(0, flat.numel(), PIECE)
    return all(bool(torch.isfinite(flat[start : start + PIECE]).all()) for start in pieces)


def plainly_apart(output: torch.Tensor, other: torch.Tensor, allowed: Errors) -> bool:
    """A quick look at two outputs on one device: whether their root mean square or their worst
    difference is too large. What this lets pass may still fail `compare`."""
    if not output.is_floating_point():
        return not torch.equal(output, other)
    flat, right = output.reshape(-1), other.reshape(-1)
    squares = reference = worst = 0.0
    for start in range(0, flat.numel(), PIECE):
        piece = right[start : start + PIECE].float()
        difference = flat[start : start + PIECE].float() - piece
        squares += float(torch.linalg.vector_norm(difference)) ** 2
        reference += float(torch.linalg.vector_norm(piece)) ** 2
        worst = max(worst, float(torch.linalg.vector_norm(difference, ord=float("inf"))))
    scale = (reference / max(flat.numel(), 1)) ** 0.5
    within = squares <= (allowed.rms**2) * reference and worst <= allowed.worst * scale
    return not within


def both(allowed: Errors, own: Errors | None) -> Errors:
    """How far two outputs may lie apart if each may lie so far from the truth, with a margin for
    values other than those on which the bounds were found."""
    sums = {m: 2 * (getattr(allowed, m) + (getattr(own, m) if own else 0.0)) for m in MEASURES}
    return Errors(**sums)


def exceeded(errors: Errors, allowed: Errors) -> str | None:
    """The first measure that is too large, in words; None if all are within bounds."""
    for measure in MEASURES:
        value, limit = getattr(errors, measure), getattr(allowed, measure)
        if not value <= limit:
            return f"{measure} error {value:.3g}, allowed {limit:.3g}"
    return None


def _finite(values: torch.Tensor) -> torch.Tensor:
    return torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def _percentile(pieces: list[torch.Tensor]) -> float:
    ratios = torch.cat(pieces) if pieces else torch.zeros(1)
    return float(torch.sort(ratios).values[max(0, int(0.95 * ratios.numel()) - 1)])


def _strange(got: torch.Tensor, right: torch.Tensor) -> int | None:
    """Position of a non-finite value that the truth, in the output's precision, does not have."""
    if bool(torch.isfinite(got).all()) and bool(torch.isfinite(right).all()):
        return None
    expected = right.to(got.dtype)
    same = (got == expected) | (torch.isnan(got) & torch.isnan(expected))
    wrong = ~same & ~(torch.isfinite(got) & torch.isfinite(expected))
    return int(wrong.nonzero()[0]) if bool(wrong.any()) else None


def _worst_tile(error: torch.Tensor, right: torch.Tensor, tiny: float) -> float:
    whole = error.numel() // TILE * TILE
    worst = 0.0
    for e, r in (
        (error[:whole].view(-1, TILE), right[:whole].view(-1, TILE)),
        (error[whole:].view(1, -1), right[whole:].view(1, -1)),
    ):
        if e.numel():
            ratio = e.square().sum(1).sqrt() / r.square().sum(1).sqrt().clamp_min(tiny)
            worst = max(worst, float(ratio.max()))
    return worst


def _compare_exact(output: torch.Tensor, truth: torch.Tensor) -> Comparison:
    """Whole numbers: every measure is the share of elements that differ."""
    right = truth.reshape(-1)
    got = output.reshape(-1).to(right.device)
    differ = got != right
    share = float(differ.double().mean()) if differ.numel() else 0.0
    index = int(differ.nonzero()[0]) if share else 0
    errors = Errors(rms=share, worst=share, tile=share, relative=share, lost=share)
    if not differ.numel():
        return Comparison(errors, 0, 0.0, 0.0)
    return Comparison(errors, index, float(right[index]), float(got[index]))
