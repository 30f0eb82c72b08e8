"""Rows across blocks: a row that is too long for the registers of one block is shared by the blocks of a
thread-block cluster, which keep it in registers and shared memory between the passes over it (sm_90a only).

The blocks of a cluster read the row once and exchange partial results. It is best if several blocks fit on an
SM, because some of them then load while others store. Each of them has less shared memory, so that a part of
the row is kept in registers. If only one block fits on an SM, clusters are persistent: they load their next
row while they store the current one. Where possible, statistics are computed in one pass, so that one cluster
barrier is enough."""

from dataclasses import replace
from functools import partial
from itertools import product

from kernelblaster.devices.occupancy import limits_of
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import MOST, No
from kernelblaster.policies.expert.row_kernel import RowKernel, element_bytes, needed_again, row_kernel
from kernelblaster.policies.expert.schedules.rows import BlockPerRow, BlockRows, ClusterRows
from kernelblaster.policies.expert.techniques.online_reduction import single_pass

APPLIES_TO = (BlockPerRow, BlockRows)
ARCHITECTURE = "sm_90a"
CLUSTERS = (2, 4, 8, 16)
SHORTEST = 64 << 10  # bytes of a row, below which one block keeps it in registers
ENOUGH = 0.5  # of a row: what must be kept at least
THREADS = (128, 256, 512, 1024)
TOGETHER = (512, 1024)  # threads on an SM
BLOCKS = (6, 5, 4, 3, 2, 1)  # on an SM
MANY = 2  # blocks with which a part of each row may be read twice
WORTH = (1, 1.1, 1.13, 1.16, 1.21)  # of so many blocks on an SM: some load while others store
SUFFICIENT = 256 << 10  # bytes that are kept on an SM; more helps little
PLAIN = 3  # choices without registers
HELD = 32  # elements in registers: with more, a persistent block has too few left for the rest
PERSISTENT = 1.1  # what that is worth
REDUCTION_BYTES = 1 << 10  # of a block's shared memory, for its reductions
USUAL_REGISTERS, MOST_REGISTERS = 64, 255  # of a thread
OTHER_REGISTERS = 40  # that it needs beside those that hold elements


def _across(kernel: Kernel, plan: Plan, gpu: GpuSpec, choice: int) -> Kernel | No:
    online = single_pass(kernel, plan, gpu)
    if isinstance(online, Kernel):
        kernel = online
    found = _schedules(kernel, plan, gpu)
    if isinstance(found, No):
        return found
    return (
        replace(kernel, schedule=found[choice])
        if choice < len(found)
        else No("no cluster has room for a row")
    )


def _schedules(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> list[ClusterRows] | No:
    """Layouts of a row kernel on thread-block clusters, the most promising first by `SmRoom.promise`; at most
    MOST in all, the last ones without elements in registers. May be empty. `No`, with the reason, if clusters
    cannot help."""
    old = kernel.schedule
    rows = row_kernel(kernel, plan)
    again = needed_again(rows.kernel, rows.access, clusters=True)
    if rows.kernel.reduced[0].part is not None:
        return No("it has a part of a row only")
    if not again:
        return No("no pass reads again what an earlier one has read contiguously")
    each = element_bytes(again, plan)
    length = plan.elements(kernel.reduced)
    if length * each < SHORTEST:
        return No("one block can keep a row in its registers")
    width, unroll = (old.vector_width, old.unroll) if isinstance(old, BlockRows) else (1, 1)
    assert isinstance(old, BlockPerRow | BlockRows)
    plain = ClusterRows(2, 1, 1, vector_width=width, unroll=unroll, accumulate=old.accumulate)
    room = SmRoom(gpu, each)
    grain = rows.access.width(plan)
    found: dict[ClusterRows, float] = {}
    for blocks, threads, per_sm in product(CLUSTERS, THREADS, BLOCKS):
        if TOGETHER[0] <= per_sm * threads <= TOGETHER[1]:
            shape = replace(plain, threads=threads, blocks=blocks)
            share = -(-length // (blocks * threads * grain)) * grain
            split = room.split(shape, share, grain, per_sm)
            for schedule in map(room.counted, (split, replace(split, register_elements=0))):
                kept = (schedule.shared_elements + schedule.register_elements) / share
                if kept == 1:
                    whole = replace(schedule, persistent=_persistent(rows, schedule))
                    found[whole] = room.promise(whole)
                elif kept >= ENOUGH and per_sm <= MANY and per_sm * threads == TOGETHER[1]:
                    found[schedule] = room.promise(schedule) * 2 / (3 - kept)  # the rest is read twice
    ordered = sorted(found, key=found.__getitem__, reverse=True)
    in_shared = [schedule for schedule in ordered if not schedule.register_elements][:PLAIN]
    first = [schedule for schedule in ordered if schedule not in in_shared][: MOST - len(in_shared)]
    return first + in_shared


def _persistent(rows: RowKernel, schedule: ClusterRows) -> bool:
    """Whether under `schedule` each cluster should process several rows in turn: one block fits on an SM, few
    elements are held in registers, there are at least two rows for each cluster that runs at once, and the
    kernel allows it."""
    alone = schedule.blocks_per_sm == 1 and schedule.register_elements <= HELD
    many = rows.plan.elements(rows.kernel.axes) >= 2 * schedule.resident
    return alone and many and rows.may_persist(schedule.vector_width)


class SmRoom:
    """Computes how much of a row the blocks on one SM of `gpu` can keep in shared memory and registers.
    `each` is the number of bytes of one element, summed over all tensors of which rows are kept."""

    def __init__(self, gpu: GpuSpec, each: int) -> None:
        limits = limits_of(gpu.architecture)
        self._gpu, self._each = gpu, each
        self._registers = limits.registers
        self._shared = limits.shared_bytes - limits.reserved_shared_bytes
        self._reserved = limits.reserved_shared_bytes + REDUCTION_BYTES  # for each block

    def split(self, shape: ClusterRows, share: int, grain: int, blocks: int) -> ClusterRows:
        """Returns the layout `shape` with `shared_elements` and `register_elements` filled in. Each thread
        has `share` elements of a row, and `blocks` blocks run on an SM. As many of a thread's elements as fit
        are kept in shared memory, as many of the rest as fit in registers, both in multiples of `grain`, the
        elements of a vector. Elements that remain are not kept."""
        room = self._shared // blocks - self._reserved
        shared = min(share, room // (shape.threads * self._each * grain) * grain)
        room = min(MOST_REGISTERS, self._registers // (blocks * shape.threads)) - OTHER_REGISTERS
        held = min(share - shared, room * 4 // (self._each * grain) * grain)
        return replace(shape, shared_elements=shared, register_elements=held)

    def counted(self, schedule: ClusterRows) -> ClusterRows:
        """Returns the layout `schedule` with two fields filled in: `blocks_per_sm`, the number of blocks that
        fit on an SM, and `resident`, the number of clusters that run on the GPU at once."""
        shared = schedule.shared_elements * schedule.threads * self._each
        by_memory = self._shared // (shared + self._reserved)
        registers = max(USUAL_REGISTERS, OTHER_REGISTERS + schedule.register_elements * self._each // 4)
        blocks = min(by_memory, self._registers // (schedule.threads * registers))
        resident = self._gpu.clusters(schedule.blocks) * blocks
        return replace(schedule, blocks_per_sm=blocks, resident=resident)

    def promise(self, schedule: ClusterRows) -> float:
        """Returns a score of the layout `schedule`, larger if it is likely to keep memory busier. It has no
        unit. It is the number of SMs that are used, times the bytes kept on each SM as a share of 256 KiB
        (SUFFICIENT; more bytes than that add almost nothing), times a measured factor from 1 to 1.21 for
        several blocks on an SM or for persistent clusters."""
        blocks = schedule.blocks_per_sm
        elements = schedule.shared_elements + schedule.register_elements
        kept = blocks * elements * schedule.threads * self._each
        used = self._gpu.clusters(schedule.blocks) * schedule.blocks  # SMs
        worth = PERSISTENT if schedule.persistent else WORTH[min(blocks, len(WORTH)) - 1]
        return (min(1, kept / SUFFICIENT) + kept / (1 << 30)) * worth * used


REWRITES = tuple(partial(_across, choice=choice) for choice in range(MOST))
