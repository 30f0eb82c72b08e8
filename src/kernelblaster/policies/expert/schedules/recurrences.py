"""Schedules (layouts on the GPU) of recurrences: kernels that are launched once for each time step."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert.nest import BoundAxes, Grid, Lanes, Nest, Serial, Threads, Unrolled, Warps
from kernelblaster.policies.expert.schedules.schedule import Axes, Family, Schedule


@dataclass(frozen=True)
class StepPerLaunch(Schedule):
    """The first layout of a recurrent layer: a launch for each time step, with blocks of `threads`. A thread
    computes one element of the new state, and sums up its gates one after another. (`family` and `kind`: see
    `Schedule`.)"""

    threads: int = 256

    family: ClassVar[Family] = "recurrence"
    kind: ClassVar[str] = "recurrence"

    def nest(self, axes: Axes, reduced: Axes) -> Nest:
        return Nest((BoundAxes(axes, (Grid(), Threads(self.threads))), BoundAxes(reduced, (Serial(),))))


@dataclass(frozen=True)
class StepByWarps(Schedule):
    """The tuned layout of a recurrent layer: a launch for each time step, with blocks of `threads`. A warp
    computes one feature of the new state, for `rows` sequences of the batch. Its lanes share the terms of
    each sum, and each weight is read once for all these sequences. (`family` and `kind`: see `Schedule`.)"""

    rows: int = 8
    threads: int = 256

    family: ClassVar[Family] = "recurrence"
    kind: ClassVar[str] = "recurrence"

    def nest(self, batch: Axes, features: Axes, reduced: Axes) -> Nest:
        return Nest(
            (
                BoundAxes(batch, (Grid(), Unrolled(self.rows))),
                BoundAxes(features, (Grid(), Warps(self.threads // WARP))),
                BoundAxes(reduced, (Serial(), Lanes())),
            )
        )
