"""Fast math: cheaper arithmetic, as far as the judge's precision rule allows it.

Where all elements of a row are divided by the same number, they are multiplied by its reciprocal instead,
which is computed once. And running sums are kept in float instead of double. That loses little if a block's
threads each sum a part. A long sum by one thread may lose too much precision; the judge then rejects the
candidate.
"""

from dataclasses import replace
from typing import get_args

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.combines.arithmetic import SUM
from kernelblaster.policies.expert.combines.moments import MOMENTS
from kernelblaster.policies.expert.expression import Expression, Number, Operation, real, rebuild, used_names
from kernelblaster.policies.expert.kernel import Kernel, Stage
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.products import Product
from kernelblaster.policies.expert.schedules.reductions import Accumulating
from kernelblaster.policies.expert.schedules.rows import TunedRows

APPLIES_TO = get_args(Accumulating | Product)


def _both(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> Kernel | No:
    first = _reciprocal(kernel, plan, gpu)
    return first if isinstance(first, Kernel) else _single(kernel, plan, gpu)


def _single(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> Kernel | No:
    if _double(plan):
        return No("its results are double precision")
    schedule = kernel.schedule
    if not isinstance(schedule, Accumulating) or schedule.accumulate == "float":
        return No("its sums are in float already, and it divides by nothing that is the same for a row")
    if not _sums(kernel):
        return No("it has no sum of float32 numbers of its own")
    return replace(kernel, schedule=replace(schedule, accumulate="float"))


def _sums(kernel: Kernel) -> list[Stage]:
    """The kernel's sums of floating-point numbers (among its stages, the reductions) whose accumulator type
    matters. Left out are, in row kernels, sums that a variance over the same numbers computes anyway."""
    known = [stage.body for stage in kernel.stages if stage.combine == MOMENTS]
    given = known if isinstance(kernel.schedule, TunedRows) else []
    sums = [stage for stage in kernel.stages if stage.combine == SUM and stage.body.kind == "real"]
    return [stage for stage in sums if stage.body not in given]


def _reciprocal(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> Kernel | No:
    """The kernel with divisions of a row's elements by a number that is the same for the whole row replaced:
    by a multiplication by its reciprocal, computed once per row. `No`, with the reason, if there is none or
    results are double precision."""
    if _double(plan):
        return No("its results are double precision")
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

    changed = kernel.changed(lambda expression: rebuild(expression, change))
    return changed if changed != kernel else No("it divides by nothing that is the same for a row")


def _double(plan: Plan) -> bool:
    return any(output.dtype == "float64" for output in plan.signature.outputs)


REWRITES = (_both, _reciprocal, _single)
