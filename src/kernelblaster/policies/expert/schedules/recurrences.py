"""Schedules of recurrences: kernels that are launched once for every time step."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.policies.expert.nest import BoundAxes, Grid, Nest, Serial, Threads
from kernelblaster.policies.expert.schedules.schedule import Axes, Family, Schedule


@dataclass(frozen=True)
class StepPerLaunch(Schedule):
    """A recurrent layer as first written: a launch for each time step, and in it a thread for each element of
    the new state, which sums up its gates one after another."""

    threads: int = 256

    family: ClassVar[Family] = "recurrence"
    kind: ClassVar[str] = "recurrence"

    def nest(self, axes: Axes, reduced: Axes) -> Nest:
        return Nest((BoundAxes(axes, (Grid(), Threads(self.threads))), BoundAxes(reduced, (Serial(),))))
