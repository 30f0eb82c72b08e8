"""Rows in registers: between its passes over a row, each thread keeps its part of it.

Where a warp cannot keep a row, a block does. Of a row that is longer than that, the rest is read again,
which the L2 cache mostly serves. How many elements a thread keeps is fixed when the kernel is written,
from the primary workload's rows.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kernelblaster.policies.expert.families.reduction import FAMILIES
from kernelblaster.policies.expert.families.row_kernel import element_bytes, needed_again, rows_of
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.rewriting import everywhere

MOST_BYTES = (128, 64)  # of registers that a thread keeps; with fewer, more threads share a row
LANES = (2, 4, 8, 16, 32)
THREADS = (64, 128, 256, 512, 1024)


def apply(plan: Plan) -> Iterator[Plan]:
    yield from everywhere(plan, *(partial(_kept, most=most) for most in MOST_BYTES))


def _kept(kernel: Kernel, plan: Plan, most: int) -> Kernel | None:
    chosen = kernel.schedule
    if kernel.family not in FAMILIES or chosen.kept or chosen.held or chosen.workers not in ("warp", "block"):
        return None
    rows = rows_of(kernel, plan)
    if rows.kernel.reduced[0].part is not None:
        return None
    again = needed_again(rows.kernel, rows.near)
    if not again:
        return None
    grain = rows.near.width(plan)
    room = most // element_bytes(again, plan) // grain * grain
    length = plan.elements(kernel.reduced)
    if room == 0:
        return None
    if chosen.workers == "warp":
        lanes = next((n for n in LANES if n >= chosen.lanes and share(length, n, grain) <= room), None)
        if lanes is not None:
            return replace(kernel, schedule=replace(chosen, lanes=lanes, kept=share(length, lanes, grain)))
    threads = next((t for t in THREADS if share(length, t, grain) <= room), THREADS[-1])
    kept = min(room, share(length, threads, grain))
    schedule = replace(chosen, kept=kept, threads=threads, workers="block", lanes=LANES[-1])
    return replace(kernel, schedule=schedule)


def share(length: int, threads: int, grain: int) -> int:
    """Elements of a row that each thread has, as whole packs."""
    return -(-length // (threads * grain)) * grain
