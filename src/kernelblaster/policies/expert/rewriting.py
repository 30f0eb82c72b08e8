"""How a rewrite of one kernel becomes rewrites of a plan."""

from collections.abc import Callable, Iterator
from itertools import islice

from kernelblaster.policies.expert.plan import Kernel, Plan

Rewrite = Callable[[Kernel, Plan], Kernel | None]
MOST = 8  # plans that a technique yields


def everywhere(plan: Plan, *rewrites: Rewrite) -> Iterator[Plan]:
    """For each rewrite, the plan with every kernel changed to which it applies; then, by the first one,
    with one of them at a time, those with the most elements first."""
    return islice(_everywhere(plan, rewrites), MOST)


def _everywhere(plan: Plan, rewrites: tuple[Rewrite, ...]) -> Iterator[Plan]:
    for rewrite in rewrites:
        found = {id(old): new for old, new in _changed(plan, rewrite)}
        if found:
            yield plan.with_kernels(tuple(found.get(id(kernel), kernel) for kernel in plan.kernels))
    singly = _changed(plan, rewrites[0])
    if len(singly) > 1:
        for old, new in sorted(singly, key=lambda pair: -plan.elements(pair[0].axes + pair[0].reduced)):
            yield plan.with_kernel(old, new)


def _changed(plan: Plan, rewrite: Rewrite) -> list[tuple[Kernel, Kernel]]:
    return [(kernel, new) for kernel in plan.kernels if (new := rewrite(kernel, plan)) is not None]
