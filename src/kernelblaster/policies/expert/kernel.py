"""A kernel: what it computes, and how it is scheduled.

Every kernel has one form. For each point of its `axes`, the `stages` combine elements one after another, each
over axes of its own (a later stage may use the results of earlier ones), and the `stores` write what comes of
it. Without stages it is a pointwise map. How it is laid out on the GPU is its schedule (schedule.py)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.combines.combine import Combine
from kernelblaster.policies.expert.expression import Expression, Gather, Load, loads
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.schedule import (
    ColumnReduction,
    ElementPerThread,
    Packing,
    Pointwise,
    RowReduction,
    Schedule,
)

Family = Literal["pointwise", "row_reduction", "column_reduction", "full_reduction", "matrix_product", "pack"]


@dataclass(frozen=True)
class Part:
    """A piece of a reduced axis: `length` elements, counted by the kernel's axis of this name."""

    name: str
    length: Index


@dataclass(frozen=True)
class Axis:
    """A loop: its variable and how far it runs. With `part` it runs over one piece of that only, from
    `begin` to `end`; an axis of the kernel says which one (techniques/split_k.py). A piece may be
    empty."""

    name: str
    extent: Index
    part: Part | None = None

    @property
    def begin(self) -> Index:
        if self.part is None:
            return indices.ZERO
        return indices.multiply(indices.variable(self.part.name), self.part.length)

    @property
    def end(self) -> Index:
        if self.part is None:
            return self.extent
        return indices.least(self.extent, indices.add(self.begin, self.part.length))

    @property
    def index(self) -> Index:
        """The loop's position; nothing to count where it runs only once."""
        return indices.ZERO if self.once else indices.variable(self.name)

    @property
    def once(self) -> bool:
        return indices.is_number(self.extent, 1)


@dataclass(frozen=True)
class Stage:
    """What is combined (combines/) of `body` over a stage's own `axes`: one result for each point of the
    kernel's axes, and of the axes `over` that the stage has beside them."""

    name: str
    combine: Combine
    body: Expression
    axes: tuple[Axis, ...]
    over: tuple[Axis, ...] = ()


@dataclass(frozen=True)
class Store:
    """A value written: once for each point of the kernel's axes, and of the axes `over` beside them."""

    buffer: str
    position: tuple[Index, ...]
    value: Expression
    over: tuple[Axis, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """One kernel. With `constant_sizes` it has a variant in which the primary workload's sizes are
    constants."""

    name: str
    axes: tuple[Axis, ...]
    stores: tuple[Store, ...]
    stages: tuple[Stage, ...] = ()
    schedule: Schedule = field(default_factory=ElementPerThread)
    constant_sizes: bool = False

    @cached_property
    def reduced(self) -> tuple[Axis, ...]:
        """The axes of stages and stores beside the kernel's own, each once, in order."""
        inner = [*(stage.axes + stage.over for stage in self.stages), *(store.over for store in self.stores)]
        return tuple(dict.fromkeys(axis for axes in inner for axis in axes))

    @property
    def family(self) -> Family:
        """The kind of computation, as reports and the knowledge base name it."""
        if isinstance(self.schedule, Packing):
            return "pack"
        if isinstance(self.schedule, Pointwise):
            return "pointwise"
        if isinstance(self.schedule, ColumnReduction):
            return "column_reduction"
        if isinstance(self.schedule, RowReduction):
            return "full_reduction" if all(axis.once for axis in self.axes) else "row_reduction"
        return "matrix_product"

    @cached_property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(s.body for s in self.stages) + tuple(s.value for s in self.stores)

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Buffers that are read, each once, in order."""
        return tuple(dict.fromkeys(load.buffer for load in self.loads))

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(store.buffer for store in self.stores)

    @cached_property
    def loads(self) -> tuple[Load | Gather, ...]:
        """Every load, as often as it appears, in order."""
        return tuple(load for expression in self.expressions for load in loads(expression))

    def changed(self, change: Callable[[Expression], Expression]) -> "Kernel":
        """The kernel with every expression changed."""
        stages = tuple(replace(stage, body=change(stage.body)) for stage in self.stages)
        stores = tuple(replace(store, value=change(store.value)) for store in self.stores)
        return replace(self, stages=stages, stores=stores)

    def with_loops(self, loops: Mapping[str, tuple[Axis, ...]]) -> "Kernel":
        """The kernel with other axes in the place of those of some names."""

        def changed(axes: Iterable[Axis]) -> tuple[Axis, ...]:
            return tuple(new for axis in axes for new in loops.get(axis.name, (axis,)))

        stages = tuple(replace(s, axes=changed(s.axes), over=changed(s.over)) for s in self.stages)
        stores = tuple(replace(store, over=changed(store.over)) for store in self.stores)
        return replace(self, axes=changed(self.axes), stages=stages, stores=stores)
