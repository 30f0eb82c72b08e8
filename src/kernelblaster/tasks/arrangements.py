"""Arrangements of a tensor's values for verification: what kind of numbers it holds (scaled, shifted, zero,
...) and how they lie within rows.

An arrangement takes the sorted pool of a tensor's own values (those that the task's file draws) and a seed,
and computes the values of any piece of the tensor. Those in SAFE only choose values from the pool, so the
module accepts them. The others change values (negate, scale, shift, set to zero); whether an input accepts
them is tried once (tasks/domain.py). A row runs along an axis that the seed chooses.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from random import Random
from typing import Literal

import torch

Distribution = Literal[
    "written",
    "scaled",
    "large",
    "shifted",
    "far",
    "ramp",
    "spiky",
    "negated",
    "zeros",
    "equal",
    "zero-rows",
    "one-row",
    "padded",
    "one-hot",
    "beginning",
    "end",
    "sorted",
    "alternating",
    "rising",
    "level",
    "step",
    "peak",
    "mixed",
    "small-scale",
    "tiny-scale",
    "minute-scale",
    "subnormal-scale",
    "subnormals",
    "octaves",
    "low-octaves",
    "huge-scale",
    "vast-scale",
    "landmarks",
    "sparse",
    "sparse-low",
    "grid",
    "nan",
    "infinite",
    "planted-high",
    "planted-low",
]
# NaN and infinity, used where PyTorch itself handles them. The last two put large finite numbers of either
# sign into the same elements, to find the outputs that depend on them.
PLANTED: frozenset[Distribution] = frozenset({"nan", "infinite", "planted-high", "planted-low"})
# In standard deviations: means larger, and far larger, than spreads; and how far a step leads, which is so
# little that what a long sum loses to rounding stays random.
SHIFT, FAR, STEP = 128.0, 1024.0, 64.0
LARGEST_STEP = 8  # a step comes after up to 2**LARGEST_STEP elements
# The part of the pool, around its median, from which spikes stand out. In a smaller one, all additions to a
# long sum would round the same way, as they do for no real data.
MIDDLE = 8
TIES = 8  # how few different extremes there are among spikes: some are equal
MIXED_SCALES: tuple[Distribution, ...] = ("large", "small-scale", "tiny-scale")
CONTRAST = 64.0  # the rest of a row over its beginning, or one row over the others
PLANTS = 3
OCTAVES: dict[Distribution, tuple[int, int]] = {"octaves": (-124, 20), "low-octaves": (-124, 0)}
# Numbers at which functions often change from one branch to another.
LANDMARKS = (0.0, -0.0, 0.25, -0.25, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 6.0, -6.0, 20.0, -20.0)
SPARSE = 4  # values along the longest axis that are not zero, on average
GRID = 15  # steps on either side of zero: sums of thousands of such squares are exact in float32
# Powers of two by which values are multiplied, from and to: exact until numbers become subnormal.
WIDE_SCALES: dict[Distribution, tuple[int, int]] = {
    "scaled": (2, 2),
    "large": (5, 5),
    "small-scale": (-20, -7),
    "tiny-scale": (-46, -27),
    "minute-scale": (-127, -47),
    "subnormal-scale": (-134, -128),
    "huge-scale": (6, 29),
    "vast-scale": (30, 50),  # squares of so large values can still be summed by the million
}
HALF_SCALES: dict[Distribution, tuple[int, int]] = {
    "scaled": (2, 2),
    "large": (5, 5),
    "small-scale": (-6, -3),
    "tiny-scale": (-9, -7),
    "minute-scale": (-13, -10),
    "subnormal-scale": (-19, -15),
    "huge-scale": (4, 7),
    "vast-scale": (8, 11),
}


@dataclass(frozen=True)
class RowValues:
    """The coordinates of the elements of one contiguous piece of a tensor of this `shape`: `size` elements
    from the flat index `start` on. A row is a line of elements along `axis`, which is `along_axis` if that is
    given and else drawn. What depends on `seed` is equal for all pieces of a tensor."""

    start: int
    size: int
    shape: tuple[int, ...]
    seed: int
    device: torch.device
    along_axis: int | None = None

    @cached_property
    def position(self) -> torch.Tensor:
        """The flat index in the whole tensor of each element of the piece (`size` integers): int32 where that
        suffices, which is faster, else int64. Products that may exceed int32 need `long()` first."""
        dtype = torch.int32 if prod(self.shape) < 1 << 31 else torch.int64
        return torch.arange(self.start, self.start + self.size, device=self.device, dtype=dtype)

    @cached_property
    def axis(self) -> int:
        """The axis along which rows run, drawn by the seed among those with more than one element; at
        least half of the time the last of them."""
        if self.along_axis is not None:
            return self.along_axis
        wide = [axis for axis, extent in enumerate(self.shape) if extent > 1] or [max(0, len(self.shape) - 1)]
        rng = self.rng("axis")
        return wide[-1] if rng.random() < 0.5 else rng.choice(wide)

    @property
    def extent(self) -> int:
        """The number of elements in a row; 1 for a scalar."""
        return self.shape[self.axis] if self.shape else 1

    @property
    def count(self) -> int:
        """The number of rows in the whole tensor."""
        return prod(self.shape) // max(self.extent, 1)

    @cached_property
    def along(self) -> torch.Tensor:
        """Each element's index within its row."""
        return self.coordinate(self.axis)

    def coordinate(self, axis: int) -> torch.Tensor:
        """Each element's index along an axis of the tensor; zeros for a scalar."""
        if not self.shape:
            return torch.zeros_like(self.position)
        return self.position // prod(self.shape[axis + 1 :]) % self.shape[axis]

    @cached_property
    def row(self) -> torch.Tensor:
        """The number of each element's row, from 0 to `count` - 1."""
        return self.position // (self._stride * self.extent) * self._stride + self.position % self._stride

    def rng(self, purpose: str) -> Random:
        """A new generator that depends on the seed and on `purpose` only: equal for all pieces of the
        tensor, and independent of those for other purposes."""
        return Random(f"{self.seed} {purpose}")

    @cached_property
    def hashed(self) -> torch.Tensor:
        """For each element a pseudo-random number below 2^30 that depends on its row and the seed only."""
        return _hashed(self.row, self.rng("hash"))

    def scattered(self, purpose: str, *, pairs: bool = False) -> torch.Tensor:
        """For each element a pseudo-random number below 2^30 that depends on its flat index, the seed and
        `purpose`. With `pairs`, elements 2i and 2i+1 get the same number."""
        return _hashed(self.position // 2 if pairs else self.position, self.rng(purpose))

    @property
    def _stride(self) -> int:
        """The distance in the flat tensor between neighbours in a row."""
        return prod(self.shape[self.axis + 1 :])


def _hashed(numbers: torch.Tensor, rng: Random) -> torch.Tensor:
    """For each integer a pseudo-random one below 2^30. Draws one salt from `rng`; equal integers in one
    call get equal results."""
    bits = (numbers.long() + rng.getrandbits(40)) * 0x9E3779B97F4A7C1 % (1 << 62)
    return (bits ^ (bits >> 29)) * 0x5851F42D4C957F2D >> 33 & 0x3FFFFFFF


def arranged(
    pool: torch.Tensor, distribution: Distribution, rows: RowValues, generator: torch.Generator
) -> torch.Tensor:
    """The values of one piece of a floating tensor: drawn from its sorted `pool`, then arranged or
    changed as `distribution` says. `rows` locates the piece in the tensor. Returns `rows.size` values
    of the pool's type. The same random numbers are consumed whatever that type is."""
    drawn = _drawn(pool, rows, generator)
    if distribution in SAFE:
        return pool.index_select(0, _CHOICES[distribution](len(pool), rows, drawn, generator))
    values = pool.index_select(0, drawn)
    if distribution in WIDE_SCALES:
        return values * _scale(distribution, pool.dtype, rows)
    if distribution in OCTAVES:
        return _octaves(values, pool, *OCTAVES[distribution], rows)
    if distribution in PLANTED:
        return _planted(values, pool, distribution, rows)
    return _CHANGES[distribution](values, pool, rows)


def _drawn(pool: torch.Tensor, rows: RowValues, generator: torch.Generator) -> torch.Tensor:
    """For each element of a piece a uniform index into the pool (int32)."""
    return torch.randint(len(pool), (rows.size,), generator=generator, device=pool.device, dtype=torch.int32)


def whole(
    pool: torch.Tensor,
    distribution: Distribution,
    rows: RowValues,
    generator: torch.Generator,
    bound: int | None,
) -> torch.Tensor:
    """The values of one piece of an integer or boolean tensor, all below `bound` if it is given: drawn from
    the sorted `pool`, or for some distributions only its lowest and highest value, all equal, or counting up.
    `rows` locates the piece in the tensor."""
    drawn = _drawn(pool, rows, generator)
    values, low, high = pool.index_select(0, drawn), pool[0], pool[-1]
    if bound is not None:
        values, low, high = values % bound, low % bound, torch.full_like(high, bound - 1)
    if distribution in ("zeros", "minute-scale"):
        return low.expand_as(values)
    if distribution in ("equal", "vast-scale"):
        return (high if rows.rng("equal").random() < 0.5 else values[0]).expand_as(values)
    if distribution in _EVEN:
        return torch.where(_EVEN[distribution](rows, drawn), low, high)
    if distribution in ("sorted", "ramp", "level") and pool.dtype != torch.bool:
        stride = rows.rng("stride").choice((1, 3, 7, 11))
        return low + (rows.position.long() * stride % (int(high - low) + 1)).to(pool.dtype)
    return values


_Choice = Callable[[int, RowValues, torch.Tensor, torch.Generator], torch.Tensor]


def _written(size: int, rows: RowValues, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Uniform draws from the pool: the values as the task's file draws them. (As for all functions of
    _CHOICES: `size` is the length of the sorted pool, `drawn` are uniform indices into it, and an
    index into the pool is returned for each element.)"""
    return drawn


def _ramp(size: int, rows: RowValues, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Indices into the sorted pool (of length `size`) for values that rise over the whole tensor from the
    pool's lowest to its highest, with noise of an eighth of the pool."""
    trend = (rows.position.double() * (size / prod(rows.shape))).to(torch.int64)
    return (trend + drawn // 8) % size


def _spiky(size: int, rows: RowValues, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Indices into the sorted pool (of length `size`): about one value in 64 is among the TIES lowest or
    highest of the pool, so that some of these are equal; all others are near the median."""
    rare = torch.randint(64, drawn.shape, generator=generator, device=drawn.device) == 0
    few = drawn // 2 % min(TIES, size)
    extreme = torch.where(drawn % 2 == 0, few, size - 1 - few)
    width = max(size // MIDDLE, 1)
    return torch.where(rare, extreme, (size - width) // 2 + drawn % width)


def _beginning(size: int, rows: RowValues, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Indices into the sorted pool (of length `size`) by which the first elements of rows (`_first`) come
    from the lowest or highest quarter of the pool, by the seed, and all others from the opposite half."""
    if rows.rng("high").random() < 0.5:
        return torch.where(_first(rows), size - 1 - drawn // 4, drawn // 2)
    return torch.where(_first(rows), drawn // 4, drawn // 2 + size // 2)


def _end(size: int, rows: RowValues, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Indices into the sorted pool (of length `size`): the last element of each row is the pool's largest
    value; the others are from its lower three quarters."""
    return torch.where(rows.along == rows.extent - 1, torch.full_like(drawn, size - 1), drawn * 3 // 4)


def _sorted(size: int, rows: RowValues, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Indices into the sorted pool (of length `size`) by which every row is in order, rising or, by the seed,
    falling, from one end of the pool to the other."""
    rising = rows.along.long() * size // rows.extent
    return rising if rows.rng("down").random() < 0.5 else size - 1 - rising


def _alternating(size: int, rows: RowValues, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Indices into the sorted pool (of length `size`): along a row, values from its lower and its upper half
    alternate."""
    return drawn // 2 + rows.along % 2 * (size // 2)


# The pool is sorted: these give places in it.
_CHOICES: dict[Distribution, _Choice] = {
    "written": _written,
    "ramp": _ramp,
    "spiky": _spiky,
    "beginning": _beginning,
    "end": _end,
    "sorted": _sorted,
    "alternating": _alternating,
}
SAFE = frozenset(_CHOICES)


def _first(rows: RowValues) -> torch.Tensor:
    """True for the first elements along each axis (if more than two axes have several elements, along some of
    them, drawn by the seed). How many they are is drawn for each axis: 1, 2 or 4, a warp or two, up to an
    eighth of the extent, or 10 to 50 % of it."""
    rng = rows.rng("first")
    wide = [axis for axis, extent in enumerate(rows.shape) if extent > 1]
    if len(wide) > 2:
        wide = [axis for axis in wide if rng.random() < 0.6] or [rng.choice(wide)]
    first = torch.zeros(rows.size, dtype=torch.bool, device=rows.device)
    for axis in wide:
        extent = rows.shape[axis]
        eighth = max(1, extent // 8) ** rng.random()
        few, warps = rng.choice((1, 2, 4)), rng.choice((32, 64))
        length = rng.choice((few, warps, eighth, extent * rng.uniform(0.1, 0.5)))
        first |= rows.coordinate(axis) < max(1, min(length, extent // 2))
    return first


def _padding(rows: RowValues) -> torch.Tensor:
    """True for the elements at the end of each row, from a pseudo-random index on that is at least 1."""
    return rows.along >= rows.hashed % rows.extent + 1


def _scale(distribution: Distribution, dtype: torch.dtype, rows: RowValues) -> float:
    """A power of two, drawn by the seed from the distribution's range of exponents for this type (HALF_SCALES
    for float16, else WIDE_SCALES)."""
    low, high = (HALF_SCALES if dtype == torch.float16 else WIDE_SCALES)[distribution]
    return 2.0 ** rows.rng("scale").randint(low, high)


def _spread(pool: torch.Tensor) -> float:
    """The standard deviation of a pool; 1 if it has a single value."""
    return float(pool.float().std()) if len(pool) > 1 else 1.0


def _shifted(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values plus SHIFT standard deviations of the pool. (As for all functions of _CHANGES: `values`
    are those drawn for one piece, `pool` is the sorted pool, and the changed values are returned.)"""
    return values + SHIFT * _spread(pool)


def _far(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """As `_shifted`, by FAR standard deviations."""
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
    """The values with about a quarter of the rows, at least one, set to zero."""
    chosen = rows.rng("row").randrange(max(rows.count, 1))
    return torch.where((rows.hashed % 4 == 0) | (rows.row == chosen), torch.zeros_like(values), values)


def _one_row(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values with one row, drawn by the seed, multiplied by CONTRAST."""
    return torch.where(rows.row == rows.rng("row").randrange(max(rows.count, 1)), values * CONTRAST, values)


def _padded(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values with the end of each row set to zero, from a pseudo-random index on that differs by row."""
    return torch.where(_padding(rows), torch.zeros_like(values), values)


def _one_hot(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """Zeros except one of the values in each row, at a pseudo-random index that differs by row."""
    return torch.where(rows.along == rows.hashed % rows.extent, values, torch.zeros_like(values))


def _rising(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values, multiplied by CONTRAST except at the first elements of rows (`_first`)."""
    return torch.where(_first(rows), values, values * CONTRAST)


def _level(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values, shifted by -1, 1 or 4 times FAR standard deviations of the pool except at the first
    elements of rows (`_first`)."""
    side = rows.rng("side").choice((-1.0, 1.0, 4.0))
    return torch.where(_first(rows), values, values + side * FAR * _spread(pool))


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
    zero = (kind == 0) | ((kind == 1) & ~one) | ((kind == 2) & _padding(rows))
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
    """The values with one element in eight scaled until it is subnormal."""
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
    """True for the elements that a sparse arrangement keeps: on average SPARSE along the longest axis, and at
    least one in each line along every axis of at least a quarter of that length."""
    longest = max(rows.shape, default=1)
    kept = rows.scattered("kept") % max(1, longest // SPARSE) == 0
    for axis, extent in enumerate(rows.shape):
        if extent >= max(2, longest // SPARSE):
            along = rows.coordinate(axis)
            line = rows.position - along * prod(rows.shape[axis + 1 :])
            kept |= along == _hashed(line, rows.rng(f"line {axis}")) % extent
    return kept


def _sparse(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """The values with all elements but a few (`_kept`) set to zero: long sums then have few nonzero terms,
    and are exact to a few roundings in any order."""
    return torch.where(_kept(rows), values, torch.zeros_like(values))


def _sparse_low(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """As `_sparse`, but the other elements are set far below the pool's lowest value instead of zero, so that
    their exponentials vanish: for softmax and other sums of exponentials."""
    below = float(pool[0]) - 128.0 - 8.0 * _spread(pool)
    return torch.where(_kept(rows), values, torch.full_like(values, below))


def _grid(values: torch.Tensor, pool: torch.Tensor, rows: RowValues) -> torch.Tensor:
    """Random integer multiples (at most GRID) of a power of two near an eighth of the pool's standard
    deviation, with opposite signs in neighbouring pairs if the pool has both signs: sums of them and of their
    squares are exact in any order, and dense sums are near zero."""
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
# Where whole numbers take their lowest value; elsewhere they take their highest.
_EVEN: dict[Distribution, Callable[[RowValues, torch.Tensor], torch.Tensor]] = {
    "alternating": lambda rows, drawn: rows.along % 2 == 0,
    "one-hot": lambda rows, drawn: rows.along != rows.hashed % rows.extent,
    "padded": lambda rows, drawn: _padding(rows),
    "spiky": lambda rows, drawn: drawn % 2 == 0,
    "end": lambda rows, drawn: drawn % 2 == 0,
}
