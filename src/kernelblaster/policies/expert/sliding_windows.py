"""Recognizes reductions over sliding windows, as in poolings and depthwise convolutions. The window of a
result consists of the elements of the operand from which it is computed; the windows of neighbouring results
begin a fixed number of elements apart. The number of an element within its window is called its tap, as in a
filter."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.expression import (
    Counted,
    Expression,
    Gather,
    Load,
    Number,
    Operation,
    Reduced,
    address,
    children,
    loads,
    operation,
    real,
    rebuild,
    used_names,
    walk,
)
from kernelblaster.policies.expert.gathered_element import conjuncts
from kernelblaster.policies.expert.index import ZERO, Index
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.polynomial import polynomial
from kernelblaster.policies.expert.proofs import alignment
from kernelblaster.policies.expert.vector_access import VECTOR_BYTES
from kernelblaster.records.signature import DTYPE_BYTES

ELEMENT = "element"  # the name by which a stage's body refers to the window's element


@dataclass(frozen=True)
class Slide:
    """How windows lie along one dimension of the operand (the window of a result is the set of the operand's
    elements from which it is computed). Element w of the window of result r is the operand's element r *
    stride + w * step + offset. `result` is the loop over r, `tap` the loop over w, None if windows have a
    single element along this dimension. The property `place` is a variable that can stand for that index in
    expressions."""

    result: Axis
    tap: Axis | None
    stride: int
    step: int
    offset: int

    @property
    def taps(self) -> int:
        return self.tap.extent.value if self.tap else 1

    @property
    def place(self) -> Axis:
        return Axis(f"{self.result.name}_place", self.result.extent)

    @property
    def index(self) -> Index:
        """The index of an element in the operand, as a symbolic index in two loop variables: r * stride + w *
        step + offset for element w of the window of result r."""
        tap = self.tap.index if self.tap else ZERO
        found = indices.add(_times(self.result.index, self.stride), _times(tap, self.step))
        return indices.add(found, indices.number(self.offset))

    @property
    def reach(self) -> int:
        """How far the last element of a window lies behind its first along this dimension, in elements of the
        operand."""
        return (self.taps - 1) * self.step

    def span(self, results: int) -> int:
        """Returns how many elements of the operand lie under the windows of `results` neighbouring results
        together, along this dimension: from the first element of the first window to the last element of the
        last one."""
        return (results - 1) * self.stride + self.reach + 1


@dataclass(frozen=True)
class SlidingWindows:
    """A reduction over sliding windows, such as a pooling: the window of a result is the set of the operand's
    elements from which it is computed. It is described so that one thread can compute several neighbouring
    results. Windows slide along the dimensions `lines` and along `column`, the dimension that is contiguous
    in memory.

    An element of a window is `value` where all of `tests` hold, otherwise the number `outside` (as in
    padding). `value` and `tests` are expressions in the variables `place` of `lines` and `column` (see
    `Slide`), which stand for the element's indices in the operand. `body` is the expression that is summed
    (or combined otherwise) for each element; in it, Reduced(ELEMENT) stands for the element. `vectors` are
    the loads in `value` that are contiguous along memory. They can be vectors if their width divides all of
    `divisors`."""

    lines: tuple[Slide, ...]
    column: Slide
    tests: tuple[Expression, ...]
    value: Expression
    outside: Number
    body: Expression
    vectors: tuple[Load, ...]
    divisors: tuple[Index, ...]

    @property
    def slides(self) -> tuple[Slide, ...]:
        return (*self.lines, self.column)

    def grain(self, plan: Plan) -> int:
        """Returns how many neighbouring elements a thread can read with one instruction, at most 16 bytes: 16
        divided by the size in bytes of the widest element that one of `vectors` reads, such as 4 for
        float32."""
        return VECTOR_BYTES // max(DTYPE_BYTES[plan.buffers[load.buffer].dtype] for load in self.vectors)


def sliding_windows(kernel: Kernel, plan: Plan) -> SlidingWindows | None:
    """Returns how windows lie along each dimension in `kernel`, a kernel of `plan`, and the expressions of
    their elements, if the kernel is a reduction over sliding windows, such as a pooling or a depthwise
    convolution. None if it computes something else, or if its windows do not slide along the dimension that
    is contiguous in memory."""
    axes = [axis for axis in kernel.axes if not axis.once]
    if len(kernel.stages) != 1 or kernel.stages[0].over or any(store.over for store in kernel.stores):
        return None
    stage = kernel.stages[0]
    if not axes or any(axis.extent.operator != "int" or axis.part for axis in stage.axes):
        return None
    found = _slides(stage.body, axes, stage.axes)
    if found is None or axes[-1].name not in found:
        return None
    ordered = [found[axis.name] for axis in axes if axis.name in found]
    element = _element(stage.body, ordered)
    if element is None:
        return None
    return _with_element(kernel, plan, tuple(ordered), element)


def _times(index: Index, by: int) -> Index:
    return indices.multiply(index, indices.number(by))


def _slides(body: Expression, axes: list[Axis], taps: tuple[Axis, ...]) -> dict[str, Slide] | None:
    """How the windows lie along each dimension in which they have several elements, and along the last axis
    of the results: a `Slide` by the name of the results' axis. `body` is the expression that is reduced,
    `axes` are those of the results, `taps` the reduced ones. None if some reduced axis is in no slide or in
    several, or if two loads have different slides for one axis."""
    found: dict[str, Slide] = {}
    for load in loads(body):
        for index in load.position:
            slide = _slide(index, axes, taps)
            if slide is None or (slide.tap is None and slide.result != axes[-1]):
                continue
            if found.setdefault(slide.result.name, slide) != slide:
                return None
    covered = [slide.tap for slide in found.values() if slide.tap]
    return found if set(covered) == set(taps) and len(covered) == len(taps) else None


def _slide(index: Index, axes: list[Axis], taps: tuple[Axis, ...]) -> Slide | None:
    """The index of a load as r * stride + w * step + offset with whole numbers, where r is one of `axes` and
    w one of `taps` or missing; None if it has another form."""
    results, windows = ({axis.name: axis for axis in some} for some in (axes, taps))
    result: tuple[Axis, int] | None = None
    tap: tuple[Axis | None, int] = None, 0
    offset = 0
    for n, factors in polynomial(index).terms:
        name = factors[0].index.name if len(factors) == 1 and factors[0].index.operator == "name" else None
        if not factors:
            offset = n
        elif n > 0 and name in results and result is None:
            result = results[name], n
        elif n > 0 and name in windows and tap[0] is None:
            tap = windows[name], n
        else:
            return None
    return Slide(result[0], tap[0], result[1], tap[1], offset) if result else None


def _element(body: Expression, slides: list[Slide]) -> tuple[Expression, Expression] | None:
    """Finds the expression of one element of a window: the largest part of `body` that depends on results and
    taps only through the indices of `slides`. Returns (that part, the same with the slides' variables `place`
    in place of these indices). None if there is no such part, or several different ones."""
    found = dict(_parts(body, slides))
    return next(iter(found.items())) if len(found) == 1 else None


def _parts(body: Expression, slides: list[Slide]) -> Iterator[tuple[Expression, Expression]]:
    placed = _placed(body, slides)
    left = {axis.name for s in slides for axis in (s.result, s.tap) if axis}
    used = used_names([placed], [])
    if slides[-1].place.name in used and loads(placed) and not used & left:
        yield body, placed
        return
    for part in children(body):
        yield from _parts(part, slides)


def _placed(expression: Expression, slides: list[Slide]) -> Expression:
    """The expression in which every index that equals the index of one of `slides` is replaced by that
    slide's variable `place`."""
    forms = [(polynomial(slide.index), slide.place.index) for slide in slides]

    def index(old: Index) -> Index:
        return next((place for form, place in forms if polynomial(old) == form), old)

    def changed(part: Expression) -> Expression:
        if isinstance(part, Load | Gather):
            return replace(part, position=tuple(map(index, part.position)))
        return replace(part, index=index(part.index)) if isinstance(part, Counted) else part

    return rebuild(expression, changed)


def _with_element(
    kernel: Kernel, plan: Plan, slides: tuple[Slide, ...], element: tuple[Expression, Expression]
) -> SlidingWindows | None:
    part, placed = element
    tests: list[Expression] = []
    outside: Expression = real(0)
    if isinstance(placed, Operation) and placed.name == "where":
        test, placed, outside = placed.operands
        tests = conjuncts(test)
    bounds = _bounds(placed, slides, plan)
    if bounds is None or not isinstance(outside, Number) or placed.kind != "real":
        return None
    tests += [test for test in bounds if test not in tests]
    column = slides[-1].place
    ends, divisors = _ends(tests, column, plan), _divisors(placed, column, plan)
    if ends is None or divisors is None:
        return None
    body = rebuild(kernel.stages[0].body, lambda p: Reduced(ELEMENT, "real") if p == part else p)
    vectors = tuple(load for load in _reads(placed) if _mentions(load, column))
    return SlidingWindows(
        slides[:-1], slides[-1], tuple(tests), placed, outside, body, vectors, (*divisors, *ends)
    )


def _reads(value: Expression) -> list[Load]:
    return list(dict.fromkeys(part for part in walk(value) if isinstance(part, Load)))


def _mentions(part: Load | Gather | Counted, place: Axis) -> bool:
    return place.name in used_names([part], [])


def _bounds(value: Expression, slides: tuple[Slide, ...], plan: Plan) -> list[Expression] | None:
    """Tests (as expressions) that every load in `value` lies within its tensor along the dimensions in which
    the windows slide. None if a load uses a slide's `place` as a part of a longer index, if its index is
    itself read from a tensor, or if `value` has conditions of its own."""
    places = {slide.place.index: slide for slide in slides}
    names = {slide.place.name for slide in slides}
    found: list[Expression] = []
    for part in walk(value):
        if isinstance(part, Gather) or (isinstance(part, Operation) and part.name == "where"):
            return None
        if not isinstance(part, Load):
            continue
        for index, extent in zip(part.position, plan.buffers[part.buffer].shape, strict=True):
            if index in places:
                bounds = [("ge", ZERO)] if places[index].offset < 0 else []
                for name, end in (*bounds, ("lt", extent)):
                    found.append(operation(name, Counted(index), Counted(end), kind="truth"))
            elif indices.names(index) & names:
                return None
    return list(dict.fromkeys(found))


def _ends(tests: list[Expression], column: Axis, plan: Plan) -> list[Index] | None:
    """The bounds (extents, or 0) to which `tests` compare the index along memory. If the width of a vector
    divides all of them, a test holds for all elements of an aligned vector or for none. None if a test uses
    that index in another way."""
    found: list[Index] = []
    for test in tests:
        if column.name not in used_names([test], []):
            continue
        if not isinstance(test, Operation) or test.name not in ("ge", "lt"):
            return None
        left, right = test.operands
        if left != Counted(column.index) or not isinstance(right, Counted):
            return None
        if indices.names(right.index) - plan.sizes[0].keys():
            return None
        found.append(right.index)
    return found


def _divisors(value: Expression, column: Axis, plan: Plan) -> list[Index] | None:
    """What a vector's width must divide so that the loads of `value` along memory can be aligned vectors, as
    symbolic numbers. None if such a load is not contiguous, or if `value` computes with the index along
    memory."""
    found: list[Index] = []
    for part in walk(value):
        if isinstance(part, Counted) and _mentions(part, column):
            return None
        if isinstance(part, Load) and _mentions(part, column):
            divisors = alignment(address(part, plan.buffers[part.buffer].shape), column.name, plan.sizes[0])
            if divisors is None:
                return None
            found += divisors
    return found
