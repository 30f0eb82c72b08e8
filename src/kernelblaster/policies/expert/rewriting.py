"""Applies rewrites of single kernels to a whole plan, for the techniques.

A rewrite is a function that returns the changed kernel, or `No` with the reason why it does not apply to that
kernel. It is called only for kernels whose schedule (layout on the GPU) has a type that the technique is for.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan

MOST = 8  # plans that a technique yields


@dataclass(frozen=True)
class No:
    """Returned in place of a changed kernel if a technique does not apply to the kernel. `because` is the
    reason, as the end of a sentence that begins with "because"."""

    because: str


Rewrite = Callable[[Kernel, Plan, GpuSpec], Kernel | No]
PlanRewrite = Callable[[Kernel, Plan, GpuSpec], Plan | No]


def everywhere(
    plan: Plan, gpu: GpuSpec, types: tuple[type, ...], rewrites: Sequence[Rewrite], *, singly: bool = True
) -> Iterator[Plan]:
    """Yields up to eight plans (MOST) in which kernels are changed by one of `rewrites`: functions (kernel,
    plan, `gpu`) that return a changed kernel, or `No` if they do not apply to it. Only kernels with a
    schedule (layout on the GPU) of one of `types` are tried. First comes one plan for each rewrite, in which
    the rewrite has changed every kernel to which it applies. If `singly`, and if the first rewrite applies to
    several kernels, plans follow in which it has changed only one of these: first the kernel with the most
    elements."""

    def changed(rewrite: Rewrite) -> list[tuple[Kernel, Kernel]]:
        known = [kernel for kernel in plan.kernels if isinstance(kernel.schedule, types)]
        return [(old, new) for old in known if isinstance(new := rewrite(old, plan, gpu), Kernel)]

    def plans() -> Iterator[Plan]:
        for rewrite in rewrites:
            found = {id(old): new for old, new in changed(rewrite)}
            if found:
                yield plan.with_kernels(tuple(found.get(id(kernel), kernel) for kernel in plan.kernels))
        alone = changed(rewrites[0]) if singly else []
        if len(alone) > 1:
            for old, new in sorted(alone, key=lambda pair: -plan.elements(pair[0].axes + pair[0].reduced)):
                yield plan.with_kernel(old, new)

    return islice(plans(), MOST)


def one_after_another(
    plan: Plan, gpu: GpuSpec, types: tuple[type, ...], rewrites: Sequence[PlanRewrite]
) -> Iterator[Plan]:
    """Yields one plan for each of `rewrites`: functions (kernel, plan, `gpu`) that return a whole plan,
    because they replace one kernel by several, or `No` if they do not apply. A rewrite is applied, in one
    plan, to every kernel with a schedule (layout on the GPU) of one of `types`, one after another. If it
    applies to none, no plan is yielded for it."""
    for rewrite in rewrites:
        changed = plan
        for kernel in plan.kernels:
            if isinstance(kernel.schedule, types):
                found = rewrite(kernel, changed, gpu)
                changed = found if isinstance(found, Plan) else changed
        if changed is not plan:
            yield changed
