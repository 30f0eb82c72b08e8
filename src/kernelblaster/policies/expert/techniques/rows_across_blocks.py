"""Rows across blocks: a row too long for the registers of one block is kept by several.

The blocks of a cluster hold it in their shared memory, where each reads its part once, and tell each
other their partial results. Several blocks should fit on a processor, so that some load while others
store. Clusters are of architecture sm_90a.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kernelblaster.policies.expert.families.across import THREADS, blocks_per_processor
from kernelblaster.policies.expert.families.reduction import FAMILIES
from kernelblaster.policies.expert.families.row_kernel import needed_again, rows_of
from kernelblaster.policies.expert.plan import Kernel, Plan, Schedule
from kernelblaster.policies.expert.rewriting import everywhere
from kernelblaster.records.signature import DTYPE_BYTES

ARCHITECTURE = "sm_90a"
CLUSTERS = (2, 4, 8, 16)
SHORTEST = 64 << 10  # bytes of a row, below which one block keeps it in registers
MOST = 200 << 10  # bytes that a block keeps
ENOUGH = 0.6  # of a row: what must be kept at least
BEST = 3  # blocks on a processor


def apply(plan: Plan) -> Iterator[Plan]:
    yield from everywhere(plan, *(partial(_across, choice=choice) for choice in range(len(CLUSTERS))))


def _across(kernel: Kernel, plan: Plan, choice: int) -> Kernel | None:
    found = _schedules(kernel, plan)
    return replace(kernel, schedule=found[choice]) if choice < len(found) else None


def _schedules(kernel: Kernel, plan: Plan) -> list[Schedule]:
    """The most promising first."""
    chosen = kernel.schedule
    if kernel.family not in FAMILIES or chosen.cluster > 1 or chosen.workers != "block":
        return []
    rows = rows_of(replace(kernel, schedule=replace(chosen, cluster=CLUSTERS[0])), plan)
    again = needed_again(rows.kernel, rows.near)
    if rows.kernel.reduced[0].part is not None or not again:
        return []
    each = sum(DTYPE_BYTES[plan.buffers[load.buffer].dtype] for load in again)
    length = plan.elements(kernel.reduced)
    if length * each < SHORTEST:
        return []
    found = []
    for cluster in CLUSTERS:
        part = min(-(-length // cluster), MOST // each)
        if part * cluster < ENOUGH * length:
            continue
        blocks = blocks_per_processor(part * each)
        threads = max(128, 1 << (THREADS // blocks).bit_length() - 1)
        grain = rows.near.width(plan)
        kept = -(-part // (threads * grain)) * grain
        if kept * threads * each > MOST:
            kept -= grain
        schedule = replace(chosen, shuffles=True, threads=threads, kept=kept, cluster=cluster)
        found.append(((part * cluster < length, abs(blocks - BEST), cluster), schedule))
    return [schedule for _, schedule in sorted(found, key=lambda pair: pair[0])]
