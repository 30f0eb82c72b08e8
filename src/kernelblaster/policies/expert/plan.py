"""A plan: kernels in launch order (kernel.py), and the buffers that they read and write.

Techniques rewrite plans; emission/ writes them as CUDA."""

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
