"""Operands for tensor cores."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.policies.expert.schedules.schedule import Family, Schedule


@dataclass(frozen=True)
class Packing(Schedule):
    """An operand is rearranged and split for tensor cores; there is one way to do it."""

    family: ClassVar[Family] = "pack"
    kind: ClassVar[str] = "packing"
