"""Emits reductions over sliding windows (poolings, depthwise convolutions) in which each thread computes a
patch: several neighbouring results. The window of a result is the set of elements of the operand from which
it is computed.

The thread loops over the lines of the operand (contiguous elements) that lie under the windows of its patch.
It reads each line once, as aligned vectors, and adds an element to all results of the patch in whose windows
it lies. These loops are unrolled, so that elements and results stay in registers. Elements outside of the
operand are never read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.cuda.source import Emitted, TemplateParameter, Variant
from kernelblaster.policies.expert.cuda.statements import (
    CONTINUE,
    If,
    Return,
    Statement,
    assign,
    const,
    constexpr,
    declare,
    unrolled,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    BLOCK,
    BOOL,
    INT,
    INT64,
    THREAD,
    UNSIGNED,
    Choice,
    Given,
    Infix,
    Local,
    Term,
    all_of,
    any_of,
    cast,
    read,
    term,
    vector_pointer,
)
from kernelblaster.policies.expert.emission.accumulators import Accumulator, accumulators
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.places import count, local, unravel_term
from kernelblaster.policies.expert.emission.stores import store_statement
from kernelblaster.policies.expert.emission.values import index_term, values_of
from kernelblaster.policies.expert.emission.vectors import (
    FIRST,
    LANE,
    VectorValues,
    aligned,
    read_vector,
    vector_name,
    vector_type,
    vector_values,
    write_vector,
)
from kernelblaster.policies.expert.expression import Expression, Gather, Load, loads, used_names
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.nest import Nest
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.windows import WindowPatches
from kernelblaster.policies.expert.sliding_windows import ELEMENT, Slide, SlidingWindows, sliding_windows
from kernelblaster.policies.expert.vector_access import VectorAccess, fits, mentioned, vector_access

SCHEDULES = (WindowPatches,)
WIDTH, COLUMNS, LEAD, VECTORS, VECTOR, PATCH = local("WIDTH", "COLUMNS", "LEAD", "VECTORS", "vector", "patch")
ELEMENTS, COLUMN = local("elements", "column")


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    found, schedule = sliding_windows(kernel, plan), kernel.schedule
    assert found is not None and isinstance(schedule, WindowPatches)  # the technique has looked
    return WindowKernel(kernel, plan, schedule, found).emitted()


@dataclass(frozen=True)
class WindowKernel:
    """Writes one kernel on sliding windows (a pooling or depthwise convolution) as C++ statements; each
    method writes a section of it. `kernel` is that kernel, a kernel of `plan`. `windows` says which elements
    each result is computed from. `schedule` says how many neighbouring results (a patch) each thread
    computes."""

    kernel: Kernel
    plan: Plan
    schedule: WindowPatches
    windows: SlidingWindows

    @cached_property
    def accumulator(self) -> Accumulator:
        (found,) = accumulators(self.kernel, self.plan)
        return found

    @cached_property
    def access(self) -> VectorAccess:
        """Which of the kernel's loads and stores after its reduction can be vectors: those that are
        contiguous in memory along the last axis of the results. Loads during the reduction, of the elements
        in the windows, are not among them."""
        stores = replace(self.kernel, stages=())
        return vector_access(stores, self.plan, self.windows.column.result)

    @cached_property
    def values(self) -> VectorValues:
        """The translator from the plan's expressions to C++ for what the kernel stores after its reduction.
        An element that belongs to a vector (see `access`) is taken from the variable into which the vector
        was read."""
        return vector_values(values_of(self.plan), self.access)

    @cached_property
    def reading(self) -> VectorValues:
        """The translator from the plan's expressions to C++ for the elements of the windows, which the
        reduction combines. An element of an input becomes a component of a vector variable, named after the
        input; `_read_line` emits the declaration of that variable."""
        names: dict[Load | Gather, str] = {
            load: f"{load.buffer}{place or ''}" for place, load in enumerate(self.windows.vectors)
        }
        plain = values_of(self.plan)
        return VectorValues(plain.buffers, plain.sizes, plain.real, reads=names)

    @property
    def several(self) -> list[tuple[Slide, int]]:
        """The dimensions along which a patch (the neighbouring results that one thread computes) has more
        than one result, as (dimension, number of results along it). The dimension is described by how windows
        lie along it. The dimension that is contiguous in memory is left out, whatever the number. Empty if
        patches extend along memory only."""
        return [pair for pair in self._patch if pair[1] > 1]

    @property
    def _patch(self) -> list[tuple[Slide, int]]:
        return list(zip(self.windows.lines, self.schedule.lines, strict=True))

    def index(self, index: Index) -> Term:
        return index_term(index, self.plan.sizes[0])

    def emitted(self) -> Emitted:
        schedule = self.schedule
        widths = schedule.vector_width, schedule.columns
        body = (
            *self._constants(),
            *self._place(),
            *self._started(),
            *self._over_lines(),
            *self._stored(),
        )
        own, single = (self._nest(columns) for columns in (schedule.columns, 1))
        variants: tuple[Variant, ...] = ()
        if max(widths) > 1:
            divisible = [(self.index(d) % schedule.vector_width).equals(0) for d in self._divisors()]
            condition = all_of([*divisible, *([ends] if (ends := self._whole()) is not None else [])])
            variants = (Variant((term(widths[0]), term(widths[1])), condition, self.index(own.blocks())),)
            if condition is not None:
                variants += (Variant((term(1), term(1)), None, self.index(single.blocks())),)
        parameters = tuple(TemplateParameter(INT, name) for name in ("WIDTH", "COLUMNS")) if variants else ()
        return launched(own, self.plan.sizes[0], body, parameters=parameters, variants=variants)

    def _divisors(self) -> list[Index]:
        width = self.schedule.vector_width
        found = dict.fromkeys(self.windows.divisors)
        return [d for d in found if width > 1 and (d.operator != "int" or d.value % width)]

    def _whole(self) -> Term | None:
        """The condition, tested on the host, that each patch's results along memory can be moved as one
        aligned vector; None if that always holds."""
        return aligned(self.access, self.schedule.columns, self.plan)

    def _axes(self, columns: Index) -> tuple[Axis, ...]:
        """The axes of the results, but where a thread has several results along one, an axis that counts
        patches takes its place. `columns` is the number of a patch's results along memory."""
        patches = {slide.result.name: indices.number(n) for slide, n in self.several}
        patches |= {self.windows.column.result.name: columns}
        return tuple(
            _patches(axis, patches[axis.name]) if axis.name in patches else axis for axis in self.kernel.axes
        )

    def _nest(self, columns: int) -> Nest:
        schedule = replace(self.schedule, columns=columns)
        lines = tuple(slide.result for slide, _ in self.several)
        patches = self._axes(indices.number(columns))
        return schedule.nest(patches, lines, self.windows.column.result, self.kernel.reduced)

    def _constants(self) -> list[Statement]:
        """Declares the constants `VECTORS`, how many vectors of a line a thread reads, and `LEAD`, how many
        elements before the first one that it needs these begin, so that they are aligned."""
        column, width, columns = self.windows.column, self.schedule.vector_width, self.schedule.columns
        lead = column.offset % width
        several: Term = term(lead)
        span: Term = (COLUMNS - 1) * column.stride + (column.reach + 1)
        if lead:
            several = Choice(WIDTH > 1, term(lead), term(0))
            span = LEAD + span
        return [
            *([constexpr("WIDTH", 1), constexpr("COLUMNS", 1)] if width == columns == 1 else []),
            *([constexpr("LEAD", several)] if lead else []),
            constexpr("VECTORS", (span + WIDTH - 1) / WIDTH),
        ]

    def _place(self) -> list[Statement]:
        """Declares the number of this thread's patch and the indices of the patch's first results; threads
        beyond the last patch return."""
        axes = self._axes(indices.variable(COLUMNS.name))
        narrow = fits(self.plan, indices.product(axis.extent for axis in self.kernel.axes))
        kind = UNSIGNED if narrow else INT64
        total = count((axis.extent for axis in axes), self.plan.sizes[0])
        here = BLOCK * (self.schedule.threads if narrow else cast(INT64, self.schedule.threads)) + THREAD
        names = {axis.name for axis in axes if not axis.once}
        starts = [
            const(INT64, _start(slide.result), Local(_patches(slide.result, indices.ONE).name) * number)
            for slide, number in self.several
        ]
        column = _patches(self.windows.column.result, indices.ONE)
        return [
            const(kind, "patch", here),
            when(Infix(">=", PATCH, total), Return()),
            *unravel_term(PATCH, axes, names, self.plan.sizes[0], narrow=narrow),
            *starts,
            const(INT64, FIRST.name, Local(column.name) * COLUMNS),
        ]

    def _result(self) -> Term:
        """The C++ variable with the running result of the line and column that the loops around the
        statement are at."""
        found: Term = self.accumulator.name
        for slide, _ in self.several:
            found = found[Local(_line(slide))]
        return found[LANE]

    def _each_line(self, body: Sequence[Statement]) -> list[Statement]:
        """`body` in loops over the patch's lines of results, one loop for each dimension in `several`."""
        found = list(body)
        for slide, number in reversed(self.several):
            found = [unrolled(_line(slide), number, found)]
        return found

    def _started(self) -> list[Statement]:
        a = self.accumulator
        start = unrolled(LANE.name, COLUMNS, [assign(self._result(), a.start)])
        return [a.declared(*(number for _, number in self.several), COLUMNS), *self._each_line([start])]

    def _over_lines(self) -> list[Statement]:
        """Loops over the lines of the operand that lie under the patch's windows, one loop for each
        dimension other than that along memory. They read each line and add its elements to the running
        results."""
        found = [*self._read_line(), *self._take_line()]
        for slide, number in reversed(self._patch):
            span = slide.span(number)
            line = Local(_operand_line(slide))
            start: Term = Local(_start(slide.result) if number > 1 else slide.result.name) * slide.stride
            place = start + line
            place = place + slide.offset if slide.offset >= 0 else place - -slide.offset
            found = [unrolled(line.name, span, [const(INT64, slide.place.name, place), *found])]
        return found

    def _read_line(self) -> list[Statement]:
        """Reads the elements of one line of the operand into the array `elements`, vector by vector. Where
        the windows' tests fail, as beyond the operand's ends, elements get the value `outside` and nothing
        is read."""
        window, column = self.windows, self.windows.column
        tests = [(test, column.place.name in used_names([test], [])) for test in window.tests]
        whole = all_of([self.reading.expression(test) for test, here in tests if not here])
        own = [self.reading.expression(test) for test, here in tests if here]
        inside = all_of([*([Local("inside")] if whole is not None else []), *own])
        start: Term = FIRST * column.stride
        start = start + column.offset if column.offset >= 0 else start - -column.offset
        if column.offset % self.schedule.vector_width:
            start = start - LEAD
        packs = [
            const(vector_type(self.plan.buffers[load.buffer]), vector_name(name).name, self._vector(name))
            for load, name in self.reading.reads.items()
        ]
        here = ELEMENTS[VECTOR * WIDTH + LANE]
        outside = self.reading.expression(window.outside)
        taken = unrolled(LANE.name, WIDTH, [assign(here, self.reading.expression(window.value))])
        nothing = unrolled(LANE.name, WIDTH, [assign(here, outside)])
        assert inside is not None  # the end of a line is always tested
        return [
            *([const(BOOL, "inside", whole)] if whole is not None else []),
            declare(self.reading.real_type, ELEMENTS.name, None, VECTORS * WIDTH),
            unrolled(
                VECTOR.name,
                VECTORS,
                [
                    const(INT64, column.place.name, start + VECTOR * WIDTH),
                    If(inside, (*packs, taken), (nothing,)),
                ],
            ),
        ]

    def _vector(self, name: str) -> Term:
        load = next(load for load, known in self.reading.reads.items() if known == name)
        place = Given(load.buffer) + self.index(self.reading.address(load))
        return read(vector_pointer(vector_type(self.plan.buffers[load.buffer]), place))

    def _take_line(self) -> list[Statement]:
        """Adds the elements of the line of the operand that was read last to the running results of all
        windows that contain some of them."""
        column, a = self.windows.column, self.accumulator
        tap = Local(column.tap.name) if column.tap else None
        place: Term = LANE * column.stride
        if tap is not None:
            place = place + tap * column.step
        if column.offset % self.schedule.vector_width:
            place = place + LEAD
        lane: list[Statement] = [const(self.reading.real_type, ELEMENT, ELEMENTS[place])]
        axis = column.result.name
        if axis in mentioned([self.windows.body], self.access):
            lane.append(const(INT64, axis, FIRST + LANE))
        lane += a.take(self._result(), self.values.expression(self.windows.body))
        found: list[Statement] = [unrolled(LANE.name, COLUMNS, lane)]
        if tap is not None:
            found = [unrolled(tap.name, column.taps, found)]
        return self._lines_of_results(found)

    def _lines_of_results(self, body: Sequence[Statement]) -> list[Statement]:
        """C++ loops, around `body`, over those lines of results in whose windows the present line of the
        operand lies. For each dimension, a variable says which element (tap) of the window that line is."""
        found = list(body)
        used = used_names([self.windows.body], [])
        for slide, number in reversed(self._patch):
            assert slide.tap is not None
            line, tap = Local(_operand_line(slide)), Local(slide.tap.name)
            if number == 1 and slide.step == 1:
                found = [const(INT, tap.name, line), *found] if tap.name in used else found
                continue
            behind = line - Local(_line(slide)) * slide.stride if number > 1 else line
            outside: list[Term] = [tap < 0, Infix(">=", tap, term(slide.taps))] if number > 1 else []
            before: list[Statement] = [const(INT, tap.name, behind / slide.step)]
            if slide.step > 1:
                outside = [Infix("!=", behind % slide.step, term(0)), behind < 0, *outside[1:]]
            if outside:
                before.append(when(any_of(outside), CONTINUE))
            result = [const(INT64, slide.result.name, Local(_start(slide.result)) + Local(_line(slide)))]
            wanted = number > 1 and slide.result.name in used
            found = [*before, *(result if wanted else []), *found]
            if number > 1:
                found = [unrolled(_line(slide), number, found)]
        return found

    def _stored(self) -> list[Statement]:
        """Computes what is stored from each running result of the patch, and stores it: as vectors in
        tensors that are contiguous along the last axis."""
        stores = self.kernel.stores
        values: list[Expression] = [store.value for store in stores]
        column, a = self.windows.column.result, self.accumulator
        read_too = {load for value in values for load in loads(value)}
        packs: list[Statement] = [
            const(
                vector_type(self.plan.buffers[load.buffer], "COLUMNS"),
                vector_name(name).name,
                read_vector(load, self.values, column, once=False, width="COLUMNS"),
            )
            for load, name in self.access.reads.items()
            if load in read_too
        ]
        lane: list[Statement] = [a.result(self._result())]
        written = [store for store in stores if store in self.access.writes]
        positions = [index for store in stores if store not in written for index in store.position]
        if column.name in mentioned(values, self.access) | set().union(*map(indices.names, positions)):
            lane.append(const(INT64, column.name, FIRST + LANE))
        for store in written:
            name = vector_name(self.access.writes[store]).name
            packs.append(declare(vector_type(self.plan.buffers[store.buffer], "COLUMNS"), name))
        lane += [store_statement(store, self.plan, self.values) for store in stores]
        after = [
            write_vector(store, self.access.writes[store], self.values, column, once=False, width="COLUMNS")
            for store in written
        ]
        found: list[Statement] = [*packs, unrolled(LANE.name, COLUMNS, lane), *after]
        for slide, number in reversed(self.several):
            axis = slide.result
            here = const(INT64, axis.name, Local(_start(axis)) + Local(_line(slide)))
            ends = when(Infix(">=", Local(axis.name), self.index(axis.extent)), CONTINUE)
            found = [unrolled(_line(slide), number, [here, ends, *found])]
        return found


def _patches(axis: Axis, length: Index) -> Axis:
    """An axis that counts the patches along `axis`, if each has `length` results there; the last may have
    fewer."""
    extent = indices.divide(indices.add(axis.extent, indices.subtract(length, indices.ONE)), length)
    return Axis(f"{axis.name}_patch", extent)


def _start(axis: Axis) -> str:
    return f"{axis.name}_first"


def _line(slide: Slide) -> str:
    """The name of the variable that counts a patch's lines of results along a dimension."""
    return f"{slide.result.name}_line"


def _operand_line(slide: Slide) -> str:
    """The name of the variable that counts, along a dimension, the operand's lines under a patch's
    windows."""
    return f"{slide.result.name}_under"
