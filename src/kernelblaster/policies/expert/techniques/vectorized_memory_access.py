"""Vectorized memory access: a thread of a pointwise kernel moves 16 bytes in one instruction.

Tensors and scratch begin at multiples of 256 bytes, so that packs of neighbours are aligned at
every size; what is left after the last full pack is done singly.
"""

from collections.abc import Iterator
from dataclasses import replace

from kernelblaster.policies.expert.families.pointwise import packable, whole_position
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.records.signature import DTYPE_BYTES

BYTES = 16


def apply(plan: Plan) -> Iterator[Plan]:
    for kernel in plan.kernels:
        width = _width(kernel, plan)
        if width > 1:
            wider = replace(kernel, schedule=replace(kernel.schedule, vector_width=width))
            yield plan.with_kernel(kernel, wider)


def _width(kernel: Kernel, plan: Plan) -> int:
    """Elements of the widest type in 16 bytes; one where the kernel cannot be vectorized."""
    if kernel.family != "pointwise" or kernel.schedule.vector_width > 1:
        return 1
    if not kernel.axes or whole_position(kernel, plan) is None or not packable(kernel, plan):
        return 1
    moved = (*packable(kernel, plan), *kernel.writes)
    return BYTES // max(DTYPE_BYTES[plan.buffers[name].dtype] for name in moved)
