"""Emits row kernels: reductions, normalizations and pointwise maps along the contiguous elements of rows.
Each row is processed by lanes of a warp, by a block or by a cluster.

Reductions (the stages of a kernel) that do not need each other's results share one pass over the row. Each
thread loads vectors of neighbouring elements (row_vectors.py) and may keep some in registers, so that later
passes need not read them again. The blocks of a cluster may share a long row (cluster_rows.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.cuda.source import Emitted, TemplateParameter, Variant
from kernelblaster.policies.expert.cuda.statements import (
    Declaration,
    Declarator,
    Do,
    For,
    Lambda,
    LambdaParameter,
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
    AUTO,
    BLOCK,
    BOOL,
    FALSE,
    INT,
    INT64,
    THREAD,
    TRUE,
    UNSIGNED,
    Infix,
    LiteralTerm,
    Local,
    Term,
    all_of,
    call,
    cast,
    term,
)
from kernelblaster.policies.expert.emission import cluster_rows, unaligned_rows
from kernelblaster.policies.expert.emission.accumulators import Accumulator
from kernelblaster.policies.expert.emission.cluster_rows import BLOCKS, RANK, THREAD_IN_ROW, THREADS
from kernelblaster.policies.expert.emission.functions import block_reduce, block_shuffle_reduce, warp_reduce
from kernelblaster.policies.expert.emission.hoisting import hoisted
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.places import count
from kernelblaster.policies.expert.emission.row_vectors import (
    axes,
    divider,
    each,
    keeping,
    pack_range,
    places,
    position,
    readers,
    straightened,
)
from kernelblaster.policies.expert.emission.row_writer import RowWriter, row_writer
from kernelblaster.policies.expert.emission.stores import store_statement
from kernelblaster.policies.expert.emission.vectors import (
    FIRST,
    LANE,
    aligned,
    vector_name,
    vector_type,
    write_vector,
)
from kernelblaster.policies.expert.expression import Expression
from kernelblaster.policies.expert.kernel import Kernel, Stage
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.row_kernel import RUNNING, element_bytes, keeps_all, kept_elements, passes
from kernelblaster.policies.expert.schedules.pointwise import BlockRowMap, WarpRowMap
from kernelblaster.policies.expert.schedules.rows import (
    BlockRows,
    ClusterRows,
    WarpRows,
    row_threads,
    rows_per_block,
)
from kernelblaster.policies.expert.vector_access import mentioned

SCHEDULES = (WarpRowMap, BlockRowMap, WarpRows, BlockRows, ClusterRows)


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    rows = row_writer(kernel, plan)
    schedule, total = rows.schedule, _count(rows)
    found = [statement for group in passes(rows.kernel) for statement in _pass(rows, group)]
    body = [constexpr("THREADS", row_threads(schedule)), *_row(rows)]
    if rows.persistent:
        body += [*divider(rows), *pack_range(rows), *places(rows), *keeping(rows)]
        more = [*axes(rows), *readers(rows), each(rows), *found]
        more += cluster_rows.find_next_row(*rows.row, total)
        more += [each(rows, last=True), *_element_stores(rows), *_row_stores(rows)]
        more += cluster_rows.step_to_next_row(rows.row[1])
        body.append(For(None, None, None, tuple(more)))
    else:
        body += [*axes(rows), *divider(rows), *pack_range(rows), *places(rows), *readers(rows)]
        body += [*keeping(rows), each(rows), *found, *_element_stores(rows), *_row_stores(rows)]
    nest = schedule.nest(rows.kernel.axes, rows.kernel.reduced)
    blocks = rows.index(nest.blocks())
    shared, blocks_per_sm = 0, 0
    if isinstance(schedule, ClusterRows):
        blocks = cluster_rows.blocks(schedule, total)
        shared = schedule.shared_elements * schedule.threads * element_bytes(rows.kept, plan)
        blocks_per_sm = schedule.blocks_per_sm
    width, rest = TemplateParameter(INT, "WIDTH"), TemplateParameter(BOOL, "REST")
    return launched(
        nest,
        plan.sizes[0],
        body,
        blocks=blocks,
        shared=shared,
        blocks_per_sm=blocks_per_sm,
        parameters=(width, rest) if rows.kept else (width,),
        variants=tuple(_variants(rows, blocks)),
    )


def _variants(rows: RowWriter, blocks: Term) -> Iterator[Variant]:
    """The instances of the kernel template, in the order in which the host tests their conditions: if rows
    are aligned and fit in what is kept on chip, with vectors and without a loop over further elements; if
    they are aligned, with vectors; otherwise with single elements. `blocks` is the grid size of all of
    them."""
    width = term(rows.schedule.vector_width)
    unaligned = rows.unaligned is not None
    condition = None if unaligned else aligned(rows.access, rows.schedule.vector_width, rows.plan)
    rest = (TRUE,) if rows.kept else ()
    if rows.kept and keeps_all(rows.kernel, rows.schedule, rows.plan):
        length = indices.product(axis.extent for axis in rows.kernel.reduced)
        fitting = rows.index(length) <= kept_elements(rows.schedule)
        both = all_of([fitting] if condition is None else [condition, fitting])
        yield Variant((width, FALSE), both, blocks)
    yield Variant((width, *rest), condition, blocks)
    if condition is not None:
        yield Variant((term(1), *rest), None, blocks)


def _count(rows: RowWriter) -> Term:
    """The number of rows of the whole tensor (the product of the kernel's axes), as a C++ expression."""
    return count((axis.extent for axis in rows.kernel.axes), rows.plan.sizes[0])


def _row(rows: RowWriter) -> list[Statement]:
    """Statements that compute the number of the row that this thread works on, and the thread's number among
    those of the row; warps beyond the last row return."""
    kind, name = rows.row
    found: list[Statement] = [const(INT, "thread", THREAD)]
    if isinstance(rows.schedule, ClusterRows):
        found += cluster_rows.head(rows.schedule, _count(rows))
    if rows.by_warps:
        together = rows_per_block(rows.schedule)
        found = [
            const(INT, "thread", THREAD % THREADS),
            const(kind, name, BLOCK * cast(kind, together) + THREAD / THREADS),
            when(Local(name) >= _count(rows), Return()),
        ]
        if row_threads(rows.schedule) < WARP:
            one_row = LiteralTerm("0xffffffffu") >> (term(WARP) - THREADS)
            lanes = one_row << (THREAD % WARP - THREAD_IN_ROW)
            found.append(const(UNSIGNED, "members", lanes, "of the row"))
    elif rows.kernel.axes:
        row = Declarator(name, BLOCK / BLOCKS if rows.cluster > 1 else BLOCK)
        found.append(Declaration(kind, (row,), "" if rows.persistent else "const"))
    return found


@dataclass
class PassBody:
    """What a thread does with each vector (neighbouring elements of the row) in one pass over a row, as C++
    statements. For each vector it executes `before` once, then `element` once for each of the vector's
    elements, then `after` once.

    The other two fields tell which loop variables must be computed for these statements: those that occur in
    `values`, the plan's expressions that the statements compute, and those named in `places`, which the
    statements use for something else, such as the position at which they store."""

    values: list[Expression]
    before: list[Statement] = field(default_factory=list)
    element: list[Statement] = field(default_factory=list)
    after: list[Statement] = field(default_factory=list)
    places: set[str] = field(default_factory=set)


def _over_packs(rows: RowWriter, taking: PassBody, giving: str = "each") -> Statement:
    ends = rows.unaligned is not None
    parameters = [LambdaParameter(INT64, FIRST.name) if ends else LambdaParameter(rows.number, "at")]
    for load, name in rows.access.reads.items():
        kind = AUTO if ends else vector_type(rows.plan.buffers[load.buffer])
        parameters.append(LambdaParameter(kind, vector_name(name).name, reference=True))
    inner = rows.access.along.name
    reduced = {axis.name for axis in rows.kernel.reduced}
    names = (mentioned(taking.values, rows.access) | taking.places) & (reduced | {FIRST.name, RUNNING})
    element = taking.element
    if inner in names:
        names = names - {inner} | {FIRST.name}
        element = [const(INT64, inner, FIRST + LANE), *element]
    place = [unaligned_rows.lanes(next(iter(rows.access.reads.values())))] if ends else position(rows, names)
    body = [*place, *taking.before, unrolled("lane", Local(_lanes(rows)), element), *taking.after]
    return Do(call(giving, Lambda(tuple(parameters), tuple(body))))


def _lanes(rows: RowWriter) -> str:
    """The name of the C++ constant that says how many elements a vector has in a pass over the row."""
    return unaligned_rows.LANES if rows.unaligned is not None else "WIDTH"


def _pass(rows: RowWriter, group: list[Stage]) -> list[Statement]:
    """Statements of one pass over the row that does the reductions in `group`, none of which needs another's
    result, and declares their results."""
    all_found = [accumulator for accumulator in rows.found if accumulator.stage in group]
    given = {
        a.stage.name: part
        for a in all_found
        for other in all_found
        if (part := other.given(a.stage)) is not None
    }
    found = [a for a in all_found if a.stage.name not in given]
    body, bodies = _once(rows, [a.stage.body for a in found], group[0].name)
    body += [a.declared() for a in found]
    closing: list[Statement] = []
    taking = PassBody(bodies)
    for a, value in zip(found, bodies, strict=True):
        way = a.take_vector(_lanes(rows))
        body += way.first
        closing += way.last
        taking.before += way.before
        taking.element += way.element(rows.values.expression(value))
        taking.after += way.after
        if a.stage.combine.placed:
            taking.places |= {axis.name for axis in rows.kernel.reduced}
    body += [_over_packs(rows, taking), *closing, *_combined(rows, found)]
    return [*body, *(a.result(given.get(a.stage.name, a.name)) for a in all_found)]


def _combined(rows: RowWriter, found: list[Accumulator]) -> list[Statement]:
    """Statements that combine the accumulators `found` of all threads of a row, in the way that the schedule
    says: by warp shuffles, through shared memory, or over the cluster."""
    members: tuple[Term, ...] = ()
    match rows.schedule:
        case ClusterRows():
            return cluster_rows.combine({rows.found.index(a): a for a in found})
        case WarpRows(lanes=lanes) if lanes < WARP:
            reduce, members = warp_reduce.of(THREADS), (Local("members"),)
        case WarpRows():
            reduce = warp_reduce
        case BlockRows(shuffles=True):
            reduce = block_shuffle_reduce.of(THREADS)
        case _:
            reduce = block_reduce
    return [assign(a.name, reduce(a.name, a.join, *members)) for a in found]


def _element_stores(rows: RowWriter) -> list[Statement]:
    stores = [store for store in rows.kernel.stores if store.over]
    if not stores:
        return []
    body, values = _once(rows, [store.value for store in stores], stores[0].buffer)
    taking = PassBody(values)
    for store, value in zip(stores, values, strict=True):
        names = set().union(*(indices.names(index) for index in store.position))
        if store in rows.access.writes:
            name = rows.access.writes[store]
            place, names = straightened(rows, store)
            once, width = rows.schedule.streaming, _lanes(rows)
            kind = vector_type(rows.plan.buffers[store.buffer], width)
            taking.before.append(declare(kind, vector_name(name).name))
            taking.after.append(
                write_vector(place, name, rows.values, rows.access.along, once=once, width=width)
            )
        taking.places |= names
        taking.element.append(store_statement(replace(store, value=value), rows.plan, rows.values))
    return [*body, _over_packs(rows, taking, "last" if rows.persistent else "each")]


def _once(rows: RowWriter, values: list[Expression], prefix: str) -> tuple[list[Statement], list[Expression]]:
    return hoisted(values, {axis.name for axis in rows.kernel.reduced}, rows.values, prefix)


def _row_stores(rows: RowWriter) -> list[Statement]:
    found = [store_statement(s, rows.plan, rows.values) for s in rows.kernel.stores if not s.over]
    one = THREAD_IN_ROW.equals(0)
    one = Infix("&&", one, RANK.equals(0)) if rows.cluster > 1 else one
    return [when(one, *found)] if found else []
