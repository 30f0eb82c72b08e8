"""A plan: kernels in launch order, each saying what it computes and how it is scheduled.

Every kernel has one form, whatever its family: for each point of its `axes`, the `stages` reduce
over the `reduced` axes one after another (a later stage may use the results of earlier ones), and
the `stores` write what comes of it. Without stages it is a pointwise map. Techniques rewrite plans;
families emit them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.expression import Expression, Gather, Load, loads
from kernelblaster.policies.expert.index import Index
from kernelblaster.records import Signature
from kernelblaster.records.signature import Dtype

Combine = Literal["sum", "product", "max", "min", "argmax", "argmin", "any", "all"]
Family = Literal["pointwise", "row_reduction", "column_reduction", "full_reduction", "matrix_product"]


@dataclass(frozen=True)
class Axis:
    """A loop: its variable and how far it runs."""

    name: str
    extent: Index

    @property
    def index(self) -> Index:
        """The loop's position; nothing to count where it runs only once."""
        return indices.ZERO if self.once else indices.variable(self.name)

    @property
    def once(self) -> bool:
        return indices.is_number(self.extent, 1)


@dataclass(frozen=True)
class Stage:
    """One reduction over the kernel's reduced axes. For argmax and argmin `body` is compared, and the
    result is the place of the winner, the first one on a tie."""

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
class Schedule:
    """How a kernel is laid out on the GPU; techniques change it.

    `workers` says who does a reduction: one thread, or the threads of a block together.
    `accumulate` is the type of running sums.
    """

    threads: int = 256
    workers: Literal["thread", "block"] = "thread"
    accumulate: Literal["float", "double"] = "float"
    vector_width: int = 1


@dataclass(frozen=True)
class Kernel:
    name: str
    family: Family
    axes: tuple[Axis, ...]
    stores: tuple[Store, ...]
    reduced: tuple[Axis, ...] = ()
    stages: tuple[Stage, ...] = ()
    schedule: Schedule = field(default_factory=Schedule)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(s.body for s in self.stages) + tuple(s.value for s in self.stores)

    @property
    def reads(self) -> list[str]:
        """Buffers that are read, each once, in order."""
        return list(dict.fromkeys(load.buffer for e in self.expressions for load in loads(e)))

    @property
    def writes(self) -> list[str]:
        return [store.buffer for store in self.stores]

    def loads(self) -> Iterator[Load | Gather]:
        for expression in self.expressions:
            yield from loads(expression)


@dataclass(frozen=True)
class Buffer:
    """A tensor of the signature, or scratch memory that the launch function allocates."""

    name: str
    shape: tuple[Index, ...]
    dtype: Dtype
    scratch: bool = False


@dataclass(frozen=True)
class Plan:
    """`sizes` holds every size's value in each workload of the task, the primary one first."""

    signature: Signature
    buffers: Mapping[str, Buffer]
    kernels: tuple[Kernel, ...]
    sizes: tuple[Mapping[str, int], ...]

    def extent(self, index: Index) -> int:
        """What an extent is in the primary workload."""
        return indices.evaluate(index, self.sizes[0])

    def elements(self, axes: tuple[Axis, ...]) -> int:
        return prod(self.extent(axis.extent) for axis in axes)

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
        return replace(self, kernels=kernels, buffers=kept)

    def with_kernel(self, old: Kernel, new: Kernel) -> "Plan":
        return self.with_kernels(tuple(new if kernel is old else kernel for kernel in self.kernels))
