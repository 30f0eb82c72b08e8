"""Block shape: the same kernel with another number of threads in a block, unless that says what it keeps."""

from collections.abc import Iterator
from dataclasses import replace

from kernelblaster.policies.expert.plan import Plan

THREADS = (64, 128, 256, 512, 1024)


def apply(plan: Plan) -> Iterator[Plan]:
    for kernel in plan.kernels:
        for threads in THREADS:
            if threads != kernel.schedule.threads and kernel.schedule.cluster == 1:
                shaped = replace(kernel, schedule=replace(kernel.schedule, threads=threads))
                yield plan.with_kernel(kernel, shaped)
