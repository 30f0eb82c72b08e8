"""Fast math: cheaper arithmetic where the judge's precision rule allows it.

A division by what is the same for a whole row becomes a multiplication by its reciprocal, which is
found once. And running sums are kept in float instead of double: a block's sum is a tree of partial
sums, which float carries well; a long sum by one thread may not pass, and then the judge says so.
"""

from collections.abc import Iterator
from dataclasses import replace

from kernelblaster.policies.expert.expression import Expression, Number, Operation, real, rebuild
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.render import used_names
from kernelblaster.policies.expert.rewriting import everywhere


def apply(plan: Plan) -> Iterator[Plan]:
    if any(output.dtype == "float64" for output in plan.signature.outputs):
        return
    yield from everywhere(plan, _both, _reciprocal, _single)


def _both(kernel: Kernel, plan: Plan) -> Kernel | None:
    first = _reciprocal(kernel, plan)
    return first if first is not None else _single(kernel, plan)


def _single(kernel: Kernel, plan: Plan) -> Kernel | None:
    if not kernel.stages or kernel.schedule.accumulate == "float":
        return None
    return replace(kernel, schedule=replace(kernel.schedule, accumulate="float"))


def _reciprocal(kernel: Kernel, plan: Plan) -> Kernel | None:
    """The kernel with multiplications in the place of divisions of every element by one number."""
    reduced = {axis.name for axis in kernel.reduced}

    def change(part: Expression) -> Expression:
        if not isinstance(part, Operation) or part.name != "div" or part.kind != "real":
            return part
        left, right = part.operands
        if (
            isinstance(right, Number)
            or used_names([right], []) & reduced
            or not used_names([left], []) & reduced
        ):
            return part
        return Operation("mul", (left, Operation("div", (real(1), right), "real")), "real")

    stages = tuple(replace(stage, body=rebuild(stage.body, change)) for stage in kernel.stages)
    stores = tuple(replace(store, value=rebuild(store.value, change)) for store in kernel.stores)
    changed = replace(kernel, stages=stages, stores=stores)
    return changed if changed != kernel else None
