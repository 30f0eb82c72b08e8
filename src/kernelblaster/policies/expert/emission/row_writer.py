"""`RowWriter`: a kernel that works along rows, with everything that the emitter of row kernels (rows.py)
needs to write it as CUDA."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.cuda.terms import INT, INT64, UNSIGNED, CudaType, Term
from kernelblaster.policies.expert.emission.accumulators import Accumulator, accumulators
from kernelblaster.policies.expert.emission.values import index_term, values_of
from kernelblaster.policies.expert.emission.vectors import VectorValues, vector_values
from kernelblaster.policies.expert.expression import Gather, Load
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.row_kernel import RowKernel, row_kernel
from kernelblaster.policies.expert.schedules.rows import ClusterRows, Rows, WarpPerRow, cluster_blocks
from kernelblaster.policies.expert.vector_access import fits


@dataclass(frozen=True)
class RowWriter(RowKernel):
    """A kernel described as rows, with what is needed to write it as CUDA: `schedule` is its layout on the
    GPU, and `values` writes its expressions as C++. `found` has, for each reduction of the kernel, the C++
    variable in which its result is accumulated."""

    schedule: Rows
    values: VectorValues
    found: Sequence[Accumulator]

    def index(self, index: Index) -> Term:
        return index_term(index, self.plan.sizes[0])

    @property
    def number(self) -> CudaType:
        """The C++ type of the number of a vector within its row: int where 32 bits suffice, else int64_t."""
        return INT if self.narrow else INT64

    @property
    def unaligned(self) -> Index | None:
        """Where a row begins in memory, as an offset in elements, if the kernel is written with the special
        code for rows that do not begin at aligned addresses (see `RowKernel.start`). None if it is written
        without that code."""
        return self.start(self.schedule.vector_width)

    @property
    def cluster(self) -> int:
        """How many thread blocks share a row: the blocks of a cluster, or 1 without a cluster."""
        return cluster_blocks(self.schedule)

    @property
    def by_warps(self) -> bool:
        return isinstance(self.schedule, WarpPerRow)

    @property
    def persistent(self) -> bool:
        return isinstance(self.schedule, ClusterRows) and self.schedule.persistent

    @property
    def row(self) -> tuple[CudaType, str]:
        """Returns (C++ type, name) of the variable that holds the number of the row on which a thread works.
        Its name is that of the loop variable if the kernel has a single loop over rows, otherwise "row"."""
        if len(self.kernel.axes) == 1:
            return INT64, self.kernel.axes[0].name
        total = indices.product(axis.extent for axis in self.kernel.axes)
        return UNSIGNED if fits(self.plan, total) else INT64, "row"

    @property
    def kept(self) -> dict[Load | Gather, str]:
        """The loads whose data stays in registers or shared memory between passes over the row, each with the
        name of its vectors in the emitted code. Empty if the kernel's schedule (layout on the GPU) keeps
        none."""
        return self.resident(self.schedule)


def row_writer(kernel: Kernel, plan: Plan) -> RowWriter:
    found = row_kernel(kernel, plan)
    schedule = kernel.schedule
    assert isinstance(schedule, Rows)
    if isinstance(schedule, ClusterRows) and not found.may_persist(schedule.vector_width):
        schedule = replace(schedule, persistent=False)
    values = vector_values(values_of(plan), found.access)
    running = accumulators(found.kernel, plan)
    return RowWriter(found.kernel, plan, found.access, schedule, values, running)
