"""Recognizes reductions over sliding windows: along one or more dimensions, the window of the next result
lies a fixed number of elements further in the operand, as in poolings and depthwise convolutions."""

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
    """How windows lie along one dimension. The element of result r and tap w is at index
    r * stride + w * step + offset of the operand; `result` is the axis of r, `tap` that of w, with `taps`
    elements (None and 1 where the windows have one element along this dimension). `place` is the variable
    that stands for this index in the window's element."""

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
        """The index of an element as an expression of result and tap."""
        tap = self.tap.index if self.tap else ZERO
        found = indices.add(_times(self.result.index, self.stride), _times(tap, self.step))
        return indices.add(found, indices.number(self.offset))

    @property
    def reach(self) -> int:
        """How much further than its first element a window's last element lies."""
        return (self.taps - 1) * self.step

    def span(self, results: int) -> int:
        """How many elements lie under the windows of so many neighbouring results, from the first to the
        last."""
        return (results - 1) * self.stride + self.reach + 1


@dataclass(frozen=True)
class SlidingWindows:
    """A reduction over sliding windows. `lines` are the dimensions in which its windows slide, but for the
    one along memory, `column`. Where all of `tests` hold, the window's element is `value`, elsewhere
    `outside`; these are expressions of the slides' places. `body` is what the stage combines, in which
    Reduced(ELEMENT) is that element. `vectors` are the loads of `value` along memory, and `divisors` the
    indices that must be divisible by a vector's width."""

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
        """How many elements of the widest operand fit in a vector of 16 bytes."""
        return VECTOR_BYTES // max(DTYPE_BYTES[plan.buffers[load.buffer].dtype] for load in self.vectors)


def sliding_windows(kernel: Kernel, plan: Plan) -> SlidingWindows | None:
    """The kernel as a reduction over sliding windows; None if it is something else."""
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
    """The slides of a stage's body, by the name of the result's axis: those of dimensions with several taps,
    and that along the last axis. None if a window's axis is in no slide, or if loads do not agree."""
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
    """The index as r * stride + w * step + offset with whole numbers; None if it is something else."""
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
    """The one largest part of the body that depends on results and taps only by where they meet in the
    operand, and the same part written with the slides' places; None if there is none or several."""
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
    """The expression with the places of `slides` instead of the indices that they stand for."""
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
    """Tests that every load of `value` lies within its buffer along the slides' dimensions. None if it reads
    elements in another way than at the slides' places, or under conditions of its own."""
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
    """The boundaries that tests compare the place along memory with: where all of them are multiples of a
    vector's width, a vector lies on one side of each. None if a test asks for something else."""
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
    """What must be divisible by a vector's width for the loads of `value` to be aligned vectors along memory;
    None if one of them is not contiguous there, or if the place along memory is used as a number."""
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
