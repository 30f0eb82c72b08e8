"""Rows in registers: between the passes over a row each thread keeps its elements of the row in registers,
instead of reading them again.

If the row is too long for the registers of a warp, a block processes it. Elements that do not fit are read
again, mostly from the L2 cache. How many elements a thread keeps is fixed when the kernel is written, by the
row length in the primary workload (the one that is timed).
"""

from dataclasses import replace
from functools import partial

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.row_kernel import element_bytes, needed_again, row_kernel
from kernelblaster.policies.expert.schedules.rows import BlockPerRow, BlockRows, WarpRows

APPLIES_TO = (BlockPerRow, WarpRows, BlockRows)
MOST_BYTES = (128, 64)  # of registers that a thread keeps; with fewer, more threads share a row
LANES = (2, 4, 8, 16, 32)
THREADS = (64, 128, 256, 512, 1024)


def _kept(kernel: Kernel, plan: Plan, gpu: GpuSpec, most: int) -> Kernel | No:
    chosen = kernel.schedule
    if isinstance(chosen, BlockPerRow):
        chosen = BlockRows(threads=chosen.threads, accumulate=chosen.accumulate)
    assert isinstance(chosen, WarpRows | BlockRows)
    if chosen.register_elements:
        return No("it keeps rows in registers already")
    rows = row_kernel(kernel, plan)
    if rows.kernel.reduced[0].part is not None:
        return No("it has a part of a row only")
    again = needed_again(rows.kernel, rows.access, clusters=False)
    if not again:
        return No("no pass reads again what an earlier one has read contiguously")
    grain = rows.access.width(plan)
    room = most // element_bytes(again, plan) // grain * grain
    length = plan.elements(kernel.reduced)
    if room == 0:
        return No("not even one vector of every tensor fits in the registers of a thread")
    if isinstance(chosen, WarpRows):
        lanes = next((n for n in LANES if n >= chosen.lanes and share(length, n, grain) <= room), None)
        if lanes is not None:
            elements = share(length, lanes, grain)
            return replace(kernel, schedule=replace(chosen, lanes=lanes, register_elements=elements))
    threads = next((t for t in THREADS if share(length, t, grain) <= room), THREADS[-1])
    kept = min(room, share(length, threads, grain))
    shuffles = isinstance(chosen, WarpRows) or chosen.shuffles
    width, unroll = chosen.vector_width, chosen.unroll
    block = BlockRows(shuffles, kept, threads, width, unroll, chosen.streaming, chosen.accumulate)
    return replace(kernel, schedule=block)


def share(length: int, threads: int, grain: int) -> int:
    """Returns how many elements each of `threads` threads processes of a row of `length` elements, rounded up
    to whole vectors of `grain` elements."""
    return -(-length // (threads * grain)) * grain


REWRITES = tuple(partial(_kept, most=most) for most in MOST_BYTES)
