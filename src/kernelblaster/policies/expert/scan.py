"""Reverses scans (cumsum and the like) that run backwards through memory, so that techniques which
parallelize scans need to handle one direction only."""

from dataclasses import replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.combines.prefix import Prefix
from kernelblaster.policies.expert.expression import (
    Counted,
    Expression,
    Gather,
    Load,
    address,
    loads,
    move,
    rebuild,
)
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel, Stage, Store
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.polynomial import polynomial


def in_memory_order(kernel: Kernel, plan: Plan) -> Kernel:
    """Returns the scan `kernel`, a kernel of `plan`, with its loop in the order of memory. A scan that reads
    a tensor backwards, such as a cumsum of a flipped tensor, becomes a scan of the tensor itself from its
    last element to its first; any other scan is returned unchanged."""
    (scanned,) = kernel.reduced
    steps = {_step(load, scanned.name, plan) for stage in kernel.stages for load in loads(stage.body)}
    if steps - {0} != {-1}:
        return kernel
    last = indices.subtract(scanned.extent, indices.ONE)
    values = {scanned.name: indices.subtract(last, scanned.index)}

    def simple(index: Index) -> Index:
        return polynomial(indices.replace(index, values)).index()

    def changed(expression: Expression) -> Expression:
        return rebuild(move(expression, values), _simplified)

    def turned(stage: Stage) -> Stage:
        combine = stage.combine
        assert isinstance(combine, Prefix)
        return replace(stage, combine=replace(combine, reverse=not combine.reverse))

    def moved(store: Store) -> Store:
        return replace(store, position=tuple(simple(index) for index in store.position))

    turned_kernel = kernel.changed(changed)
    return replace(
        turned_kernel,
        stages=tuple(map(turned, turned_kernel.stages)),
        stores=tuple(map(moved, turned_kernel.stores)),
    )


def _simplified(part: Expression) -> Expression:
    if isinstance(part, Load | Gather):
        return replace(part, position=tuple(polynomial(index).index() for index in part.position))
    return replace(part, index=polynomial(part.index).index()) if isinstance(part, Counted) else part


def _step(load: Load | Gather, along: str, plan: Plan) -> int | None:
    """By how many elements the load's address grows with each step of the loop `along`; 0 if it does not
    depend on it, None if the step is no constant."""
    form = polynomial(address(load, plan.buffers[load.buffer].shape))
    steps = [
        (n, factors)
        for n, factors in form.terms
        if any(along in indices.names(factor.index) for factor in factors)
    ]
    if not steps:
        return 0
    (n, factors), *others = steps
    return n if not others and len(factors) == 1 and factors[0].index == indices.variable(along) else None
