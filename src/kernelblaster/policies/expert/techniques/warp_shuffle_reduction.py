"""Warp-shuffle reduction: lanes of a warp exchange registers, and shared memory holds one value a warp.

A short row is done by one warp alone, without any barrier; of a few rows only, each by many threads.
"""

from collections.abc import Iterator
from dataclasses import replace

from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.rewriting import everywhere

SHORT = 2048  # elements of a row up to which a warp is enough
MIDDLE = 8192  # and up to which half of the usual block is
LONG = 65536  # up to which it is not worth while to cut a row into parts
FEW = 32  # rows, which leave most of the GPU idle


def apply(plan: Plan) -> Iterator[Plan]:
    yield from everywhere(plan, _shuffled)


def _shuffled(kernel: Kernel, plan: Plan) -> Kernel | None:
    if not kernel.stages or kernel.schedule.workers != "block" or kernel.schedule.shuffles:
        return None
    chosen = replace(kernel.schedule, shuffles=True)
    if plan.elements(kernel.reduced) <= SHORT:
        chosen = replace(chosen, workers="warp")
    elif plan.elements(kernel.axes) <= FEW and plan.elements(kernel.reduced) <= LONG:
        chosen = replace(chosen, threads=1024)
    elif plan.elements(kernel.reduced) <= MIDDLE:
        chosen = replace(chosen, threads=128)
    return replace(kernel, schedule=chosen)
