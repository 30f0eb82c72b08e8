"""Warp-shuffle reduction: the lanes of a warp combine their values by exchanging registers, so that shared
memory holds only one value per warp.

A row of up to 2048 elements (SHORT) is reduced by a single warp, without any barrier. Longer rows get a block
each: of 1024 threads if there are at most 32 rows (FEW) of up to 65536 elements (LONG). In a time step of a
recurrent layer, a warp computes one feature for several sequences, so that weights are read once for all of
these.
"""

from dataclasses import replace

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.recurrences import StepByWarps, StepPerLaunch
from kernelblaster.policies.expert.schedules.rows import BlockPerRow, BlockRows, WarpRows

APPLIES_TO = (BlockPerRow, BlockRows, StepPerLaunch)
SHORT = 2048  # elements of a row up to which a warp is enough
MIDDLE = 8192  # and up to which half of the usual block is
LONG = 65536  # up to which it is not worth while to cut a row into parts
FEW = 32  # rows, which leave most of the GPU idle


def _shuffled(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> Kernel | No:
    old = kernel.schedule
    if isinstance(old, StepPerLaunch):
        whole = len(kernel.axes) == 2 and not any(axis.once for axis in (*kernel.axes, *kernel.reduced))
        return replace(kernel, schedule=StepByWarps()) if whole else No("it has a single state or sequence")
    if isinstance(old, BlockPerRow):
        old = BlockRows(threads=old.threads, accumulate=old.accumulate)
    assert isinstance(old, BlockRows)
    if old.shuffles:
        return No("its threads exchange results by shuffles already")
    rows, length = plan.elements(kernel.axes), plan.elements(kernel.reduced)
    if length <= SHORT:
        kept, width = old.register_elements, old.vector_width
        warp = WarpRows(32, kept, old.threads, width, old.unroll, old.streaming, old.accumulate)
        return replace(kernel, schedule=warp)
    threads = old.threads
    if rows <= FEW and length <= LONG:
        threads = 1024
    elif length <= MIDDLE:
        threads = 128
    return replace(kernel, schedule=replace(old, shuffles=True, threads=threads))


REWRITES = (_shuffled,)
