"""Reductions across memory."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.policies.expert.schedules.schedule import Accumulate, Family, Schedule


class _ColumnReduction(Schedule):
    """A reduction across memory."""

    family: ClassVar[Family] = "column_reduction"
    kind: ClassVar[str] = "across memory"


@dataclass(frozen=True)
class ThreadPerColumn(_ColumnReduction):
    """As first written: a thread for each column, which walks its rows once for each stage."""

    threads: int = 256
    accumulate: Accumulate = "float"


@dataclass(frozen=True)
class Columns(_ColumnReduction):
    """The lanes of a warp have neighbouring columns, a vector each; the warps of a block share the rows."""

    vector_width: int = 1
    threads: int = 256
    unroll: int = 1
    streaming: bool = False
    accumulate: Accumulate = "float"


ColumnReduction = ThreadPerColumn | Columns
