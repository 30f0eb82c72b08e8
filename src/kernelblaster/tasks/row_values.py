"""Where each element of a tensor lies: its index, row, and place in the row. Values for verification are
computed from these."""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from random import Random

import torch


@dataclass(frozen=True)
class RowValues:
    """Where the elements of one contiguous piece of a tensor lie. The tensor has this `shape`; the piece has
    `size` elements and begins at the flat index `start`. A row is a line of elements along `axis`:
    `along_axis` if that is given, else an axis that is drawn. Whatever is drawn depends on `seed` only, so it
    is equal for all pieces of a tensor. The tensors that the properties return are on `device`."""

    start: int
    size: int
    shape: tuple[int, ...]
    seed: int
    device: torch.device
    along_axis: int | None = None

    @cached_property
    def position(self) -> torch.Tensor:
        """The flat index in the whole tensor of each element of this piece of it (`size` integers): int32
        where that suffices, which is faster, else int64. Convert it with `long()` before multiplying it, if
        the product may exceed int32."""
        dtype = torch.int32 if prod(self.shape) < 1 << 31 else torch.int64
        return torch.arange(self.start, self.start + self.size, device=self.device, dtype=dtype)

    @cached_property
    def axis(self) -> int:
        """The axis along which rows run: `along_axis` if it was given. Otherwise the seed draws one of the
        axes with more than one element; at least half of the time it is the last of these."""
        if self.along_axis is not None:
            return self.along_axis
        wide = [axis for axis, extent in enumerate(self.shape) if extent > 1] or [max(0, len(self.shape) - 1)]
        rng = self.rng("axis")
        return wide[-1] if rng.random() < 0.5 else rng.choice(wide)

    @property
    def extent(self) -> int:
        """How many elements one row has; 1 if the tensor is a scalar."""
        return self.shape[self.axis] if self.shape else 1

    @property
    def count(self) -> int:
        """The number of rows in the whole tensor."""
        return prod(self.shape) // max(self.extent, 1)

    @cached_property
    def along(self) -> torch.Tensor:
        """For each element of this piece of a tensor its index within its row, from 0."""
        return self.coordinate(self.axis)

    def coordinate(self, axis: int) -> torch.Tensor:
        """Returns for each element of this piece of a tensor its index along the tensor's axis `axis`; zeros
        if the tensor is a scalar."""
        if not self.shape:
            return torch.zeros_like(self.position)
        return self.position // prod(self.shape[axis + 1 :]) % self.shape[axis]

    @cached_property
    def row(self) -> torch.Tensor:
        """For each element of this piece of a tensor the number of the row that it is in, from 0 to `count` -
        1."""
        return self.position // (self._stride * self.extent) * self._stride + self.position % self._stride

    def rng(self, purpose: str) -> Random:
        """Returns a new random generator that depends on the seed and on `purpose` only: equal for all pieces
        of the tensor, and independent of those for other purposes."""
        return Random(f"{self.seed} {purpose}")

    @cached_property
    def hashed(self) -> torch.Tensor:
        """For each element of this piece of a tensor a pseudo-random integer from 0 to 2^30 - 1, equal for
        all elements of a row and different for other rows and seeds."""
        return hashed_numbers(self.row, self.rng("hash"))

    def scattered(self, purpose: str, *, pairs: bool = False) -> torch.Tensor:
        """Returns for each element of this piece of a tensor a pseudo-random number below 2^30 that depends
        on its flat index, the seed and `purpose`. With `pairs`, elements 2i and 2i+1 get the same number."""
        return hashed_numbers(self.position // 2 if pairs else self.position, self.rng(purpose))

    @property
    def _stride(self) -> int:
        """How far apart two neighbours of a row are in memory, in elements, as the tensor is contiguous."""
        return prod(self.shape[self.axis + 1 :])


def hashed_numbers(numbers: torch.Tensor, rng: Random) -> torch.Tensor:
    """Maps each integer to a pseudo-random one from 0 to 2^30 - 1. Equal integers of one call give equal
    results; another call gives others, by a number drawn from `rng`."""
    bits = (numbers.long() + rng.getrandbits(40)) * 0x9E3779B97F4A7C1 % (1 << 62)
    return (bits ^ (bits >> 29)) * 0x5851F42D4C957F2D >> 33 & 0x3FFFFFFF


def in_beginning(rows: RowValues) -> torch.Tensor:
    """Returns a boolean mask over the elements of the piece of a tensor that `rows` describes. Some of the
    tensor's axes longer than 1 are chosen: all, if there are at most two, else some that the seed draws. An
    element is True if its index is below a limit along at least one of these axes. The limit is drawn for
    each axis: 1, 2, 4, 32, 64, a number up to an eighth of the axis, or 10 to 50 % of it; never more than
    half of the axis."""
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


def in_padding(rows: RowValues) -> torch.Tensor:
    """Returns a boolean mask over the elements of the piece of a tensor that `rows` describes: True from a
    pseudo-random index of each row on, to the row's end. The index is at least 1, so the first element of a
    row is never in the padding."""
    return rows.along >= rows.hashed % rows.extent + 1
