"""Describes a kernel as rows, one row of elements for each point of the kernel's axes: what is contiguous
along a row, how many passes over the row read it, and what stays in registers or shared memory between
passes."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.expression import Gather, Load, Reduced, address, loads, walk
from kernelblaster.policies.expert.flatten import flattened
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel, Stage
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.proofs import is_linear, separate
from kernelblaster.policies.expert.schedules.rows import BlockRows, ClusterRows, Rows, WarpRows, row_threads
from kernelblaster.policies.expert.vector_access import VectorAccess, fits, vector_access
from kernelblaster.records.signature import DTYPE_BYTES

RUNNING = "j"  # the number of a vector's first element within the row


@dataclass(frozen=True)
class RowKernel:
    """A kernel of `plan` described as rows. The loops over its `axes` visit the rows; its reductions, and
    stores of every element, run over the elements of one row. A pointwise kernel has no reductions; its last
    axis has become the row. In `kernel`, two neighbouring loops are merged into one wherever a single running
    number can take the place of both variables (see flatten.py). `access` tells which loads and stores can be
    vectors along a row."""

    kernel: Kernel
    plan: Plan
    access: VectorAccess

    @property
    def narrow(self) -> bool:
        """True if rows have fewer than 2**31 elements in every workload, so that 32 bits hold the number of
        an element."""
        return fits(self.plan, indices.product(axis.extent for axis in self.kernel.reduced))

    def start(self, width: int) -> Index | None:
        """Returns where a row begins in memory, as an offset in elements, if the kernel needs special code
        for unaligned rows. None if it does not need that code or cannot use it.

        The code is needed if vectors of `width` elements that begin at a row's first element would not be
        aligned in the primary workload (the timed sizes). In the special code, vectors begin at the first
        aligned element of the row instead. It cannot be used, for example, if the tensors of a row start at
        different offsets.
        """
        reads = [load for load in self.access.reads if isinstance(load, Load)]
        if width == 1 or not reads or self.access.guards or len(reads) < len(self.access.reads):
            return None
        if self.access.possible(self.plan, width):
            return None
        if len(self.kernel.reduced) > 1 or self.access.along.part is not None:
            return None
        buffers = self.plan.buffers
        addresses = [address(load, buffers[load.buffer].shape) for load in reads]
        addresses += [indices.row_major(s.position, buffers[s.buffer].shape) for s in self.access.writes]
        starts = {separate(place, self.access.along.name) for place in addresses}
        if len(starts) != 1:
            return None
        start, moved = starts.pop()
        return start if moved == indices.variable(self.access.along.name) else None

    def straight(self, place: Index) -> dict[str, Index]:
        """Returns a mapping by which the address `place` becomes simpler: from the name of each loop variable
        along a row to the index that takes its place. The variable of the innermost loop is replaced by `j`
        (RUNNING), the number of the element within the row; all others are replaced by 0. Empty if there is
        only one loop along a row, or if `place` does not depend on the loops through that number alone."""
        *outer, inner = self.kernel.reduced
        loops = [(axis.name, axis.extent) for axis in self.kernel.reduced]
        if not outer or not is_linear(place, loops):
            return {}
        return {axis.name: indices.ZERO for axis in outer} | {inner.name: indices.variable(RUNNING)}

    def resident(self, schedule: Rows) -> dict[Load | Gather, str]:
        """Returns the vector loads whose data is kept in registers or shared memory under `schedule` (the
        layout on the GPU), because several passes over the row need it. Each is mapped to the name of its
        vectors in the emitted code. Empty if the schedule keeps nothing."""
        if not resident_elements(schedule):
            return {}
        again = needed_again(self.kernel, self.access, clusters=isinstance(schedule, ClusterRows))
        return {load: self.access.reads[load] for load in again}

    def is_read_once(self, load: Load | Gather, schedule: Rows) -> bool:
        """True if each element that `load` reads is read from memory only once under `schedule`. This is so
        if no two rows share elements, and if either only one pass over the row needs the elements, or whole
        rows of the primary workload are kept in registers and shared memory."""
        if not self.reads_own_rows(load):
            return False
        whole = load in self.resident(schedule) and keeps_all(self.kernel, schedule, self.plan)
        return whole or passes_with(self.kernel, load) == 1

    def reads_own_rows(self, load: Load | Gather) -> bool:
        """True if no two rows read the same elements by `load`, because its address depends on all of the
        kernel's axes. Always False for gathers."""
        named = indices.names(address(load, self.plan.buffers[load.buffer].shape))
        return isinstance(load, Load) and all(axis.name in named for axis in self.kernel.axes)

    def may_persist(self, width: int) -> bool:
        """True if thread-block clusters that run this kernel can be persistent, that is, process another row
        when they have finished one. Three things are needed: (1) the kernel has an axis that counts rows; (2)
        some store writes every element of a row, in a last pass, during which the next row is loaded; (3)
        with vectors of `width` elements, the special code for unaligned rows is not used (`start` returns
        None)."""
        each = any(store.over for store in self.kernel.stores)
        return bool(self.kernel.axes) and self.start(width) is None and each


def as_rows(kernel: Kernel) -> Kernel:
    """Returns `kernel` in the form in which row kernels are described. A pointwise kernel gets its last axis
    as the row, over which its stores then run. A kernel with reductions is returned unchanged."""
    if kernel.stages:
        return kernel
    stores = tuple(replace(store, over=kernel.axes[-1:]) for store in kernel.stores)
    return replace(kernel, axes=kernel.axes[:-1], stores=stores)


def row_kernel(kernel: Kernel, plan: Plan) -> RowKernel:
    kernel = as_rows(flattened(kernel, plan))
    return RowKernel(kernel, plan, vector_access(kernel, plan, kernel.reduced[-1], guards_too=True))


def passes(kernel: Kernel) -> list[list[Stage]]:
    """Returns the kernel's reductions (stages), grouped into passes over the row, in order. A reduction that
    needs the result of another one is in a later pass."""
    depth: dict[str, int] = {}
    for stage in kernel.stages:
        needed = [part.stage for part in walk(stage.body) if isinstance(part, Reduced)]
        depth[stage.name] = 1 + max((depth[name] for name in needed), default=-1)
    levels = sorted(set(depth.values()))
    return [[stage for stage in kernel.stages if depth[stage.name] == level] for level in levels]


def passes_with(kernel: Kernel, load: Load | Gather) -> int:
    """Returns how many passes of `kernel` over the row need what `load` reads. The pass that stores every
    element, after the reductions, is counted too."""
    bodies = [[stage.body for stage in group] for group in passes(kernel)]
    bodies.append([store.value for store in kernel.stores if store.over])
    return sum(any(load in loads(body) for body in group) for group in bodies)


def needed_again(kernel: Kernel, access: VectorAccess, *, clusters: bool) -> list[Load | Gather]:
    """Returns the vector loads of `access` whose elements several passes of `kernel` over the row need, so
    that keeping them on the chip saves traffic. With `clusters`, loads that are made only on one side of a
    boundary, as in a concatenation, are left out."""
    known = [load for load in access.reads if not clusters or load not in access.guards]
    return [load for load in known if passes_with(kernel, load) > 1]


def keeps_all(kernel: Kernel, schedule: Rows, plan: Plan) -> bool:
    """True if, with the layout `schedule`, all elements of a row of `kernel` stay in registers and shared
    memory between passes, at the primary workload (the timed sizes) of `plan`."""
    return kept_elements(schedule) >= plan.elements(kernel.reduced)


def kept_elements(schedule: Rows) -> int:
    """Returns how many elements of a row stay in registers and shared memory under `schedule`, in all threads
    that share the row together."""
    blocks = schedule.blocks if isinstance(schedule, ClusterRows) else 1
    return resident_elements(schedule) * row_threads(schedule) * blocks


def resident_elements(schedule: Rows) -> int:
    """Returns how many elements of a row a single thread keeps in registers and shared memory under
    `schedule`; 0 if it keeps none."""
    if isinstance(schedule, ClusterRows):
        return schedule.register_elements + schedule.shared_elements
    return schedule.register_elements if isinstance(schedule, WarpRows | BlockRows) else 0


def element_bytes(found: Iterable[Load | Gather], plan: Plan) -> int:
    """Returns the sum of the bytes that one element takes in each tensor that the loads `found` read."""
    return sum(DTYPE_BYTES[plan.buffers[load.buffer].dtype] for load in found)
