"""`Schedule`, the base class of all schedules (how a kernel is laid out on the GPU), and the types of their
fields."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from kernelblaster.policies.expert.axis import Axis

Accumulate = Literal["float", "double"]
Axes = tuple[Axis, ...]
Family = Literal[
    "pointwise",
    "row_reduction",
    "column_reduction",
    "full_reduction",
    "matrix_product",
    "pack",
    "scan",
    "recurrence",
]
STATIC_SHARED_BYTES = 48 << 10  # of shared memory that a launch may have without asking


@dataclass(frozen=True)
class Schedule:
    """How a kernel is laid out on the GPU. `family` is the kind of computation that the schedule is for, as
    reports and the knowledge base name it; `kind` is its column in the table that shows which technique
    applies to what (docs/expert.md)."""

    family: ClassVar[Family]
    kind: ClassVar[str]
