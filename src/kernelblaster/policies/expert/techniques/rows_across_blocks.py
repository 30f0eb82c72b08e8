"""Rows across blocks: a row too long for the registers of one block is kept by several.

The blocks of a cluster read it once and tell each other their partial results. Several blocks should fit
on a processor, so that some load while others store: what shared memory has no room for then is held in
registers. Where but one fits, it stays, and reads its next row while it stores this one. Statistics are
found in one pass where they can be, so that the blocks meet once. Clusters are of architecture sm_90a.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product

from kernelblaster.policies.expert.families import across
from kernelblaster.policies.expert.families.reduction import FAMILIES
from kernelblaster.policies.expert.families.row_kernel import (
    Rows,
    element_bytes,
    may_stay,
    needed_again,
    rows_of,
)
from kernelblaster.policies.expert.plan import Kernel, Plan, Schedule
from kernelblaster.policies.expert.rewriting import MOST, everywhere
from kernelblaster.policies.expert.techniques.online_reduction import single_pass

ARCHITECTURE = "sm_90a"
CLUSTERS = (2, 4, 8, 16)
SHORTEST = 64 << 10  # bytes of a row, below which one block keeps it in registers
ENOUGH = 0.5  # of a row: what must be kept at least
THREADS = (128, 256, 512, 1024)
TOGETHER = (512, 1024)  # threads on a processor
BLOCKS = (6, 5, 4, 3, 2, 1)  # on a processor
MANY = 2  # blocks with which a part of each row may be read twice
WORTH = (1, 1.1, 1.13, 1.16, 1.21)  # of so many blocks on a processor: some load while others store
SUFFICIENT = 256 << 10  # bytes that are kept on a processor; more helps little
PLAIN = 3  # choices without registers
HELD = 32  # elements: with more, a block that stays has too few registers for the rest
STAYING = 1.1  # what that is worth


def apply(plan: Plan) -> Iterator[Plan]:
    yield from everywhere(plan, *(partial(_across, choice=choice) for choice in range(MOST)))


def _across(kernel: Kernel, plan: Plan, choice: int) -> Kernel | None:
    online = single_pass(kernel, plan)
    if online is not None:
        kernel = online
    found = _schedules(kernel, plan)
    return replace(kernel, schedule=found[choice]) if choice < len(found) else None


def _schedules(kernel: Kernel, plan: Plan) -> list[Schedule]:
    """The most promising first."""
    chosen = replace(kernel.schedule, streaming=False)  # cache hints cost more here than they bring
    if kernel.family not in FAMILIES or chosen.cluster > 1 or chosen.workers != "block":
        return []
    rows = rows_of(replace(kernel, schedule=replace(chosen, cluster=CLUSTERS[0])), plan)
    again = needed_again(rows.kernel, rows.near)
    if rows.kernel.reduced[0].part is not None or not again:
        return []
    each = element_bytes(again, plan)
    length = plan.elements(kernel.reduced)
    if length * each < SHORTEST:
        return []
    grain = rows.near.width(plan)
    found: dict[Schedule, float] = {}
    for cluster, threads, blocks in product(CLUSTERS, THREADS, BLOCKS):
        if TOGETHER[0] <= blocks * threads <= TOGETHER[1]:
            shape = replace(chosen, shuffles=True, threads=threads, cluster=cluster)
            share = -(-length // (cluster * threads * grain)) * grain
            split = _split(shape, share, each, grain, blocks)
            for schedule in (split, replace(split, held=0)):
                kept = (schedule.kept + schedule.held) / share
                if kept == 1:
                    whole = replace(schedule, stays=_stays(rows, schedule, each))
                    found[whole] = _promise(whole, each)
                elif kept >= ENOUGH and blocks <= MANY and blocks * threads == TOGETHER[1]:
                    found[schedule] = _promise(schedule, each) * 2 / (3 - kept)  # the rest is read twice
    ordered = sorted(found, key=found.__getitem__, reverse=True)
    plain = [schedule for schedule in ordered if not schedule.held][:PLAIN]
    first = [schedule for schedule in ordered if schedule not in plain][: MOST - len(plain)]
    return first + plain


def _stays(rows: Rows, schedule: Schedule, each: int) -> bool:
    """Whether a cluster should go on to further rows."""
    alone = across.blocks_per_processor(schedule, each) == 1 and schedule.held <= HELD
    many = rows.plan.elements(rows.kernel.axes) >= 2 * across.together(schedule, each)
    return alone and many and may_stay(rows)


def _promise(schedule: Schedule, each: int) -> float:
    """How well memory is kept busy: by enough on every processor, of several blocks; as measured."""
    blocks = across.blocks_per_processor(schedule, each)
    kept = blocks * (schedule.kept + schedule.held) * schedule.threads * each
    used = across.TOGETHER[schedule.cluster] * schedule.cluster  # processors
    worth = STAYING if schedule.stays else WORTH[min(blocks, len(WORTH)) - 1]
    return (min(1, kept / SUFFICIENT) + kept / (1 << 30)) * worth * used


def _split(shape: Schedule, share: int, each: int, grain: int, blocks: int) -> Schedule:
    """As much of each thread's share of a row in shared memory as so many blocks on a processor leave
    room for, and then in registers."""
    room = across.PROCESSOR // blocks - across.RESERVED
    kept = min(share, room // (shape.threads * each * grain) * grain)
    room = min(across.MOST, across.REGISTERS // (blocks * shape.threads)) - across.OTHERS
    return replace(shape, kept=kept, held=min(share - kept, room * 4 // (each * grain) * grain))
