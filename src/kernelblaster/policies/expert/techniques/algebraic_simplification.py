"""Algebraic simplification: replaces a plan by the plan of an equivalent graph of operators that takes less
work.

The rules (simplify.py) rewrite the graph of operators, not kernels. Therefore the technique applies only to a
plan that no other technique has changed yet: the graph cannot be recovered from kernels that were fused or
tiled.
"""

from collections.abc import Iterator

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules import all_schedules
from kernelblaster.policies.expert.simplify import simplify

APPLIES_TO = all_schedules()


def apply(plan: Plan, gpu: GpuSpec) -> Iterator[Plan]:
    if why_not(plan) is None:
        assert plan.graph is not None
        yield initial_plan(simplify(plan.graph))


def why_not(plan: Plan) -> str | None:
    if plan.graph is None:
        return "other techniques have changed the plan, and its graph is not taken apart again"
    same = simplify(plan.graph).nodes == plan.graph.nodes
    return "no rule finds anything to simplify in its graph" if same else None
