"""Transposed staging: a tensor that lies along another loop than the result is read along memory into
shared memory, turned there, and written along memory."""

from collections.abc import Iterator
from dataclasses import replace

from kernelblaster.policies.expert.families.transposed import turned
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.rewriting import everywhere


def apply(plan: Plan) -> Iterator[Plan]:
    yield from everywhere(plan, _staged)


def _staged(kernel: Kernel, plan: Plan) -> Kernel | None:
    plain = kernel.schedule.workers == "thread" and kernel.schedule.vector_width == 1
    if kernel.family != "pointwise" or kernel.schedule.staged or not plain or turned(kernel, plan) is None:
        return None
    return replace(kernel, schedule=replace(kernel.schedule, staged=True))
