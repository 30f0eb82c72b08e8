"""Recognizes kernels that are sums of products over several axes, such as convolutions, and tells which of
their axes are rows, columns, batch and K (summed) axes, as in a matrix product."""

from dataclasses import dataclass

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.combines.arithmetic import SUM
from kernelblaster.policies.expert.expression import Expression, Operation, used_names
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.gathered import GatheredHalves

SHORTEST = 16  # terms of the inner K axes, at least, where there are so many and the schedule says no other


@dataclass(frozen=True)
class Contraction:
    """A sum of products over several axes, such as a convolution: results[batch, rows, columns] = sum over
    `outer` and `inner` of left[batch, rows, outer, inner] * right[batch, columns, outer, inner]; `left` and
    `right` are the expressions of their elements. The last axis of the results, along which they are
    contiguous in memory, is one of `columns`.

    `outer` and `inner` are the summed (K) axes: those of an outer and of an inner loop. `inner` has the
    longest K axes, no more of them than are needed for at least 16 iterations together; all K axes if even
    these have fewer. (For a kernel with the schedule `GatheredHalves`, the number is its field `inner_terms`
    instead of 16.) `outer` has the other K axes.
    """

    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    left: Expression
    right: Expression

    @property
    def k_axes(self) -> tuple[Axis, ...]:
        return self.outer + self.inner


def as_contraction(kernel: Kernel, plan: Plan) -> Contraction | None:
    """Returns which axes of `kernel`, a kernel of `plan`, are rows, columns, batch and K (summed) axes, and
    the expressions of its two factors, if it is a sum of products of two factors. None if it computes
    something else. Also None unless each factor has an axis of its own: an axis of the results on which the
    other factor does not depend."""
    if len(kernel.stages) != 1 or kernel.stages[0].combine != SUM or any(s.over for s in kernel.stores):
        return None
    body = kernel.stages[0].body
    if not isinstance(body, Operation) or body.name != "mul" or body.kind != "real":
        return None
    left, right = body.operands
    here, there = (used_names([operand], []) for operand in body.operands)
    k_axes = [axis for axis in kernel.stages[0].axes if not axis.once]
    if not k_axes or any(axis.name not in here | there or axis.part for axis in k_axes):
        return None
    axes = [axis for axis in kernel.axes if not axis.once]
    rows = tuple(axis for axis in axes if axis.name in here - there)
    columns = tuple(axis for axis in axes if axis.name in there - here)
    if not rows or not columns:
        return None
    if max(rows + columns, key=axes.index) in rows:
        left, right, rows, columns = right, left, columns, rows
    batch = tuple(axis for axis in axes if axis not in rows + columns)
    schedule = kernel.schedule
    shortest = schedule.inner_terms if isinstance(schedule, GatheredHalves) else SHORTEST
    outer, inner = _ordered(k_axes, plan, shortest)
    return Contraction(batch, rows, columns, outer, inner, left, right)


def _ordered(k_axes: list[Axis], plan: Plan, shortest: int) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """The K (summed) axes sorted from short to long and split into (outer, inner): inner are the last ones
    that have at least `shortest` terms together, all of them when there are fewer."""
    ordered = sorted(k_axes, key=lambda axis: plan.extent(axis.extent))
    for place in reversed(range(len(ordered))):
        inner = tuple(ordered[place:])
        if plan.elements(inner) >= shortest:
            return tuple(ordered[:place]), inner
    return (), tuple(ordered)


def extent(axes: tuple[Axis, ...]) -> Index:
    return indices.product(axis.extent for axis in axes)


def number(axes: tuple[Axis, ...]) -> Index:
    """Returns the row-major linear index of a point of `axes` (the last axis varies fastest), as a symbolic
    index."""
    return indices.row_major((axis.index for axis in axes), (axis.extent for axis in axes))
