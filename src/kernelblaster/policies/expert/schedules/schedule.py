"""`Schedule`, the base class of all schedules (layouts of kernels on the GPU), and types for the fields of
schedules."""

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
    """How a kernel is laid out on the GPU. `family` is the kind of computation that the schedule is for, by
    the name that reports and the knowledge base use. `kind` is the heading under which the table of
    techniques (docs/expert.md) lists the schedule. `loops_over_steps` says, of a kernel with time steps, that
    a single launch does all of them; otherwise there is a launch for each."""

    family: ClassVar[Family]
    kind: ClassVar[str]
    loops_over_steps: ClassVar[bool] = False
