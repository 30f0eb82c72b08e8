"""Emits reductions across memory (down the columns of a row-major matrix, one result for each column). Each
lane of a warp has a vector of neighbouring columns; the warps of a block share the rows, and combine their
results in shared memory."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.cuda.source import Emitted, TemplateParameter, Variant
from kernelblaster.policies.expert.cuda.statements import (
    Body,
    For,
    Statement,
    add_to,
    assign,
    const,
    constexpr,
    declare,
    loop,
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
    Braces,
    Infix,
    Local,
    Term,
    cast,
    term,
)
from kernelblaster.policies.expert.emission.accumulators import Accumulator, accumulators
from kernelblaster.policies.expert.emission.functions import column_reduce
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.places import local, unravel_term
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
from kernelblaster.policies.expert.expression import Expression, Reduced, loads, walk
from kernelblaster.policies.expert.flatten import flattened
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel, Stage, Store
from kernelblaster.policies.expert.nest import Nest
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.row_kernel import passes, passes_with
from kernelblaster.policies.expert.schedules.columns import Columns
from kernelblaster.policies.expert.vector_access import VectorAccess, fits, mentioned, vector_access

SCHEDULES = (Columns,)
WARPS, WIDTH, INSIDE, ROW, TURN = local("WARPS", "WIDTH", "inside", "row", "turn")


@dataclass(frozen=True)
class ColumnWriter:
    """Writes a reduction across memory (down the rows of a matrix, one result for each column) as CUDA.
    `kernel` is that reduction within `plan`, and `schedule` its layout on the GPU. `access` tells which loads
    and stores can be vectors, and `values` writes the kernel's expressions as C++. `found` has, for each
    reduction of the kernel, the C++ variable in which its result is accumulated."""

    kernel: Kernel
    plan: Plan
    schedule: Columns
    access: VectorAccess
    values: VectorValues
    found: Sequence[Accumulator]

    def index(self, index: Index) -> Term:
        return index_term(index, self.plan.sizes[0])


def column_writer(kernel: Kernel, plan: Plan) -> ColumnWriter:
    kernel = flattened(kernel, plan)
    assert isinstance(kernel.schedule, Columns)
    found = vector_access(kernel, plan, kernel.axes[-1])
    values = vector_values(values_of(plan), found)
    return ColumnWriter(kernel, plan, kernel.schedule, found, values, accumulators(kernel, plan))


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    columns = column_writer(kernel, plan)
    schedule = columns.schedule
    width = schedule.vector_width
    body = (
        *([constexpr("WIDTH", 1)] if width == 1 else []),
        constexpr("WARPS", schedule.threads // 32),
        *_place(columns),
        *(found for group in passes(columns.kernel) for found in _pass(columns, group)),
        *_element_stores(columns),
        *_column_stores(columns),
    )
    condition = aligned(columns.access, width, plan)
    nest, single = (_nest(columns, each) for each in (width, 1))
    variants = [Variant((term(width),), condition, columns.index(nest.blocks()))] if width > 1 else []
    if condition is not None and variants:
        variants.append(Variant((term(1),), None, columns.index(single.blocks())))
    return launched(
        nest,
        plan.sizes[0],
        body,
        parameters=(TemplateParameter(INT, "WIDTH"),) if variants else (),
        variants=tuple(variants),
    )


def _nest(columns: ColumnWriter, width: int) -> Nest:
    schedule = replace(columns.schedule, vector_width=width)
    return schedule.nest(columns.kernel.axes, columns.kernel.reduced)


def _place(columns: ColumnWriter) -> list[Statement]:
    """Statements that compute the first column of this thread's vector; the variable `inside` is false for
    threads beyond the last column."""
    *outer, last = columns.kernel.axes
    narrow = fits(columns.plan, indices.product(axis.extent for axis in columns.kernel.axes))
    kind = UNSIGNED if narrow else INT64
    extent, warp_width, tiles = columns.index(last.extent), 32 * WIDTH, Local("tiles")
    found: list[Statement] = []
    if outer:
        found.append(const(kind, "tiles", (extent + warp_width - 1) / warp_width))
        found.append(const(kind, "place", BLOCK / tiles))
        names = {axis.name for axis in outer}
        found += unravel_term(Local("place"), outer, names, columns.plan.sizes[0], narrow=narrow)
    tile = BLOCK % tiles if outer else BLOCK
    return [
        *found,
        const(INT64, FIRST.name, tile * cast(INT64, warp_width) + THREAD % 32 * WIDTH),
        const(BOOL, "inside", FIRST < extent),
    ]


@dataclass(frozen=True)
class ShortSums:
    """C++ statements by which a thread first adds up a few rows in the elements' own type, in short sums, and
    then adds these to accumulators in double. `before` sets the short sums to 0, `body` adds one row to them,
    `after` adds them to the accumulators."""

    before: Sequence[Statement]
    body: Sequence[Statement]
    after: Sequence[Statement]


def _over_rows(
    columns: ColumnWriter,
    expressions: list[Expression],
    body: Sequence[Statement],
    short: ShortSums | None = None,
) -> Statement:
    """The loop over this warp's rows: for each row it reads the vectors that occur in `expressions`, then
    does the statements `body`. With `short`, all rows of an unrolled step are summed in the elements' own
    type first."""
    unroll = columns.schedule.unroll
    early, packs = _packs(columns, expressions)
    rows = _row_loop(columns)
    if short is None:
        inside = [*rows.inside, *packs, *body]
        every = loop(
            rows.name,
            rows.first,
            rows.end,
            inside,
            step=WARPS,
            type_=INT64,
            unroll=unroll if unroll > 1 else 0,
        )
        return when(INSIDE, *early, every)
    each = unrolled(
        "turn",
        unroll,
        [const(INT64, rows.name, ROW + TURN * WARPS), *rows.inside, *packs, *short.body],
    )
    several = For(
        None,
        ROW + (unroll - 1) * WARPS < rows.end,
        add_to(ROW, unroll * WARPS),
        (*short.before, each, *short.after),
    )
    single: Body = (const(INT64, rows.name, ROW), *rows.inside, *packs, *body)
    rest = For(None, ROW < rows.end, add_to(ROW, WARPS), single)
    return when(INSIDE, *early, declare(INT64, "row", rows.first), several, rest)


def _packs(columns: ColumnWriter, expressions: list[Expression]) -> tuple[list[Statement], list[Statement]]:
    """Returns two lists of C++ declarations that read the vectors which occur in `expressions`: (those of
    vectors that are the same in all rows, those of vectors that differ by row)."""
    kernel = columns.kernel
    used = {load for expression in expressions for load in loads(expression)}
    reduced = {axis.name for axis in kernel.reduced}
    early: list[Statement] = []
    packs: list[Statement] = []
    for load, name in columns.access.reads.items():
        if load not in used:
            continue
        once = columns.schedule.streaming and passes_with(kernel, load) == 1
        read = read_vector(load, columns.values, columns.access.along, once=once)
        kind = vector_type(columns.plan.buffers[load.buffer])
        moving = bool(indices.names(columns.values.address(load)) & reduced)
        (packs if moving else early).append(const(kind, vector_name(name).name, read))
    return early, packs


@dataclass(frozen=True)
class RowLoop:
    """What is needed to emit the head of a loop over rows: the name of its variable, its `first` value and
    its `end` (exclusive). `inside` are the C++ statements at the start of the loop's body that compute the
    variables of the reduced axes from that variable."""

    name: str
    first: Term
    end: Term
    inside: Sequence[Statement]


def _row_loop(columns: ColumnWriter) -> RowLoop:
    reduced = columns.kernel.reduced
    inside: list[Statement] = []
    if len(reduced) == 1:
        axis = reduced[0]
        start, end, name = axis.begin, axis.end, axis.name
    else:
        outer, *rest = reduced
        step = indices.product(axis.extent for axis in rest)
        start, end, name = indices.multiply(outer.begin, step), indices.multiply(outer.end, step), "r"
        narrow = fits(columns.plan, indices.multiply(outer.extent, step))
        number: Term = cast("unsigned", Local("r")) if narrow else Local("r")
        names = {a.name for a in reduced}
        inside = unravel_term(number, reduced, names, columns.plan.sizes[0], narrow=narrow)
    warp = THREAD / 32
    first = warp if indices.is_number(start, 0) else columns.index(start) + warp
    return RowLoop(name, first, columns.index(end), inside)


def _lanes(columns: ColumnWriter, expressions: list[Expression], body: Sequence[Statement]) -> Statement:
    """The unrolled loop over the columns of a thread's vector, with `body` for each. Where `expressions` use
    them, it declares the results of earlier reductions and the column's number."""
    along = columns.access.along.name
    needed = {part.stage for e in expressions for part in walk(e) if isinstance(part, Reduced)}
    named: list[Statement] = [a.result(a.name[LANE]) for a in columns.found if a.stage.name in needed]
    if along in mentioned(expressions, columns.access):
        named.append(const(INT64, along, FIRST + LANE))
    return unrolled("lane", WIDTH, [*named, *body])


def _pass(columns: ColumnWriter, group: list[Stage]) -> list[Statement]:
    """Statements of one pass over the rows for the reductions in `group`, none of which needs another's
    result; afterwards every thread has their results for its columns."""
    found = [accumulator for accumulator in columns.found if accumulator.stage in group]
    bodies = [stage.body for stage in group]
    starts = [assign(a.name[LANE], a.start) for a in found]
    reduce = column_reduce.of(WARPS)
    combined = [assign(a.name[LANE], reduce(a.name[LANE], a.join)) for a in found]
    return [
        *(a.declared(WIDTH) for a in found),
        _lanes(columns, [], starts),
        _over_rows(columns, bodies, [_taken(columns, found)], _short(columns, found)),
        _lanes(columns, [], combined),
    ]


def _taken(
    columns: ColumnWriter, found: Sequence[Accumulator], short: Sequence[Accumulator] = ()
) -> Statement:
    """The C++ loop over the elements of a vector that adds each to the accumulators `found`. For those that
    are also in `short`, it is added to a sum of few rows first, which is in the elements' own type."""
    lane: list[Statement] = []
    for a in found:
        name = _here(a) if a in short else a.name
        lane += a.take(name[LANE], columns.values.expression(a.stage.body))
    return _lanes(columns, [a.stage.body for a in found], lane)


def _here(accumulator: Accumulator) -> Local:
    return Local(f"{accumulator.stage.name}_here")


def _short(columns: ColumnWriter, found: Sequence[Accumulator]) -> ShortSums | None:
    """For those of the accumulators `found` that are in double: the rows of one unrolled step are summed in
    float and added to the accumulator once, because an addition in double takes longer than a load. None when
    nothing is unrolled, or nothing in double."""
    wide = [a for a in found if a.is_wide]
    if columns.schedule.unroll == 1 or not wide:
        return None
    before = [declare(a.running.element, _here(a).name, Braces(), WIDTH) for a in wide]
    after = [add_to(a.name[LANE], _here(a)[LANE]) for a in wide]
    return ShortSums(before, [_taken(columns, found, wide)], [_lanes(columns, [], after)])


def _element_stores(columns: ColumnWriter) -> list[Statement]:
    stores = [store for store in columns.kernel.stores if store.over]
    values = [store.value for store in stores]
    return [_over_rows(columns, values, _stored(columns, stores))] if stores else []


def _column_stores(columns: ColumnWriter) -> list[Statement]:
    stores = [store for store in columns.kernel.stores if not store.over]
    if not stores:
        return []
    packs, _ = _packs(columns, [store.value for store in stores])
    return [when(Infix("&&", INSIDE, THREAD < 32), *packs, *_stored(columns, stores))]


def _stored(columns: ColumnWriter, stores: list[Store]) -> list[Statement]:
    """Statements that write what `stores` compute for the columns of this thread: as vectors where they are
    contiguous, otherwise one by one."""
    before: list[Statement] = []
    after: list[Statement] = []
    for store in stores:
        if store in columns.access.writes:
            name = columns.access.writes[store]
            before.append(declare(vector_type(columns.plan.buffers[store.buffer]), vector_name(name).name))
            once = columns.schedule.streaming and bool(store.over)
            after.append(write_vector(store, name, columns.values, columns.access.along, once=once))
    lane = [store_statement(store, columns.plan, columns.values) for store in stores]
    return [*before, _lanes(columns, [store.value for store in stores], lane), *after]
