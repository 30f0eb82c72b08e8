"""Schedules (layouts on the GPU) of recurrences: kernels with time steps, of which each needs what the one
before it computed."""

from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert.nest import (
    BoundAxes,
    Grid,
    Lanes,
    Nest,
    Serial,
    Threads,
    Unrolled,
    Vector,
    Warps,
)
from kernelblaster.policies.expert.schedules.schedule import Axes, Family, Schedule

FLOAT_BYTES = 4
VECTOR = 4  # elements that a lane reads at once


@dataclass(frozen=True)
class StepPerLaunch(Schedule):
    """The first layout of a recurrent layer: a launch for each time step, with blocks of `threads`. A thread
    computes one element of the new hidden state, and sums up its gates one after another. (`family` and
    `kind`: see `Schedule`.)"""

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


@dataclass(frozen=True)
class PersistentSteps(Schedule):
    """A recurrent layer in one cooperative launch, whose blocks loop over the time steps themselves.

    Sequences of the batch are computed in groups of `rows` (in groups of their own for each direction of a
    layer). A group has as many blocks as are needed for all features; these wait for each other once in each
    step, and for no other blocks. A block has `warps` warps, each with `units` features. A warp keeps the
    weights of its features, for all gates, in registers during all steps: each lane has 4 * `vectors` weights
    of each gate and feature. At most `groups` groups are computed at once, so that all blocks of the launch
    are resident, with one block on an SM; their blocks then compute the groups that are left.

    The kernel's last two stores write to scratch memory what the other blocks of a group read: the new state,
    and how many steps are done (techniques/persistent_recurrence.py). (`family`, `kind` and
    `loops_over_steps`: see `Schedule`.)
    """

    rows: int
    units: int
    vectors: int
    groups: int
    warps: int = 8

    family: ClassVar[Family] = "recurrence"
    kind: ClassVar[str] = "recurrence"
    loops_over_steps: ClassVar[bool] = True

    def nest(self, outer: Axes, batch: Axes, features: Axes, reduced: Axes) -> Nest:
        return Nest(
            (
                BoundAxes(outer, (Grid(most=self.groups),)),
                BoundAxes(batch, (Grid(most=self.groups), Serial(), Unrolled(self.rows))),
                BoundAxes(features, (Grid(), Warps(self.warps), Unrolled(self.units))),
                BoundAxes(reduced, (Unrolled(self.vectors), Lanes(), Vector(VECTOR))),
            )
        )

    @property
    def threads(self) -> int:
        return self.warps * WARP

    @property
    def features(self) -> int:
        """The number of features that a block computes."""
        return self.units * self.warps

    @property
    def width(self) -> int:
        """The number of features of the state before a step for which a warp has weights in registers; the
        state has at most so many."""
        return WARP * VECTOR * self.vectors

    @property
    def elements(self) -> int:
        """How many elements of the layer's new hidden state a thread computes in each time step, for all the
        sequences (`rows`) that its block computes together."""
        return -(-self.rows * self.features // self.threads)

    def together(self, gates: int) -> int:
        """Returns how many sequences a warp computes at once if the layer has so many `gates`: as many as
        leave a lane for each sum, of which a sequence has `gates` * `units`; at most `rows`."""
        return min(self.rows, max(1, WARP // (gates * self.units)))

    def padded_rows(self, gates: int) -> int:
        """Returns how many sequences a block has room for in shared memory: `rows`, rounded up to a multiple
        of the number that a warp computes at once (`together`). `gates` is the number of gates of the
        layer."""
        return -(-self.rows // self.together(gates)) * self.together(gates)

    def shared_bytes(self, gates: int) -> int:
        """Returns the shared memory of a block in bytes: for each sequence, the state before the step, and
        the sums of the block's features for all `gates` of the layer."""
        return self.padded_rows(gates) * (self.width + gates * self.features) * FLOAT_BYTES
