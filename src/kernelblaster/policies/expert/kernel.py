"""A kernel: what it computes, and how it is scheduled.

Every kernel has one form. For each point of its `axes`, the `stages` combine elements one after another, each
over axes of its own (a later stage may use the results of earlier ones), and the `stores` write values
computed from the stages' results. Without stages it is a pointwise map. How it is laid out on the GPU is its
schedule (schedules/).
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
    """A reduction (or scan) within a kernel, by its `name`: the values of `body` over the stage's own `axes`,
    combined by `combine` into one result for each point of the kernel's axes and of the further axes `over`,
    if it has any."""

    name: str
    combine: Combine
    body: Expression
    axes: tuple[Axis, ...]
    over: tuple[Axis, ...] = ()


@dataclass(frozen=True)
class Store:
    """Writes `value` to `buffer` at `position`: once for each point of the kernel's axes, and of the further
    axes `over`, if it has any."""

    buffer: str
    position: tuple[Index, ...]
    value: Expression
    over: tuple[Axis, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """One planned kernel. For each point of its `axes`, its `stages` (reductions) combine elements, and its
    `stores` write values that are computed from their results. With `constant_sizes` it has a second variant
    in which the sizes of the primary workload (the one that is timed) are compile-time constants. With
    `steps` it is launched once for every point of that axis, in order, like the time steps of a recurrence:
    expressions may use the axis, and a launch reads what earlier ones wrote."""

    name: str
    axes: tuple[Axis, ...]
    stores: tuple[Store, ...]
    stages: tuple[Stage, ...] = ()
    schedule: Schedule = field(default_factory=ElementPerThread)
    constant_sizes: bool = False
    steps: Axis | None = None

    @cached_property
    def reduced(self) -> tuple[Axis, ...]:
        """The loops inside those over the kernel's own `axes`, over which its stages (reductions) and stores
        run: each axis once, in order of first use."""
        inner = [*(stage.axes + stage.over for stage in self.stages), *(store.over for store in self.stores)]
        return tuple(dict.fromkeys(axis for axes in inner for axis in axes))

    @property
    def family(self) -> Family:
        """The kind of computation, such as `row_reduction`, as reports and the knowledge base name it."""
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
        """Every load in the kernel's expressions, as often as it appears: those of its reductions, then those
        of its stores."""
        return tuple(load for expression in self.expressions for load in loads(expression))

    def changed(self, change: Callable[[Expression], Expression]) -> "Kernel":
        """The kernel with the function `change` applied to the expression that each reduction combines and to
        the value of every store; the positions that it stores to stay the same."""
        stages = tuple(replace(stage, body=change(stage.body)) for stage in self.stages)
        stores = tuple(replace(store, value=change(store.value)) for store in self.stores)
        return replace(self, stages=stages, stores=stores)

    def with_loops(self, loops: Mapping[str, tuple[Axis, ...]]) -> "Kernel":
        """The kernel with axes replaced: `loops` maps an axis's name to the axes in its place (none to remove
        it). Expressions stay as they are."""

        def changed(axes: Iterable[Axis]) -> tuple[Axis, ...]:
            return tuple(new for axis in axes for new in loops.get(axis.name, (axis,)))

        stages = tuple(replace(s, axes=changed(s.axes), over=changed(s.over)) for s in self.stages)
        stores = tuple(replace(store, over=changed(store.over)) for store in self.stores)
        return replace(self, axes=changed(self.axes), stages=stages, stores=stores)
