"""Arrangements of a tensor's values for verification: what kind of numbers it holds (scaled, shifted, zero,
...) and how they lie within rows.

An arrangement takes the sorted pool of a tensor's own values (those that the task's file draws) and a seed,
and computes the values of any piece of the tensor. Those listed in SAFE only choose values from the pool, so
that every module accepts them; the others change values (tasks/changed_values.py). A row runs along an axis
that is drawn by the seed.
"""

from collections.abc import Callable
from math import prod

import torch

from kernelblaster.tasks.changed_values import changed
from kernelblaster.tasks.distributions import Distribution
from kernelblaster.tasks.row_values import RowValues, in_beginning, in_padding

# The part of the pool, around its median, from which spikes stand out. In a smaller one, all additions to a
# long sum would round the same way, as they do for no real data.
MIDDLE = 8
TIES = 8  # how few different extremes there are among spikes: some are equal


def arranged(
    pool: torch.Tensor, distribution: Distribution, rows: RowValues, generator: torch.Generator
) -> torch.Tensor:
    """Returns values for one piece of a floating-point tensor: `rows.size` values of the pool's type. They
    are drawn from the sorted `pool`, then arranged or changed as `distribution` (a kind of values) says.
    `rows` says where in the tensor the piece lies. All random numbers come from `generator`. How many of them
    are drawn does not depend on the pool's type, so a float16 and a float64 tensor get the same values from
    equal generators."""
    drawn = _drawn(pool, rows, generator)
    if distribution in SAFE:
        return pool.index_select(0, _CHOICES[distribution](len(pool), rows, drawn, generator))
    values = pool.index_select(0, drawn)
    return changed(values, pool, distribution, rows)


def _drawn(pool: torch.Tensor, rows: RowValues, generator: torch.Generator) -> torch.Tensor:
    """For each element of a piece of a tensor (`rows`) the index of a value in the pool, uniformly random
    from `generator` (int32)."""
    return torch.randint(len(pool), (rows.size,), generator=generator, device=pool.device, dtype=torch.int32)


def whole(
    pool: torch.Tensor,
    distribution: Distribution,
    rows: RowValues,
    generator: torch.Generator,
    bound: int | None,
) -> torch.Tensor:
    """Returns values for one piece of an integer or boolean tensor, `rows.size` values of the pool's type.
    They are drawn from the sorted `pool` as `distribution` (a kind of values) says; some distributions take
    only the lowest and the highest value of the pool, or one value for all elements, or numbers that count
    up. With `bound`, all values are below it. `rows` says where in the tensor the piece lies. All random
    numbers come from `generator`."""
    drawn = _drawn(pool, rows, generator)
    values, low, high = pool.index_select(0, drawn), pool[0], pool[-1]
    if bound is not None:
        values, low = ((one.long() % bound).to(pool.dtype) for one in (values, low))  # 256 is no uint8
        high = torch.full_like(high, bound - 1)
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
    """Indices into the sorted pool for values that are drawn as the task's file draws them: uniformly at
    random. (In all functions of _CHOICES, `size` is the length of the pool, `drawn` has uniform random
    indices into it, and the result has an index for each element.)"""
    return drawn


def _ramp(size: int, rows: RowValues, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Indices into the sorted pool (of length `size`) for values that rise over the whole tensor from the
    pool's lowest to its highest, with noise of an eighth of the pool."""
    trend = (rows.position.double() * (size / prod(rows.shape))).to(torch.int64)
    return (trend + drawn // 8) % size


def _spiky(size: int, rows: RowValues, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Indices into the sorted pool (of length `size`): about one value in 64 is among the TIES lowest or
    highest of the pool, so that some of these are equal; all others are near the median. Finds kernels that
    lose large values, or order equal ones wrongly."""
    rare = torch.randint(64, drawn.shape, generator=generator, device=drawn.device) == 0
    few = drawn // 2 % min(TIES, size)
    extreme = torch.where(drawn % 2 == 0, few, size - 1 - few)
    width = max(size // MIDDLE, 1)
    return torch.where(rare, extreme, (size - width) // 2 + drawn % width)


def _beginning(size: int, rows: RowValues, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Indices into the sorted pool (of length `size`) by which the first elements of rows (`in_beginning`)
    come from the lowest or highest quarter of the pool, by the seed, all others from the opposite half."""
    if rows.rng("high").random() < 0.5:
        return torch.where(in_beginning(rows), size - 1 - drawn // 4, drawn // 2)
    return torch.where(in_beginning(rows), drawn // 4, drawn // 2 + size // 2)


def _end(size: int, rows: RowValues, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Indices into the sorted pool (of length `size`): the last element of each row is the pool's largest
    value; the others are from its lower three quarters."""
    return torch.where(rows.along == rows.extent - 1, torch.full_like(drawn, size - 1), drawn * 3 // 4)


def _sorted(size: int, rows: RowValues, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Indices into the sorted pool (of length `size`) by which each row rises from the lowest to the highest
    value of the pool or, if the seed says so, falls."""
    rising = rows.along.long() * size // rows.extent
    return rising if rows.rng("down").random() < 0.5 else size - 1 - rising


def _alternating(size: int, rows: RowValues, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Indices into the sorted pool (of length `size`) by which the values of a row come from the lower and
    the upper half of the pool in turn."""
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
# Where whole numbers take their lowest value; elsewhere they take their highest.
_EVEN: dict[Distribution, Callable[[RowValues, torch.Tensor], torch.Tensor]] = {
    "alternating": lambda rows, drawn: rows.along % 2 == 0,
    "one-hot": lambda rows, drawn: rows.along != rows.hashed % rows.extent,
    "padded": lambda rows, drawn: in_padding(rows),
    "spiky": lambda rows, drawn: drawn % 2 == 0,
    "end": lambda rows, drawn: drawn % 2 == 0,
}
