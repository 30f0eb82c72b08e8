"""Single-pass (online) reduction: a variance, which needs the mean, is computed in the same pass as the mean;
the sum of a softmax, which needs the maximum, in the same pass as the maximum.

The sum of squared differences from the mean is computed from the sum and the sum of squares, both in double.
The sum of exponentials of differences from the maximum is rescaled whenever a larger value comes.
"""

from dataclasses import replace
from typing import get_args

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.combines.arithmetic import MAX, SUM
from kernelblaster.policies.expert.combines.moments import MOMENTS
from kernelblaster.policies.expert.combines.online_softmax import ONLINE_SOFTMAX
from kernelblaster.policies.expert.expression import Counted, Expression, Operation, Reduced, to_kind
from kernelblaster.policies.expert.kernel import Kernel, Stage
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.row_kernel import passes
from kernelblaster.policies.expert.schedules.columns import Columns
from kernelblaster.policies.expert.schedules.rows import RowReduction

APPLIES_TO = get_args(RowReduction | Columns)


def single_pass(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> Kernel | No:
    """Returns `kernel`, a kernel of `plan`, with fewer passes over its rows or columns, because a variance no
    longer waits for the mean, or a softmax's sum for the maximum. `No`, with the reason, if the kernel
    computes in double precision, or if none of its reductions is of this kind."""
    if plan.real == "double":
        return No("squares of double precision would need more than double")
    stages = tuple(_single_pass(stage, kernel) for stage in kernel.stages)
    changed = replace(kernel, stages=stages)
    if len(passes(changed)) == len(passes(kernel)):
        return No("no stage is a variance or a sum of exponentials that waits for an earlier one")
    return changed


def _single_pass(stage: Stage, kernel: Kernel) -> Stage:
    before = {found.name: found for found in kernel.stages}
    body = stage.body
    if stage.combine != SUM or not isinstance(body, Operation):
        return stage
    if body.name == "exp":
        element, largest = _difference(body.operands[0])
        known = before.get(largest.stage) if isinstance(largest, Reduced) else None
        if known is not None and (known.combine, known.body) == (MAX, element):
            return replace(stage, combine=ONLINE_SOFTMAX, body=element)
    if body.name == "mul" and body.operands[0] == body.operands[1]:
        element, middle = _difference(body.operands[0])
        sums = [s for s in kernel.stages if s.combine == SUM and s.body == element]
        if any(middle == _mean(s, kernel) for s in sums):
            return replace(stage, combine=MOMENTS, body=element)
    return stage


def _difference(expression: Expression) -> tuple[Expression, Expression | None]:
    if isinstance(expression, Operation) and expression.name == "sub":
        return expression.operands[0], expression.operands[1]
    return expression, None


def _mean(stage: Stage, kernel: Kernel) -> Expression:
    count = indices.product(axis.extent for axis in kernel.reduced)
    return Operation("div", (Reduced(stage.name, "real"), to_kind(Counted(count), "real")), "real")


REWRITES = (single_pass,)
