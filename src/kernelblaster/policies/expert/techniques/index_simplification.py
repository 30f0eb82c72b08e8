"""Cheaper indices: the kernel has a variant in which the primary workload's sizes are constants.

Then the compiler divides by multiplying, finds out at which packs a condition can fail at all, and reads
once what several of them share. Other sizes go to the general variant. How many rows or images there are
stays open.
"""

from collections.abc import Iterator
from dataclasses import replace

from kernelblaster.policies.expert.emit import known_sizes
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.rewriting import everywhere


def apply(plan: Plan) -> Iterator[Plan]:
    yield from everywhere(plan, _sized)


def _sized(kernel: Kernel, plan: Plan) -> Kernel | None:
    if kernel.schedule.sized or not known_sizes(kernel, plan):
        return None
    return replace(kernel, schedule=replace(kernel.schedule, sized=True))
