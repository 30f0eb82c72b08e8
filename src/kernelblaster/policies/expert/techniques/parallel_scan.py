"""Parallel scan (prefix sum or similar): the warps of a block share a row, and lanes exchange partial results
by shuffles.

Each element is read once, and each result written once. A row that is too long for the registers of a block
is scanned in chunks, one after another.
"""

from dataclasses import replace
from functools import partial

from kernelblaster.devices.occupancy import WARP
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.row_kernel import row_kernel
from kernelblaster.policies.expert.scan import in_memory_order
from kernelblaster.policies.expert.schedules.scans import ScanRows, ThreadPerScan

APPLIES_TO = (ThreadPerScan,)
ELEMENTS = (16, 32, 8)  # of a thread, at most
WARPS = (1, 2, 4, 8, 16, 32)
ROWS = 8  # of a block, where a warp has each


def _parallel(kernel: Kernel, plan: Plan, gpu: GpuSpec, most: int) -> Kernel | No:
    kernel = in_memory_order(kernel, plan)
    if not row_kernel(kernel, plan).access.reads:
        return No("nothing that it reads is contiguous along the scanned axis")
    length = plan.elements(kernel.reduced)
    grain = 8  # elements: vectors of any type fit
    warps = next((w for w in WARPS if w * WARP * most >= length), WARPS[-1])
    elements = min(most, -(-length // (warps * WARP * grain)) * grain)
    return replace(kernel, schedule=ScanRows(warps, ROWS if warps == 1 else 1, elements))


REWRITES = tuple(partial(_parallel, most=most) for most in ELEMENTS)
