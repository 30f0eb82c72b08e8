"""Cache hints: what is read or written once passes the caches by, so that they keep what is used again."""

from collections.abc import Iterator
from dataclasses import replace

from kernelblaster.policies.expert.families.reduction import FAMILIES, is_rows
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.rewriting import everywhere


def apply(plan: Plan) -> Iterator[Plan]:
    yield from everywhere(plan, _streaming)


def _streaming(kernel: Kernel, plan: Plan) -> Kernel | None:
    schedule = kernel.schedule
    reducing = kernel.family in FAMILIES and (schedule.workers == "tile" or is_rows(kernel))
    mapping = kernel.family == "pointwise" and (schedule.workers != "thread" or schedule.vector_width > 1)
    if schedule.streaming or not (reducing or mapping):
        return None
    return replace(kernel, schedule=replace(schedule, streaming=True))
