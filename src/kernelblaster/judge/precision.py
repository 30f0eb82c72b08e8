"""How far an output is from the truth (the reference computed in float64), by several measures, and how far
it may be.

A candidate's error may be as large as the larger of two errors: five times PyTorch's own error (OWN), and the
effect of several roundings of the inputs or the output. How many roundings depends on n, the number of terms
of the longest sum: n/16, but at least 16 and at most 384; for 16-bit outputs always 10 (see `roundings`).
`bound` lists the exceptions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

import torch

from kernelblaster.judge.error_share import MEASURES
from kernelblaster.records.evaluation import Errors

TILE = 256
PIECE = 1 << 24
# A candidate's error may be this many times PyTorch's own; where that comes from operands rounded to TF32,
# and the output has TELLING elements or more, ROUNDED_OWN times. bfloat16 has 3 bits less: 8 times.
OWN, ROUNDED_OWN = 5, 2
TELLING = 1 << 9
# Or it may be the effect of this many roundings: one for every PER_ROUNDING terms of the longest sum, at
# least FEWEST and at most MOST (reached at 6144 terms). 16-bit types are summed in float32 and get NARROW.
FEWEST, PER_ROUNDING, MOST = 16, 16, 384
NARROW = 10
# The effect of one rounding of the output, by each measure; and how much further apart two draws of errors
# may lie by the other measures than in rms.
ROUNDED = Errors(rms=1, worst=4, tile=2, relative=2, lost=0)
SPREAD = Errors(rms=1, worst=2, tile=2, relative=2, lost=0)
LOST_SHARE, LOST_ELEMENTS = 1e-5, 2  # elements that may be lost to cancellation: the larger of the two
# Without a float64 reference (CUDA-source tasks), two orders of summation must be allowed for.
AGREEMENT_ROUNDINGS = Errors(rms=32, worst=512, tile=128, relative=256, lost=0)
ROUNDING = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
}
FEW = 1 << 12  # elements: with so few, errors vary much from draw to draw
MARGIN, MARGIN_OF_FEW = 1.25, 2.0  # factors on bounds that come from other values of the same kind
FAINT = 2.0**26  # times the smallest normal number: results below may be flushed to zero
FAINT_ALONE = 4.0  # the same for elementwise computations, where no intermediate value can underflow first
KNOWN = 2.0**-10  # relative error below which an element counts as known to PyTorch itself
SAMPLE = 1 << 16  # elements from which the percentile is taken


@dataclass(frozen=True)
class Comparison:
    """How far one output of a candidate is from the truth, the float64 reference. `errors` is None if the
    output is NaN or infinite somewhere and the truth is not, or the reverse. `index` is the flat index of the
    worst element, `expected` the truth there, `got` the output there."""

    errors: Errors | None
    index: int
    expected: float
    got: float


def compare(
    output: torch.Tensor, truth: torch.Tensor, own: torch.Tensor | None = None, *, faint: float = FAINT
) -> Comparison:
    """Compares `output` with `truth`, the float64 reference, by all error measures; the tensors may be on
    different devices. Integers must be equal: every measure is then the share of elements that differ. Where
    the truth is below `faint` times the smallest normal number of the output's type, the output may be zero.

    `own` is PyTorch's output, None if not known. It matters only for the measure `lost`, the share of
    elements that are off by more than half their value. Elements of which PyTorch itself has less than ten
    bits right, as in a sum that cancels, are not counted there.
    """
    return compare_all([output], truth, [own], faint=faint)[0]


def compare_all(
    outputs: Sequence[torch.Tensor],
    truth: torch.Tensor,
    owns: Sequence[torch.Tensor | None],
    *,
    faint: float = FAINT,
) -> list[Comparison]:
    """Compares each of `outputs`, all of one type, with `truth` as `compare` does, and waits for the device
    only once. `owns` has for each of them PyTorch's output, or None."""
    if not outputs[0].is_floating_point():
        return [_compare_exact(output, truth) for output in outputs]
    if truth.numel() == 0:
        return [Comparison(Errors(rms=0, worst=0, tile=0, relative=0, lost=0), 0, 0.0, 0.0) for _ in outputs]
    flats, exact = [output.reshape(-1) for output in outputs], truth.reshape(-1)
    measured = _measured(flats, exact, faint, clean=False)
    if not all(one.finite for one in measured):
        strange = [_first_strange(flat, exact) for flat in flats]
        measured = _measured(flats, exact, faint, clean=True)
    else:
        strange = [None] * len(flats)
    compared = []
    for flat, own, one, first in zip(flats, owns, measured, strange, strict=True):
        if first is not None:
            compared.append(Comparison(None, first, float(exact[first]), float(flat[first])))
            continue
        lost = sum(_lost(flat, exact, own, start, one.tiny) for start in one.starts_with_lost)
        errors = one.errors.model_copy(update={"lost": lost / exact.numel()})
        compared.append(Comparison(errors, one.index, one.expected, one.got))
    return compared


@dataclass(frozen=True)
class _Measured:
    """What was measured of one output in comparison with the truth: all errors but `lost`, and the worst
    element. `starts_with_lost` are the beginnings of the pieces in which some element is off by more than
    half its value. `finite`: there was neither NaN nor infinity in output and truth."""

    errors: Errors
    index: int
    expected: float
    got: float
    finite: bool
    starts_with_lost: tuple[int, ...]
    tiny: float


def _measured(
    flats: Sequence[torch.Tensor], exact: torch.Tensor, faint: float, *, clean: bool
) -> list[_Measured]:
    """Measures flat outputs against the flat truth `exact`; `faint` is as in `compare`. With `clean`,
    elements that are not finite on either side do not count. All numbers are computed on the device and
    fetched at once."""
    floor = _faint(flats[0].dtype, faint)
    count, starts = exact.numel(), range(0, exact.numel(), PIECE)
    stride = max(1, count // SAMPLE)
    norms = [_float64_norm(exact[start : start + PIECE], clean=clean) for start in starts]
    scale = (torch.stack(norms).square_().sum() / count).sqrt()
    tiny = (scale * 1e-12).clamp_min(floor) if faint == FAINT else torch.full_like(scale, floor)
    numbers = [scale, tiny]
    samples: list[list[torch.Tensor]] = [[] for _ in flats]
    for start in starts:
        raw = exact[start : start + PIECE]
        wide = raw.double()
        right = (_finite(wide) if clean else wide).abs()
        tiles = _tile_norms(right)
        limit = right.clamp_min_(tiny)
        for flat, sampled in zip(flats, samples, strict=True):
            got = flat[start : start + PIECE].to(raw.device)
            error = (got.double() if got.dtype != torch.float32 else got) - wide
            error = (_finite(error) if clean else error).abs_()
            peak, where = error.max(0)
            ratio = error / limit
            sampled.append(ratio[::stride].clamp_max(1))  # a view would keep the whole piece
            local = [e / r.clamp_min(tiny) for e, r in zip(_tile_norms(error), tiles, strict=True)]
            tile = torch.cat(local).max()
            numbers += [peak, where, torch.linalg.vector_norm(error), ratio.max(), tile]
            numbers += [raw.take(where), got.take(where)]
    numbers += [_percentile(sampled) for sampled in samples]
    fetched = iter(torch.stack([number.double() for number in numbers]).tolist())
    size, smallest = next(fetched), next(fetched)
    found = [[next(fetched) for _ in range(7)] for _ in starts for _ in flats]
    results = []
    for position, relative in enumerate(fetched):
        pieces = found[position :: len(flats)]
        squares = sum(piece[2] ** 2 for piece in pieces)
        furthest = max(range(len(pieces)), key=lambda n: pieces[n][0])
        worst, index, _, _, _, expected, got_there = pieces[furthest]
        reference = max(size, floor)
        results.append(
            _Measured(
                Errors(
                    rms=(squares / count) ** 0.5 / reference,
                    worst=worst / reference,
                    tile=max(piece[4] for piece in pieces),
                    relative=relative,
                    lost=0.0,
                ),
                starts[furthest] + int(index),
                expected,
                got_there,
                all(math.isfinite(piece[0]) for piece in pieces) and math.isfinite(size),
                tuple(start for start, piece in zip(starts, pieces, strict=True) if piece[3] > 0.5),
                smallest,
            )
        )
    return results


def roundings(terms: int, dtype: torch.dtype) -> float:
    """Returns how large a candidate's error may be, counted in roundings of the inputs or the output: `terms`
    / 16, at least 16 and at most 384, where `terms` is the number of terms of the longest sum; always 10 if
    `dtype`, the type of the output, has 16 bits. For comparison, a sequential float32 sum of n random values
    costs about half the square root of n roundings, and up to n / 28 where partial sums are much larger than
    the result."""
    if ROUNDING[dtype] > ROUNDING[torch.float32]:
        return NARROW
    return float(min(max(FEWEST, terms / PER_ROUNDING), MOST))


def bound(
    baseline: Errors | None,
    condition: Errors | None,
    dtype: torch.dtype,
    count: int,
    terms: int = 1,
    coarse: Errors | None = None,
) -> Errors:
    """The largest errors that a candidate may have in an output of `count` elements of type `dtype`, by error
    measure. `baseline` are PyTorch's errors. `condition` is the effect of one rounding of the inputs, None if
    unknown. `terms` is the number of terms of the longest sum. `coarse` is the error that PyTorch's rounding
    of operands at the timed sizes causes, as to TF32; None if it does not round them.

    For floating-point outputs, the bound is the larger of two: five times (OWN) PyTorch's errors, and the
    effect of `roundings(terms, dtype)` roundings of output and inputs. With `coarse`, the larger of `coarse`
    and `baseline` counts as PyTorch's error, and for outputs of 512 elements or more the factor is two
    (ROUNDED_OWN) instead of five. The measure `lost`, a share of the elements, has another bound: 16 times
    the larger of PyTorch's error and `condition`, but never less than 1e-5 or than the share of two
    elements.

    For integers, the bound is five times the larger of `baseline` and `condition`. If `baseline` is None,
    there is no float64 reference to compare with; the bound is then a fixed number of roundings
    (AGREEMENT_ROUNDINGS), for the difference between PyTorch's output and the candidate's.
    """
    unit = ROUNDING.get(dtype, 0.0)
    allowed = {}
    factor = ROUNDED_OWN if coarse and count >= TELLING else OWN
    for measure in MEASURES:
        if baseline is None:
            allowed[measure] = getattr(AGREEMENT_ROUNDINGS, measure) * unit
            continue
        own, moved = getattr(baseline, measure), getattr(condition, measure) if condition else 0.0
        own = max(own, getattr(coarse, measure)) if coarse else own
        if not unit:  # whole numbers
            allowed[measure] = OWN * max(own, moved)
        elif measure == "lost":  # shares of elements: the number of terms says nothing about them
            allowed[measure] = FEWEST * max(own, moved)
        else:
            one = max(moved, getattr(ROUNDED, measure) * unit)
            allowed[measure] = max(
                factor * getattr(SPREAD, measure) * own if coarse else OWN * own,
                roundings(terms, dtype) * getattr(SPREAD, measure) * one,
            )
    least = max(LOST_SHARE, LOST_ELEMENTS / max(count, 1)) if unit else 0.0
    return Errors(**allowed | {"lost": max(allowed["lost"], least)})


def pooled(errors: Sequence[Errors]) -> Errors:
    """Combines the errors of one output on several sets of input values into one: for each error measure the
    root mean square."""
    if len(errors) == 1:
        return errors[0]
    return Errors(**{m: hypot(*(getattr(e, m) for e in errors)) / len(errors) ** 0.5 for m in MEASURES})


def scaled(errors: Errors, factor: float) -> Errors:
    """A copy of `errors` with every error measure multiplied by `factor`."""
    return Errors(**{m: getattr(errors, m) * factor for m in MEASURES})


def all_finite(values: torch.Tensor) -> bool:
    """True if every element of `values` is finite. Works piece by piece, so it needs no mask of the tensor's
    size."""
    flat = values.reshape(-1)
    return all(math.isfinite(_largest(flat[at : at + PIECE])) for at in range(0, flat.numel(), PIECE))


def plainly_apart(output: torch.Tensor, other: torch.Tensor, allowed: Errors) -> bool:
    """A quick test of two outputs on one device, `output` and `other`: True if they differ by more than the
    bound `allowed` in RMS or in the worst difference, or, for integers, in any element. If the result is
    False, a full comparison (`compare`) may still find them too far apart."""
    if not output.is_floating_point():
        return not torch.equal(output, other)
    flat, right = output.reshape(-1), other.reshape(-1)
    if not flat.numel():
        return False
    found = []  # of each piece, fetched at once
    for start in range(0, flat.numel(), PIECE):
        piece = right[start : start + PIECE].float()
        difference = flat[start : start + PIECE].float() - piece
        found += [torch.linalg.vector_norm(difference), torch.linalg.vector_norm(piece)]
        found.append(torch.linalg.vector_norm(difference, ord=math.inf))
    numbers = torch.stack(found).tolist()
    squares, reference = (sum(number**2 for number in numbers[n::3]) for n in (0, 1))
    scale = (reference / flat.numel()) ** 0.5
    within = squares <= (allowed.rms**2) * reference and all(
        worst <= allowed.worst * scale for worst in numbers[2::3]
    )
    return not within


def both(allowed: Errors, own: Errors | None, *, few: bool = False) -> Errors:
    """Returns how far two outputs may be from each other, by error measure: the sum of `allowed`, the bound
    on one's error, and `own`, the other's error (None: 0), multiplied by a factor. The factor is 1.25,
    because these numbers were found on other input values; with `few`, for outputs of few elements, it is 2,
    because their errors vary more."""
    margin = MARGIN_OF_FEW if few else MARGIN
    return Errors(**{m: margin * (getattr(allowed, m) + (getattr(own, m) if own else 0.0)) for m in MEASURES})


def either(one: Errors, other: Errors) -> Errors:
    """Returns for each error measure the larger value of `one` and `other`."""
    return Errors(**{m: max(getattr(one, m), getattr(other, m)) for m in MEASURES})


def larger(allowed: Errors, own: Errors) -> Errors:
    """The bound on errors for one set of input values, by error measure: `allowed`, or five times (OWN)
    `own`, PyTorch's error on the same values, if that is larger."""
    return Errors(**{m: max(getattr(allowed, m), OWN * getattr(own, m)) for m in MEASURES})


def exceeded(errors: Errors, allowed: Errors) -> str | None:
    """Returns the first error measure in `errors` that is above its bound in `allowed`, in words with both
    numbers ("rms error 3.1e-05, allowed 1e-05"); None if all measures are within bounds."""
    for measure in MEASURES:
        value, limit = getattr(errors, measure), getattr(allowed, measure)
        if not value <= limit:
            return f"{measure} error {value:.3g}, allowed {limit:.3g}"
    return None


def _faint(dtype: torch.dtype, times: float) -> float:
    """The magnitude below which results of this type may be flushed to zero, because intermediate values may
    be subnormal: `times` the smallest normal number, or that number itself for float16."""
    return torch.finfo(dtype).tiny * (times if torch.finfo(dtype).tiny < FAINT**-2 else 1.0)


def _finite(values: torch.Tensor) -> torch.Tensor:
    """The values as a new tensor, with zero in place of each NaN and infinity."""
    return torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def _largest(values: torch.Tensor) -> float:
    """The largest magnitude, infinite or NaN if some element is, in a single pass over the values."""
    return float(torch.linalg.vector_norm(values, ord=math.inf)) if values.numel() else 0.0


def _float64_norm(values: torch.Tensor, *, clean: bool) -> torch.Tensor:
    """The Euclidean norm in float64; with `clean`, elements that are not finite count as zero."""
    values = _finite(values.double()) if clean else values
    norm: torch.Tensor = torch.linalg.vector_norm(values, dtype=torch.float64)
    return norm


def _percentile(pieces: list[torch.Tensor]) -> torch.Tensor:
    """The 95th percentile of the sampled relative errors in `pieces`."""
    ratios = torch.cat(pieces)
    found: torch.Tensor = torch.kthvalue(ratios, max(1, int(0.95 * ratios.numel()))).values
    return found


def _first_strange(flat: torch.Tensor, exact: torch.Tensor) -> int | None:
    """Index of the first element that is NaN or infinite in the flat output or in the flat truth `exact` and
    on which both disagree (the truth rounded to the output's type); None if there is none."""
    for start in range(0, exact.numel(), PIECE):
        right = exact[start : start + PIECE]
        got = flat[start : start + PIECE].to(right.device)
        expected = right.to(got.dtype)
        same = (got == expected) | (torch.isnan(got) & torch.isnan(expected))
        wrong = ~same & ~(torch.isfinite(got) & torch.isfinite(expected))
        if bool(wrong.any()):
            return start + int(wrong.nonzero()[0])
    return None


def _lost(flat: torch.Tensor, exact: torch.Tensor, own: torch.Tensor | None, start: int, tiny: float) -> int:
    """How many elements of the piece that begins at `start` are off by more than half their value (at least
    `tiny`); not counted are those that PyTorch's output `own` does not have right to KNOWN."""
    wide = exact[start : start + PIECE].double()
    error = _finite(flat[start : start + PIECE].to(wide.device).double() - wide).abs_()
    right = _finite(wide).abs_()
    gone = error / right.clamp_min(tiny) > 0.5
    if own is not None:
        theirs = own.reshape(-1)[start : start + PIECE].to(wide.device).double()
        gone &= _finite(theirs - wide).abs_() < right * KNOWN
    return int(gone.sum())


def _tile_norms(values: torch.Tensor) -> list[torch.Tensor]:
    """The norms of every TILE consecutive elements of a flat tensor, and of the rest if there is one."""
    whole = values.numel() // TILE * TILE
    tiles = (values[:whole].view(-1, TILE), values[whole:].view(1, -1))
    return [torch.linalg.vector_norm(tile, dim=1) for tile in tiles if tile.numel()]


def _compare_exact(output: torch.Tensor, truth: torch.Tensor) -> Comparison:
    """Compares an output of integers or booleans with the reference: each error measure is the fraction (0 to
    1) of elements that differ; the index is that of the first one."""
    right = truth.reshape(-1)
    got = output.reshape(-1).to(right.device)
    differ = got != right
    share = float(differ.double().mean()) if differ.numel() else 0.0
    index = int(differ.nonzero()[0]) if share else 0
    errors = Errors(rms=share, worst=share, tile=share, relative=share, lost=share)
    if not differ.numel():
        return Comparison(errors, 0, 0.0, 0.0)
    return Comparison(errors, index, float(right[index]), float(got[index]))
