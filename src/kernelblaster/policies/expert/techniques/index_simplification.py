"""Cheaper indices: the kernel has a variant in which the primary workload's sizes are constants.

Then the compiler divides by multiplying, finds out at which vectors a condition can fail at all, and reads
once what several of them share. Other sizes go to the general variant. How many rows or images there are
stays open. A reduction as first written becomes one over rows, whose loops the constants serve.
"""

from dataclasses import replace

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules import all_schedules
from kernelblaster.policies.expert.schedules.rows import BlockPerRow, BlockRows

APPLIES_TO = all_schedules()


def _with_constants(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> Kernel | No:
    if kernel.constant_sizes:
        return No("it has a variant with constant sizes already")
    if not plan.inner_sizes(kernel):
        return No("its addresses and loops depend on no size but the first")
    schedule = kernel.schedule
    if isinstance(schedule, BlockPerRow):
        schedule = BlockRows(threads=schedule.threads, accumulate=schedule.accumulate)
    return replace(kernel, schedule=schedule, constant_sizes=True)


REWRITES = (_with_constants,)
