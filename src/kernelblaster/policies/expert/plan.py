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

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.expression import Expression, Gather, Load, loads
from kernelblaster.policies.expert.graph import Graph
from kernelblaster.policies.expert.index import Index
from kernelblaster.records import Signature
from kernelblaster.records.signature import Dtype

Combine = Literal[
    "sum", "product", "max", "min", "argmax", "argmin", "any", "all", "variation", "exponentials"
]
Family = Literal["pointwise", "row_reduction", "column_reduction", "full_reduction", "matrix_product", "pack"]
PACKED_ROWS, PACKED_DEPTH = 128, 32  # a packed operand is filled up to multiples of these
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
    """One reduction over the kernel's reduced axes. For argmax and argmin `body` is compared, and the
    result is the place of the winner, the first one on a tie. `variation` is the sum of squared
    differences from the mean of all bodies, `exponentials` the sum of exponentials of the differences
    from the largest one; both need one pass only."""

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
class Tile:
    """A matrix product by plain arithmetic, on tiles of both operands in shared memory.

    A block computes `block_m` x `block_n` results, `block_k` terms at a time, and a thread `thread_m` x
    `thread_n` of them (one or multiples of four). With two or more `stages` the next tiles are fetched
    while one is in use, past the registers where `asynchronous`. With `flush`, sums of so many terms
    are added to totals: a long sum then loses less.
    """

    block_m: int
    block_n: int
    block_k: int
    thread_m: int = 1
    thread_n: int = 1
    stages: int = 1
    asynchronous: bool = False
    flush: int | None = None

    @property
    def threads(self) -> int:
        return self.block_m // self.thread_m * (self.block_n // self.thread_n)


@dataclass(frozen=True)
class TensorTile:
    """A matrix product by tensor cores, on operands that were packed before (families/pack.py).

    A block computes `block_m` x `block_n` results, `stages` tiles of the inner axis ahead of the
    arithmetic. `engine` is the instruction: of a warp (`mma`) or of four together (`wgmma`, sm_90a).
    """

    block_m: int = 128
    block_n: int = 128
    stages: int = 3
    engine: Literal["mma", "wgmma"] = "mma"


@dataclass(frozen=True)
class Schedule:
    """How a kernel is laid out on the GPU; techniques change it.

    `workers` says who does a reduction: one thread, a warp, or the threads of a block together; with
    `tile`, the warps of a block share neighbouring columns. A row of a warp's has so many of its `lanes`;
    with fewer than all, the warp does several rows. `accumulate` is the type of running sums.
    `shuffles` combines within warps by shuffles, `kept` elements of a row stay in the registers of each
    thread between passes, loops are unrolled `unroll` times, a thread of a pointwise kernel does
    `coarsening` packs, `streaming` marks what is touched once, and `staged` turns tiles in shared memory.
    So many blocks of a `cluster` share a row; what is kept of it is then in their shared memory, and
    each thread has `held` more elements in registers. A cluster that `stays` goes on to further rows.
    A kernel that is `sized` has the primary workload's sizes as constants in a variant for them.
    """

    threads: int = 256
    workers: Literal["thread", "warp", "block", "tile"] = "thread"
    lanes: int = WARP
    accumulate: Literal["float", "double"] = "float"
    vector_width: int = 1
    shuffles: bool = False
    kept: int = 0
    unroll: int = 1
    coarsening: int = 1
    streaming: bool = False
    staged: bool = False
    cluster: int = 1
    held: int = 0
    stays: bool = False
    sized: bool = False
    tile: Tile | TensorTile | None = None

    @property
    def row_threads(self) -> int:
        """Threads of a block that share a row."""
        return self.lanes if self.workers == "warp" else self.threads

    @property
    def rows_together(self) -> int:
        """Rows that a block does at once."""
        return self.threads // self.row_threads


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
    """A tensor of the signature, or scratch memory that the launch function allocates.

    With `terms`, it is an operand packed for tensor cores: its last two dimensions are rows and the
    inner axis, each element is a sum of that many numbers of a half precision, and it lies in tiles
    (families/pack.py).
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
        return replace(self, kernels=kernels, buffers=kept, graph=None)

    def with_kernel(self, old: Kernel, new: Kernel) -> "Plan":
        return self.with_kernels(tuple(new if kernel is old else kernel for kernel in self.kernels))
