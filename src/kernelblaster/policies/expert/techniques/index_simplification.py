"""Cheaper indices: a kernel gets a second variant in which the sizes of the primary workload (the one that is
timed) are compile-time constants. The host launches it if the sizes match, otherwise the general one.

With constants, the compiler turns divisions into multiplications, drops bounds checks that cannot fail, and
merges equal loads. The first dimension (the number of rows or images) stays variable. A row reduction in its
first layout also gets the schedule (layout) `BlockRows`, whose loops profit from constants.
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
