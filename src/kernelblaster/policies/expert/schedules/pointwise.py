"""Kernels that compute each element on its own."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.policies.expert.schedules.schedule import Family, Schedule


class _Map(Schedule):
    """A kernel that computes each element on its own."""

    family: ClassVar[Family] = "pointwise"
    kind: ClassVar[str] = "pointwise"


@dataclass(frozen=True)
class ElementPerThread(_Map):
    """One thread for each element."""

    threads: int = 256


@dataclass(frozen=True)
class FlatVectors(_Map):
    """All tensors are walked in order: a thread has `coarsening` vectors of neighbouring elements, whose
    loads are issued before the first is used."""

    vector_width: int
    threads: int = 256
    coarsening: int = 1
    streaming: bool = False


@dataclass(frozen=True)
class TransposedTiles(_Map):
    """A block reads a square tile along one axis into shared memory and writes it along another."""

    threads: int = 256


@dataclass(frozen=True)
class WarpRowMap(_Map):
    """A map along rows, one warp for each row."""

    vector_width: int
    threads: int = 256
    unroll: int = 1
    streaming: bool = False


@dataclass(frozen=True)
class BlockRowMap(_Map):
    """A map along rows, one block for each row."""

    vector_width: int
    threads: int = 256
    unroll: int = 1
    streaming: bool = False


RowMap = WarpRowMap | BlockRowMap
Pointwise = ElementPerThread | FlatVectors | TransposedTiles | RowMap
