"""Recognizes transposed convolutions with a stride, and tells which elements of the operand and of the
filters are multiplied for which results.

Along each dimension of the images, the result with the index i belongs to a cell and has a phase, by a fixed
number `ahead`: i + ahead = cell * stride + phase. All results of a cell read the same elements of the
operand, those with the indices cell - tap * step, where the tap counts the elements. Results that differ in
their phase multiply them by different elements of the filters; some taps add nothing to some phases.
"""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.combines.arithmetic import SUM
from kernelblaster.policies.expert.expression import Counted, Expression, Load, Operation, move, used_names
from kernelblaster.policies.expert.gathered_element import gathered_element
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.operators.views import inside
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.polynomial import polynomial

COMPARED: dict[str, Callable[[int, int], bool]] = {
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ge": operator.ge,
}


@dataclass(frozen=True)
class Dimension:
    """One dimension of the images of a transposed convolution: which elements of the operand a result reads
    along it. Results are taken together in cells, runs of `stride` neighbours: the result with the index
    i of `axis` belongs to the cell number (i + `ahead`) / `stride`, and its phase is the remainder. It
    reads the elements with the indices cell - tap * `step`. The tap is the variable of the loop `taps`,
    which has `reads` iterations. The operand has `extent` elements."""

    axis: Axis
    stride: int
    ahead: int
    taps: Axis
    reads: int
    step: int
    extent: Index

    @property
    def reach(self) -> int:
        """How many elements before that with the number of its cell a result reads the operand, at most. A
        cell is a run of `stride` neighbouring results; see the class."""
        return (self.reads - 1) * self.step

    @property
    def first(self) -> int:
        """The number of the cell to which the first result (index 0) belongs: `ahead` / `stride`. A cell is a
        run of `stride` neighbouring results that read the same elements, with different filter elements."""
        return self.ahead // self.stride

    @property
    def cells(self) -> Index:
        """How many cells (runs of `stride` neighbouring results) there are from that of the first result to
        that of the last, as a symbolic index."""
        last = indices.add(self.axis.extent, indices.number(self.ahead + self.stride - 1))
        whole = indices.divide(last, indices.number(self.stride))
        return indices.subtract(whole, indices.number(self.first))


Phase = tuple[int, ...]


@dataclass(frozen=True)
class Phases:
    """A transposed convolution with a stride: results[images, rows, dimensions] = sum over the input channels
    (the axis `channel`) and the taps of all `dimensions` of `element` * `filters`. Only the operand depends
    on the axes `images`, only the filters on `rows`, the output channels. `element` is the expression of what
    the load `source` reads; it is 0 outside of the operand. `taken` has the pairs (phase, taps), each with a
    number for each dimension, whose products are added; those of other pairs are left out, as they are 0."""

    images: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    dimensions: tuple[Dimension, ...]
    channel: Axis
    source: Load
    element: Expression
    filters: Expression
    taken: frozenset[tuple[Phase, Phase]]

    @property
    def phases(self) -> list[Phase]:
        """All phases in row-major order. Each is a tuple with a number for each dimension, from 0 to below
        its stride."""
        return list(product(*(range(dimension.stride) for dimension in self.dimensions)))

    @property
    def live(self) -> list[Phase]:
        """Those phases to whose results at least one product is added. The sums of all other phases are 0."""
        with_taps = {phase for phase, _ in self.taken}
        return [phase for phase in self.phases if phase in with_taps]

    @property
    def outer(self) -> tuple[Dimension, ...]:
        """The dimensions other than `last`."""
        return self.dimensions[:-1]

    @property
    def last(self) -> Dimension:
        """The dimension along which neighbouring elements of the operand are neighbours in memory."""
        return self.dimensions[-1]


def as_phases(kernel: Kernel, plan: Plan) -> Phases | str:
    """Returns `kernel`, a kernel of `plan`, described as a transposed convolution with a stride: its axes by
    their meaning, its operand, its filters, and which of their elements are multiplied. If it is something
    else, returns the reason as text, the end of a sentence that begins with "because"."""
    body = kernel.stages[0].body if len(kernel.stages) == 1 else None
    plain = not any(store.over for store in kernel.stores) and kernel.steps is None
    if not isinstance(body, Operation) or body.name != "mul" or kernel.stages[0].combine != SUM or not plain:
        return "it is no sum of products of two factors"
    for source, filters in (body.operands, body.operands[::-1]):
        found = _described(kernel, plan, source, filters)
        if isinstance(found, Phases):
            return found
    return _described(kernel, plan, *body.operands)


def _described(kernel: Kernel, plan: Plan, source: Expression, filters: Expression) -> Phases | str:
    element = gathered_element(source)
    if element is None:
        return "its operand is computed on the way, and only elements as they are can be gathered"
    read = _read(kernel, plan, element.load)
    if isinstance(read, str):
        return read
    channel, dimensions = read
    if not any(dimension.stride > 1 for dimension in dimensions):
        return "it is no transposed convolution with a stride"
    axes = [axis for axis in kernel.axes if not axis.once]
    here, there = used_names([element.load], []), used_names([filters], [])
    sliding = {dimension.axis.name for dimension in dimensions}
    images = tuple(axis for axis in axes if axis.name in here - there - sliding)
    rows = tuple(axis for axis in axes if axis.name in there - here)
    whole = {axis.name for axis in (*images, *rows)} | sliding == {axis.name for axis in axes}
    if not whole or not rows or len(sliding) < len(dimensions):
        return "its channels are in groups"
    bounds = [test for d, at in _places(element.load, dimensions) for test in inside(at, d.extent)]
    taken = _taken(dimensions, [test for test in element.conditions if test not in bounds])
    if taken is None:
        return "which of its taps belong to which results is known only when it runs"
    return Phases(images, rows, tuple(dimensions), channel, element.load, source, filters, taken)


def _read(kernel: Kernel, plan: Plan, load: Load) -> tuple[Axis, list[Dimension]] | str:
    """Returns (the axis of the operand's channels, its dimensions in which windows slide), or why it is not
    read at [images, channel, dimensions]."""
    axes = [axis for axis in kernel.axes if not axis.once]
    summed = [axis for axis in kernel.stages[0].axes if not axis.once]
    position = list(load.position)
    images = [axis.index for axis in axes]
    while position and (position[0] in images or position[0] == indices.ZERO):
        del position[0]
    channel = next((axis for axis in summed if position and axis.index == position[0]), None)
    if channel is None:
        grouped = position and indices.names(position[0]) & {axis.name for axis in summed}
        return "its channels are in groups" if grouped else "it does not sum over channels"
    found: list[Dimension] = []
    shape = plan.buffers[load.buffer].shape
    for index, extent in zip(position[1:], shape[len(shape) - len(position) + 1 :], strict=True):
        dimension = _dimension(kernel, index, extent, axes)
        if dimension is None:
            return "its windows do not slide over cells of results"
        found.append(dimension)
    taps = {dimension.taps.name for dimension in found} | {channel.name}
    return (channel, found) if {axis.name for axis in summed} <= taps else "it sums over further axes"


def _places(load: Load, dimensions: list[Dimension]) -> Iterator[tuple[Dimension, Index]]:
    return zip(dimensions, load.position[len(load.position) - len(dimensions) :], strict=True)


def _dimension(kernel: Kernel, index: Index, extent: Index, axes: list[Axis]) -> Dimension | None:
    """How windows slide along the dimension in which the operand is read at `index`; None if they do not."""
    form = polynomial(index)
    cells = [atom.index for atom in form.atoms() if atom.index.operator == "/"]
    taps = [axis for axis in kernel.stages[0].axes if axis.name in indices.names(index)]
    moving = [axis for axis in axes if axis.name in indices.names(index)]
    if len(moving) != 1 or len(taps) > 1 or len(cells) > 1:
        return None
    (axis,), stride, cell = moving, 1, form
    if cells:
        if cells[0].operands[1].operator != "int":
            return None
        stride, cell = cells[0].operands[1].value, polynomial(cells[0].operands[0])
    tap = taps[0] if taps else Axis("tap", indices.ONE)
    if tap.extent.operator != "int":
        return None
    zero = {tap.name: indices.ZERO}
    rest = form - polynomial(cells[0]) if cells else form - polynomial(indices.replace(index, zero))
    ahead = polynomial(indices.replace(cell.index(), zero)) - polynomial(axis.index)
    back = -rest
    step = polynomial(indices.replace(back.index(), {tap.name: indices.ONE})).number
    straight = step is not None and back == polynomial(indices.multiply(tap.index, indices.number(step)))
    if ahead.number is None or ahead.number < 0 or not straight or step is None or (taps and step < 1):
        return None
    reads = tap.extent.value
    return Dimension(axis, stride, ahead.number, tap, reads, step if taps else 1, extent)


def _taken(dimensions: list[Dimension], tests: list[Expression]) -> frozenset[tuple[Phase, Phase]] | None:
    """The pairs of a phase and a point of the taps for which all `tests` hold; None if tests depend on
    something else."""
    phases = list(product(*(range(dimension.stride) for dimension in dimensions)))
    points = list(product(*(range(dimension.reads) for dimension in dimensions)))
    if len(phases) * len(points) > 1 << 14:
        return None
    found = set()
    for phase, point in product(phases, points):
        values = {d.axis.name: indices.number(p - d.ahead) for d, p in zip(dimensions, phase, strict=True)}
        values |= {d.taps.name: indices.number(w) for d, w in zip(dimensions, point, strict=True)}
        answers = [_holds(move(test, values)) for test in tests]
        if None in answers:
            return None
        if all(answers):
            found.add((phase, point))
    return frozenset(found)


def _holds(test: Expression) -> bool | None:
    """Whether a comparison of two numbers holds; None if it is not one."""
    if not isinstance(test, Operation) or test.name not in COMPARED:
        return None
    left, right = (part.index if isinstance(part, Counted) else None for part in test.operands)
    if left is None or right is None or left.operator != "int" or right.operator != "int":
        return None
    return COMPARED[test.name](left.value, right.value)
