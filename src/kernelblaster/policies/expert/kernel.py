"""A planned kernel: what it computes, and its schedule, which says how it is laid out on the GPU
(schedules/).

All kernels have the same form: loops over the points of the kernel's `axes`. At each point, `stages`
(reductions or scans) combine elements, one stage after another, each over axes of its own; a later stage may
use the results of earlier ones. Then `stores` write values that are computed from these results. A kernel
without stages is a pointwise map.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.combines.combine import Combine
from kernelblaster.policies.expert.expression import Expression, Gather, Load, loads
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.schedules.pointwise import ElementPerThread
from kernelblaster.policies.expert.schedules.schedule import Family, Schedule


@dataclass(frozen=True)
class Stage:
    """A reduction or scan within a kernel, called `name`. At each point of the kernel's axes, it combines the
    values of `body` over the stage's own `axes` by the operation `combine`. With `over`, it does so at each
    point of these further axes too, and has a result for each point."""

    name: str
    combine: Combine
    body: Expression
    axes: tuple[Axis, ...]
    over: tuple[Axis, ...] = ()


@dataclass(frozen=True)
class Store:
    """Writes `value` to the buffer named `buffer` at `position` (an index for each dimension): once for each
    point of the kernel's axes; with `over`, once for each point of these further axes too."""

    buffer: str
    position: tuple[Index, ...]
    value: Expression
    over: tuple[Axis, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """One planned kernel, called `name` in the generated source. For each point of its `axes`, its `stages`
    (reductions or scans) combine elements, and its `stores` write values computed from their results.
    `schedule` is its layout on the GPU.

    With `constant_sizes` it has a second variant in which the sizes of the primary workload (the one that is
    timed) are compile-time constants. With `steps` all of it is done once for each point of that axis, in
    order, like the time steps of a recurrence: expressions may use the axis, and a step may read what earlier
    ones wrote. Each step is a launch of its own unless the schedule says that it loops over the steps.
    """

    name: str
    axes: tuple[Axis, ...]
    stores: tuple[Store, ...]
    stages: tuple[Stage, ...] = ()
    schedule: Schedule = field(default_factory=ElementPerThread)
    constant_sizes: bool = False
    steps: Axis | None = None

    @cached_property
    def reduced(self) -> tuple[Axis, ...]:
        """The axes of the kernel's inner loops, which run inside of the loops over its own `axes`. These are
        the axes over which stages combine elements, and the further axes `over` of stages and stores. Each is
        listed once, in order of first use."""
        inner = [*(stage.axes + stage.over for stage in self.stages), *(store.over for store in self.stores)]
        return tuple(dict.fromkeys(axis for axes in inner for axis in axes))

    @property
    def family(self) -> Family:
        """The kind of computation, such as "row_reduction", by the name that reports and the knowledge base
        use."""
        if self.schedule.family == "row_reduction" and all(axis.once for axis in self.axes):
            return "full_reduction"
        return self.schedule.family

    @cached_property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(s.body for s in self.stages) + tuple(s.value for s in self.stores)

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Names of the tensors and scratch buffers that the kernel reads, each once, in order of first
        use."""
        return tuple(dict.fromkeys(load.buffer for load in self.loads))

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(store.buffer for store in self.stores)

    @cached_property
    def loads(self) -> tuple[Load | Gather, ...]:
        """All loads in the kernel's expressions, first those of its stages, then those of its stores. A load
        that occurs several times is listed several times."""
        return tuple(load for expression in self.expressions for load in loads(expression))

    def changed(self, change: Callable[[Expression], Expression]) -> "Kernel":
        """Returns the kernel with `change` applied to the expressions that it computes: the body of each
        stage, and the value of each store. The positions at which it stores stay the same."""
        stages = tuple(replace(stage, body=change(stage.body)) for stage in self.stages)
        stores = tuple(replace(store, value=change(store.value)) for store in self.stores)
        return replace(self, stages=stages, stores=stores)

    def with_loops(self, loops: Mapping[str, tuple[Axis, ...]]) -> "Kernel":
        """Returns the kernel with some axes replaced: `loops` maps an axis's name to the axes that take its
        place, in their order; an empty tuple removes the axis. Axes that are not named stay, and so do all
        expressions."""

        def changed(axes: Iterable[Axis]) -> tuple[Axis, ...]:
            return tuple(new for axis in axes for new in loops.get(axis.name, (axis,)))

        stages = tuple(replace(s, axes=changed(s.axes), over=changed(s.over)) for s in self.stages)
        stores = tuple(replace(store, over=changed(store.over)) for store in self.stores)
        return replace(self, axes=changed(self.axes), stages=stages, stores=stores)
