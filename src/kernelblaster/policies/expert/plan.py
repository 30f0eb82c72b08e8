"""A plan: kernels in launch order, each saying what it computes and how it is scheduled.

Every kernel has one form: for each point of its `axes`, the `stages` reduce over the `reduced` axes one after
another (a later stage may use the results of earlier ones), and the `stores` write what comes of it. Without
stages it is a pointwise map. How it is laid out on the GPU is its schedule (schedule.py). Techniques rewrite
plans; emission/ writes them as CUDA."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Literal

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.combines.combine import Combine
from kernelblaster.policies.expert.expression import Expression, Gather, Load, loads
from kernelblaster.policies.expert.graph import Graph
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.schedule import (
    PACKED_DEPTH,
    PACKED_ROWS,
    ColumnReduction,
    ElementPerThread,
    Packing,
    Pointwise,
    RowReduction,
    Schedule,
)
from kernelblaster.records import Signature
from kernelblaster.records.signature import Dtype

Family = Literal["pointwise", "row_reduction", "column_reduction", "full_reduction", "matrix_product", "pack"]
TOGETHER = 4  # tiles of a packed operand that have one scale


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
    """One reduction over the kernel's reduced axes (combines/)."""

    name: str
    combine: Combine
    body: Expression


@dataclass(frozen=True)
class Store:
    """A value written: once for each point of the axes, or with `each` for every element of the
    reduced axes too."""

    buffer: str
    position: tuple[Index, ...]
    value: Expression
    each: bool = False


@dataclass(frozen=True)
class Kernel:
    """One kernel. With `constant_sizes` it has a variant in which the primary workload's sizes are
    constants."""

    name: str
    axes: tuple[Axis, ...]
    stores: tuple[Store, ...]
    reduced: tuple[Axis, ...] = ()
    stages: tuple[Stage, ...] = ()
    schedule: Schedule = field(default_factory=ElementPerThread)
    constant_sizes: bool = False

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


@dataclass(frozen=True)
class Buffer:
    """A tensor of the signature, or scratch memory that the launch function allocates.

    With `terms`, it is an operand packed for tensor cores: its last two dimensions are rows and the
    K axis, each element is a sum of that many numbers of a half precision, and it lies in tiles
    (emission/packing.py).
    """

    name: str
    shape: tuple[Index, ...]
    dtype: Dtype
    scratch: bool = False
    terms: int = 0

    @property
    def elements(self) -> Index:
        """How many elements are allocated."""
        if not self.terms:
            return indices.product(self.shape)
        *batch, rows, inner = self.shape
        whole = [indices.round_up(rows, PACKED_ROWS), indices.round_up(inner, PACKED_DEPTH)]
        return indices.product([*batch, *whole, indices.number(self.terms)])


@dataclass(frozen=True)
class Plan:
    """`sizes` holds every size's value in each workload of the task, the primary one first. `graph` is
    what this is the initial plan of; a plan that a technique changed has none."""

    signature: Signature
    buffers: Mapping[str, Buffer]
    kernels: tuple[Kernel, ...]
    sizes: tuple[Mapping[str, int], ...]
    graph: Graph | None = None

    @property
    def real(self) -> Literal["float", "double"]:
        """The type of arithmetic: half precisions are computed in float."""
        return "double" if self.signature.outputs[0].dtype == "float64" else "float"

    def extent(self, index: Index) -> int:
        """What an extent is in the primary workload."""
        return indices.evaluate(index, self.sizes[0])

    def elements(self, axes: tuple[Axis, ...]) -> int:
        return prod(self.extent(axis.extent) for axis in axes)

    def inner_sizes(self, kernel: Kernel) -> dict[str, int]:
        """The primary workload's sizes that addresses and loops of a kernel depend on: not how many rows or
        images there are."""
        shapes = [self.buffers[name].shape for name in (*kernel.reads, *kernel.writes)]
        inner = [index for shape in shapes for index in shape[1:]]
        inner += [axis.extent for axis in (*kernel.axes[1:], *kernel.reduced)]
        used = set().union(*(indices.names(index) for index in inner))
        return {name: value for name, value in self.sizes[0].items() if name in used}

    def same(self, left: Index, right: Index) -> bool:
        """Whether two extents are equal in every workload."""
        return left == right or all(
            indices.evaluate(left, sizes) == indices.evaluate(right, sizes) for sizes in self.sizes
        )

    def consumers(self, buffer: str) -> list[Kernel]:
        return [kernel for kernel in self.kernels if buffer in kernel.reads]

    def with_kernels(self, kernels: tuple[Kernel, ...]) -> "Plan":
        """The same plan with other kernels, without scratch that none of them uses."""
        used = {name for kernel in kernels for name in (*kernel.reads, *kernel.writes)}
        kept = {n: b for n, b in self.buffers.items() if not b.scratch or n in used}
        return replace(self, kernels=kernels, buffers=kept, graph=None)

    def with_kernel(self, old: Kernel, new: Kernel) -> "Plan":
        return self.with_kernels(tuple(new if kernel is old else kernel for kernel in self.kernels))
