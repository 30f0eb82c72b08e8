"""A plan: the kernels of a candidate in launch order (kernel.py), and the buffers that they read and write.

Techniques rewrite plans; emission/ writes them as CUDA.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.graph import Graph
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.schedules.products import PACKED_DEPTH, PACKED_ROWS
from kernelblaster.records import Signature
from kernelblaster.records.signature import Dtype


@dataclass(frozen=True)
class Buffer:
    """A tensor called `name`: one of the task's signature or, with `scratch`, memory that the launch function
    allocates. `dtype` is the type of the numbers in it.

    `terms` is 0 for ordinary buffers. A buffer with `terms` 1 or more is an operand packed for tensor cores:
    each element is the sum of `terms` half-precision numbers, which are stored in its place. The last two
    dimensions of its `shape` are the rows and the K axis; its elements lie in tiles (emission/packing.py).
    """

    name: str
    shape: tuple[Index, ...]
    dtype: Dtype
    scratch: bool = False
    terms: int = 0

    @property
    def elements(self) -> Index:
        """How many numbers must be allocated, as a symbolic index. In a packed operand, rows and K axis are
        rounded up to whole tiles, and each element is stored as `terms` numbers."""
        if not self.terms:
            return indices.product(self.shape)
        *batch, rows, inner = self.shape
        whole = [indices.round_up(rows, PACKED_ROWS), indices.round_up(inner, PACKED_DEPTH)]
        return indices.product([*batch, *whole, indices.number(self.terms)])


@dataclass(frozen=True)
class Plan:
    """How the expert (the built-in code generator) represents a candidate for the task with this `signature`:
    its kernels in launch order, and the `buffers` that they read and write, by name. `sizes` has the value of
    every size in each workload of the task, first in the primary one (which is timed). `graph` is the graph
    of operators from which an initial plan was made; None once a technique has changed the plan."""

    signature: Signature
    buffers: Mapping[str, Buffer]
    kernels: tuple[Kernel, ...]
    sizes: tuple[Mapping[str, int], ...]
    graph: Graph | None = None

    @property
    def real(self) -> Literal["float", "double"]:
        """The C++ type of floating-point arithmetic: "double" if the first output is float64; otherwise
        "float", also if tensors are half precision."""
        return "double" if self.signature.outputs[0].dtype == "float64" else "float"

    def extent(self, index: Index) -> int:
        """Returns the value of the symbolic `index` in the primary workload (the one that is timed)."""
        return indices.evaluate(index, self.sizes[0])

    def elements(self, axes: tuple[Axis, ...]) -> int:
        return prod(self.extent(axis.extent) for axis in axes)

    def inner_sizes(self, kernel: Kernel) -> dict[str, int]:
        """Returns the sizes that are compile-time constants in the second variant of `kernel` (see
        `Kernel.constant_sizes`): a mapping from names to values in the primary workload (the one that is
        timed). These are the sizes that occur in the extents of its loops, or in the shapes of the tensors
        that it reads and writes. Sizes that occur only in the first of its axes and in the first dimension of
        these tensors, such as the number of rows or images, are left out."""
        shapes = [self.buffers[name].shape for name in (*kernel.reads, *kernel.writes)]
        inner = [index for shape in shapes for index in shape[1:]]
        inner += [axis.extent for axis in (*kernel.axes[1:], *kernel.reduced)]
        used = set().union(*(indices.names(index) for index in inner))
        return {name: value for name, value in self.sizes[0].items() if name in used}

    def same(self, left: Index, right: Index) -> bool:
        """True if the symbolic extents `left` and `right` are equal in every workload."""
        return left == right or all(
            indices.evaluate(left, sizes) == indices.evaluate(right, sizes) for sizes in self.sizes
        )

    def consumers(self, buffer: str) -> list[Kernel]:
        return [kernel for kernel in self.kernels if buffer in kernel.reads]

    def with_kernels(self, kernels: tuple[Kernel, ...]) -> "Plan":
        """Returns the plan with `kernels` instead of its own kernels. Scratch buffers that none of these
        kernels uses are dropped. The result has no graph of operators (`graph` is None), since the graph
        describes only a plan that no technique has changed."""
        used = {name for kernel in kernels for name in (*kernel.reads, *kernel.writes)}
        kept = {n: b for n, b in self.buffers.items() if not b.scratch or n in used}
        return replace(self, kernels=kernels, buffers=kept, graph=None)

    def with_kernel(self, old: Kernel, new: Kernel) -> "Plan":
        return self.with_kernels(tuple(new if kernel is old else kernel for kernel in self.kernels))
