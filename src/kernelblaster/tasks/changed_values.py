"""Values that are changed for verification: negated, scaled, shifted, set to zero, to NaN or to landmarks
(special numbers like 0, 1 or 0.5).

Each function takes values that were drawn from a tensor's pool (the sorted values that the task's file draws)
and returns changed ones. Not every input accepts such values; tasks/domain.py finds out which do.
"""

import math
from dataclasses import replace
from math import prod

import torch

from kernelblaster.tasks.distributions import (
    HALF_SCALES,
    LANDMARKS,
    OCTAVES,
    PLANTED,
    WIDE_SCALES,
    Distribution,
)
from kernelblaster.tasks.row_values import RowValues, hashed_numbers, in_beginning, in_padding

# In standard deviations: means larger, and far larger, than spreads; and how far a step leads, which is so
# little that what a long sum loses to rounding stays random.
SHIFT, FAR, STEP = 128.0, 1024.0, 64.0
LARGEST_STEP = 8  # a step comes after up to 2**LARGEST_STEP elements
MIXED_SCALES: tuple[Distribution, ...] = ("large", "small-scale", "tiny-scale")
CONTRAST = 64.0  # the rest of a row over its beginning, or one row over the others
PLANTS = 3
SPARSE = 4  # values along the longest axis that are not zero, on average
GRID = 15  # steps on either side of zero: sums of thousands of such squares are exact in float32


def changed(
    values: torch.Tensor, pool: torch.Tensor, distribution: Distribution, rows: RowValues
) -> torch.Tensor:
    """Returns the `values` of one piece of a floating-point tensor, changed in the way that `distribution`
    names ("shifted", "nan", ...). They were drawn from `pool`, a sorted sample of the values that the task's
    file draws. `rows` says where in the tensor the piece lies. Raises KeyError for a distribution that only
    chooses values from the pool and changes none."""
    if distribution in WIDE_SCALES:
        return values * _scale(distribution, pool.dtype, rows)
    if distribution in OCTAVES:
        return _octaves(values, pool, *OCTAVES[distribution], rows)
    if distribution in PLANTED:
        return _planted(values, pool, distribution, rows)
    return _CHANGES[distribution](values, pool, rows)


def _shifted(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values plus SHIFT standard deviations of the pool. (As for all functions of _CHANGES: `values`
    are those drawn for one piece, `pool` is the sorted pool, and the changed values are returned.)"""
    return values + SHIFT * _spread(pool)


def _far(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values plus FAR standard deviations of the pool, all of them: differences between them then have
    few significant bits left."""
    return values + FAR * _spread(pool)


def _negated(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    return -values


def _zeros(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    return torch.zeros_like(values)


def _equal(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """All elements set to the same power of two, with the sign and the magnitude of a value from the pool, so
    that sums are exact in any order."""
    value = float(pool[rows.rng("equal").randrange(len(pool))])
    mantissa, exponent = torch.frexp(torch.tensor(value or 1.0, dtype=torch.float64))
    power = float(torch.ldexp(torch.tensor(1.0, dtype=torch.float64), exponent - 1))
    return torch.full_like(values, power if float(mantissa) > 0 else -power)


def _zero_rows(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values, but about a quarter of the rows, and at least one, set to zero."""
    chosen = rows.rng("row").randrange(max(rows.count, 1))
    return torch.where((rows.hashed % 4 == 0) | (rows.row == chosen), torch.zeros_like(values), values)


def _one_row(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values, but those of one row, which is drawn by the seed, multiplied by CONTRAST (a large
    number)."""
    return torch.where(rows.row == rows.rng("row").randrange(max(rows.count, 1)), values * CONTRAST, values)


def _padded(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values, but the end of each row set to zero, as in padded sequences. Where the end begins is
    pseudo-random and differs by row."""
    return torch.where(in_padding(rows), torch.zeros_like(values), values)


def _one_hot(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """Zeros, except that each row keeps one of its values, at a pseudo-random index that differs by row."""
    return torch.where(rows.along == rows.hashed % rows.extent, values, torch.zeros_like(values))


def _rising(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values multiplied by CONTRAST, except the first elements of each row (see `in_beginning`): sums
    that are scaled by what comes first overflow or lose precision."""
    return torch.where(in_beginning(rows), values, values * CONTRAST)


def _level(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values, shifted by -1, 1 or 4 times FAR standard deviations of the pool (the task's own values).
    The first elements of each row are not shifted."""
    side = rows.rng("side").choice((-1.0, 1.0, 4.0))
    return torch.where(in_beginning(rows), values, values + side * FAR * _spread(pool))


def _step(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values, where each line along the longest axis keeps its first 1, 2, 4, ... or 256 (drawn by line)
    and all others are shifted by STEP standard deviations of the pool. A kernel that computes sums relative
    to the mean of a line's beginning loses precision on these, the more the longer the line."""
    shape = rows.shape or (1,)
    lines = replace(rows, along_axis=max(range(len(shape)), key=lambda axis: shape[axis]))
    begun = lines.along >= 1 << lines.hashed % (LARGEST_STEP + 1)
    return torch.where(begun, values + STEP * _spread(pool), values)


def _mixed(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values, with each row changed in one of eight ways, by a hash of its index: all zero, all zero but
    one element, zero from some element on, negated, scaled by one of three powers of two, or as it is."""
    kind = rows.hashed // rows.extent % 8  # the rest of the number is where padding begins
    one = rows.along == rows.hashed % rows.extent
    zero = (kind == 0) | ((kind == 1) & ~one) | ((kind == 2) & in_padding(rows))
    scales = HALF_SCALES if pool.dtype == torch.float16 else WIDE_SCALES
    factors = [1.0, 1.0, 1.0, -1.0, *(2.0 ** scales[name][1] for name in MIXED_SCALES), 1.0]
    factor = torch.tensor(factors, dtype=values.dtype, device=values.device)[kind]
    return torch.where(zero, torch.zeros_like(values), values * factor)


def _peak(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values with about two elements per length of the longest axis, at random indices, set to CONTRAST
    times the pool's largest magnitude."""
    rarity = max(4, max(rows.shape, default=1) // 2)
    at = rows.scattered("peaks")
    top = CONTRAST * max(float(pool[-1].abs()), float(pool[0].abs()))
    return torch.where(at % rarity == 0, torch.full_like(values, top), values)


def _subnormals(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values, but one element in eight, at random, made so small that its type stores it as a subnormal
    number."""
    rare = rows.position.long() * 0x9E3779B1 % 8 == rows.rng("rare").randrange(8)
    return torch.where(rare, values * _scale("subnormal-scale", pool.dtype, rows), values)


def _octaves(values: torch.Tensor, pool: torch.Tensor, low: int, high: int, rows: RowValues) -> torch.Tensor:
    """The values, each multiplied by 2**k, where k is drawn for each element from `low` to `high`, both
    included, so that one tensor has values of all these magnitudes. `rows` is the source of the random draws;
    `pool` is unused."""
    exponents = low + rows.scattered("octaves") % (high - low + 1)
    return (values.double() * 2.0 ** exponents.double()).to(values.dtype)


def _landmarks(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values with half of the elements, at random indices, set to numbers of LANDMARKS, at which
    functions often change branch (0, 0.5, 1, ...)."""
    at = rows.scattered("landmarks")
    marks = torch.tensor(LANDMARKS, dtype=values.dtype, device=values.device)
    return torch.where(at % 2 == 0, marks[at // 2 % len(marks)], values)


def _kept(rows: RowValues) -> torch.Tensor:
    """A mask that says which elements of the piece at `rows` a sparse tensor keeps: on average SPARSE in a
    line along the longest axis, and at least one in each line along every axis that is at least a quarter as
    long."""
    longest = max(rows.shape, default=1)
    kept = rows.scattered("kept") % max(1, longest // SPARSE) == 0
    for axis, extent in enumerate(rows.shape):
        if extent >= max(2, longest // SPARSE):
            along = rows.coordinate(axis)
            line = rows.position - along * prod(rows.shape[axis + 1 :])
            kept |= along == hashed_numbers(line, rows.rng(f"line {axis}")) % extent
    return kept


def _sparse(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values with all elements but a few (`_kept`) set to zero: long sums then have few nonzero terms,
    and are exact to a few roundings in any order."""
    return torch.where(_kept(rows), values, torch.zeros_like(values))


def _sparse_low(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values with all elements but a few (`_kept`) set far below the pool's lowest value, so that their
    exponentials vanish: for softmax and other sums of exponentials."""
    below = float(pool[0]) - 128.0 - 8.0 * _spread(pool)
    return torch.where(_kept(rows), values, torch.full_like(values, below))


def _grid(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """New values for a piece of a tensor of which sums, and sums of squares, are exact in float32 in any
    order: each is k times a power of two near an eighth of the pool's standard deviation, with a random
    whole number k from 0 to GRID. If the pool has both signs, of the elements with flat indices 2i and 2i +
    1 in the tensor one gets k and the other -k, so that sums over many elements are near zero. `values` only
    gives the type (all functions of _CHANGES have the same parameters); `rows` gives each element's flat
    index and the seed."""
    step = 2.0 ** (int(math.frexp(_spread(pool) or 1.0)[1]) - 3)
    size = rows.scattered("grid", pairs=True)
    steps = size % (GRID + 1)
    if float(pool[0]) < 0 < float(pool[-1]):
        steps = steps * (1 - 2 * ((size // (GRID + 1) + rows.position) % 2))
    return (steps * step).to(values.dtype)


def _planted(
    values: torch.Tensor, pool: torch.Tensor, distribution: Distribution, rows: RowValues
) -> torch.Tensor:
    """The values with PLANTS elements, one row along the last axis and sometimes one along `rows.axis` set to
    NaN ("nan"), infinity ("infinite"), or plus or minus 1024 times the pool's largest magnitude
    ("planted-high", "planted-low"). For one seed, all four distributions plant at the same indices."""
    total = prod(rows.shape)
    rng = rows.rng("plants")
    large = 2.0**10 * max(float(pool[-1].abs()), float(pool[0].abs()), 1.0)
    signs = [rng.choice((-1.0, 1.0)) for _ in range(PLANTS)]
    values = values.clone()
    for sign in signs:
        value = {"nan": float("nan"), "infinite": sign * float("inf"), "planted-high": large}
        at = rows.position == rng.randrange(total)
        values[at] = value.get(distribution, -large)
    length = rows.shape[-1] if rows.shape else 1
    if total > length > 1:
        values[rows.position // length == rng.randrange(total // length)] = value.get(distribution, -large)
    if rng.random() < 0.4:  # and now and then one along another axis
        values[rows.row == rng.randrange(rows.count)] = value.get(distribution, -large)
    return values


def _scale(distribution: Distribution, dtype: torch.dtype, rows: RowValues) -> float:
    """A power of two to multiply values of type `dtype` by, drawn by the seed of `rows` from the
    distribution's range of exponents (HALF_SCALES for float16, else WIDE_SCALES)."""
    low, high = (HALF_SCALES if dtype == torch.float16 else WIDE_SCALES)[distribution]
    return 2.0 ** rows.rng("scale").randint(low, high)


def _spread(pool: torch.Tensor) -> float:
    """The standard deviation of a pool; 1 if it has a single value."""
    return float(pool.float().std()) if len(pool) > 1 else 1.0


_CHANGES = {
    "shifted": _shifted,
    "far": _far,
    "negated": _negated,
    "zeros": _zeros,
    "equal": _equal,
    "zero-rows": _zero_rows,
    "one-row": _one_row,
    "padded": _padded,
    "one-hot": _one_hot,
    "rising": _rising,
    "level": _level,
    "step": _step,
    "peak": _peak,
    "mixed": _mixed,
    "subnormals": _subnormals,
    "landmarks": _landmarks,
    "sparse": _sparse,
    "sparse-low": _sparse_low,
    "grid": _grid,
}
