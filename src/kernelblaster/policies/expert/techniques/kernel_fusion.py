"""Kernel fusion: two kernels, of which one reads what the other stores, become one that keeps these values in
registers.

In the first plan that the technique yields, everything is fused that can be (fusion.py); in each further
plan, one pair of kernels. Scratch buffers that no kernel reads any more are removed, and their memory traffic
with them.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, permutations
from typing import get_args

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.fusion import (
    into_consumers,
    into_producer,
    into_products,
    is_sole_reader,
    picked,
    side_by_side,
)
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.pointwise import Pointwise
from kernelblaster.policies.expert.schedules.products import Product
from kernelblaster.policies.expert.schedules.reductions import Reduction
from kernelblaster.policies.expert.schedules.scans import Scan

APPLIES_TO = get_args(Pointwise | Reduction | Product | Scan)
MOST = 8  # plans in all


def apply(plan: Plan, gpu: GpuSpec) -> Iterator[Plan]:
    whole = plan
    while (further := next(_single(whole), None)) is not None:
        whole = further
    if whole is not plan:
        yield whole
        yield from islice((found for found in _single(plan) if found != whole), MOST - 1)


def why_not(plan: Plan) -> str | None:
    fused = next(_single(plan), None)
    return "no two kernels share elements that one of them could hand over" if fused is None else None


def _single(plan: Plan) -> Iterator[Plan]:
    """The plans with one fusion of two kernels each, those that usually save most traffic first: a product
    with the only kernel that reads its result, then pointwise kernels into their readers, then a reduction
    with what follows it, kernels that read the same data, and last what comes before a product."""
    reads = {kernel.name: set(kernel.reads) for kernel in plan.kernels}
    pairs = list(permutations(plan.kernels, 2))
    linked = [(one, two) for one, two in pairs if not reads[two.name].isdisjoint(one.writes)]
    alike = [(one, two) for one, two in pairs if not reads[one.name].isdisjoint(reads[two.name])]
    products = [pair for pair in linked if isinstance(pair[0].schedule, Product)]
    attempts: tuple[tuple[Callable[..., Plan | None], Iterable[tuple[Kernel, ...]]], ...] = (
        (into_producer, (pair for pair in products if is_sole_reader(plan, *pair))),
        (into_consumers, zip(plan.kernels)),
        (into_producer, linked),
        (picked, linked),
        (side_by_side, alike),
        (into_products, zip(plan.kernels)),
    )
    for rewrite, several in attempts:
        found = (rewrite(plan, *kernels) for kernels in several)
        yield from (fused for fused in found if fused is not None)
