"""Describes a kernel as rows, one for each point of its axes: what is contiguous along a row, how often (in
how many passes) it is read, and what stays in registers or shared memory between the passes."""

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
    """A kernel as rows, its loops merged (flatten.py): for each row, its reductions and stores run over the
    row's elements. A pointwise kernel has rows without reductions. `access` tells which loads and stores can
    be vectors along a row."""

    kernel: Kernel
    plan: Plan
    access: VectorAccess

    @property
    def narrow(self) -> bool:
        """Whether the number of elements of a row is below 2**31 in every workload, so that 32 bits hold
        it."""
        return fits(self.plan, indices.product(axis.extent for axis in self.kernel.reduced))

    def start(self, width: int) -> Index | None:
        """The offset, in elements, at which a row starts in memory, for rows whose vectors begin at their
        first aligned element instead of their first element (emission/unaligned_rows.py). That is so if
        vectors of `width` elements are not aligned in the primary workload (the timed sizes), but all tensors
        of a row start at the same offset. None otherwise."""
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
        """Values for the loop variables along a row by which an address `place` can be written with one
        variable instead of several: `j`, the running number of the row's iterations, for the innermost loop,
        and 0 for the others. Empty if the address depends on these loops in another way than through that
        number, or if there is only one loop."""
        *outer, inner = self.kernel.reduced
        loops = [(axis.name, axis.extent) for axis in self.kernel.reduced]
        if not outer or not is_linear(place, loops):
            return {}
        return {axis.name: indices.ZERO for axis in outer} | {inner.name: indices.variable(RUNNING)}

    def resident(self, schedule: Rows) -> dict[Load | Gather, str]:
        """The vector loads whose data stays in registers or shared memory between passes over the row under
        `schedule`, because more than one pass needs it, with the names of their vectors in the emitted code;
        empty if the schedule keeps nothing."""
        if not resident_elements(schedule):
            return {}
        again = needed_again(self.kernel, self.access, clusters=isinstance(schedule, ClusterRows))
        return {load: self.access.reads[load] for load in again}

    def is_read_once(self, load: Load | Gather, schedule: Rows) -> bool:
        """Whether under `schedule` no element that `load` reads is read from memory twice: no two rows share
        it, and either only one pass over the row needs it, or all of the row is kept on chip between passes
        in the primary workload."""
        if not self.reads_own_rows(load):
            return False
        whole = load in self.resident(schedule) and keeps_all(self.kernel, schedule, self.plan)
        return whole or passes_with(self.kernel, load) == 1

    def reads_own_rows(self, load: Load | Gather) -> bool:
        """Whether no two rows read the same elements by `load`: its address depends on all of the kernel's
        axes. False for gathers."""
        named = indices.names(address(load, self.plan.buffers[load.buffer].shape))
        return isinstance(load, Load) and all(axis.name in named for axis in self.kernel.axes)

    def may_persist(self, width: int) -> bool:
        """Whether a cluster that has finished its row can go on with another one, so that it is persistent:
        there are several rows, rows are aligned for vectors of `width` elements, and some store writes every
        element in a last pass."""
        each = any(store.over for store in self.kernel.stores)
        return bool(self.kernel.axes) and self.start(width) is None and each


def as_rows(kernel: Kernel) -> Kernel:
    """A pointwise kernel described as rows: its last axis, along which it stores, becomes the row. A kernel
    with reductions is returned unchanged."""
    if kernel.stages:
        return kernel
    stores = tuple(replace(store, over=kernel.axes[-1:]) for store in kernel.stores)
    return replace(kernel, axes=kernel.axes[:-1], stores=stores)


def row_kernel(kernel: Kernel, plan: Plan) -> RowKernel:
    kernel = as_rows(flattened(kernel, plan))
    return RowKernel(kernel, plan, vector_access(kernel, plan, kernel.reduced[-1], guards_too=True))


def passes(kernel: Kernel) -> list[list[Stage]]:
    """The kernel's reductions (stages) grouped into passes over the row, in order. A reduction that needs the
    result of another one comes in a later pass."""
    depth: dict[str, int] = {}
    for stage in kernel.stages:
        needed = [part.stage for part in walk(stage.body) if isinstance(part, Reduced)]
        depth[stage.name] = 1 + max((depth[name] for name in needed), default=-1)
    levels = sorted(set(depth.values()))
    return [[stage for stage in kernel.stages if depth[stage.name] == level] for level in levels]


def passes_with(kernel: Kernel, load: Load | Gather) -> int:
    """In how many passes over the row the kernel needs what `load` reads, counting the last one, which stores
    every element."""
    bodies = [[stage.body for stage in group] for group in passes(kernel)]
    bodies.append([store.value for store in kernel.stores if store.over])
    return sum(any(load in loads(body) for body in group) for group in bodies)


def needed_again(kernel: Kernel, access: VectorAccess, *, clusters: bool) -> list[Load | Gather]:
    """The vector loads of `access` whose data more than one pass over the row needs; with `clusters`, without
    those that are needed on one side of a boundary only (guards.py)."""
    known = [load for load in access.reads if not clusters or load not in access.guards]
    return [load for load in known if passes_with(kernel, load) > 1]


def keeps_all(kernel: Kernel, schedule: Rows, plan: Plan) -> bool:
    """Whether a whole row of the primary workload fits in what the threads keep in registers and shared
    memory under `schedule`."""
    return kept_elements(schedule) >= plan.elements(kernel.reduced)


def kept_elements(schedule: Rows) -> int:
    """How many elements of a row all threads that share it keep in registers and shared memory under
    `schedule`."""
    blocks = schedule.blocks if isinstance(schedule, ClusterRows) else 1
    return resident_elements(schedule) * row_threads(schedule) * blocks


def resident_elements(schedule: Rows) -> int:
    """How many elements of a row each thread keeps in registers and shared memory under `schedule`; 0 if it
    keeps nothing."""
    if isinstance(schedule, ClusterRows):
        return schedule.register_elements + schedule.shared_elements
    return schedule.register_elements if isinstance(schedule, WarpRows | BlockRows) else 0


def element_bytes(found: Iterable[Load | Gather], plan: Plan) -> int:
    """The number of bytes of one element of each load in `found`, added up."""
    return sum(DTYPE_BYTES[plan.buffers[load.buffer].dtype] for load in found)
