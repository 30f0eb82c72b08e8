"""Algebraic simplification: the plan of a graph that computes the same for less work.

The rules rewrite graphs (simplify.py), so it applies to a plan that is still the initial one of its
graph; what was fused or tiled before is not taken apart again.
"""

from collections.abc import Iterator

from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.simplify import simplify


def apply(plan: Plan) -> Iterator[Plan]:
    if plan.graph is None:
        return
    simpler = simplify(plan.graph)
    if simpler.nodes != plan.graph.nodes:
        yield initial_plan(simpler)
