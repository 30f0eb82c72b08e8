"""Columns: reductions across memory. The lanes of a warp take neighbouring columns, a vector each, and the
warps of a block share the rows; what they found is combined in shared memory."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.emission.accumulators import Accumulator, accumulators, helpers
from kernelblaster.policies.expert.emission.assign import assign
from kernelblaster.policies.expert.emission.emitted import Emitted, Variant
from kernelblaster.policies.expert.emission.loops import indented
from kernelblaster.policies.expert.emission.render import renderer
from kernelblaster.policies.expert.emission.vectors import (
    FIRST,
    VectorRenderer,
    aligned,
    declared,
    read_text,
    vector_renderer,
    vector_type,
    write_text,
)
from kernelblaster.policies.expert.expression import Expression, Reduced, loads, walk
from kernelblaster.policies.expert.flatten import flattened
from kernelblaster.policies.expert.index import text
from kernelblaster.policies.expert.plan import Kernel, Plan, Stage, Store
from kernelblaster.policies.expert.row_kernel import passes, passes_with
from kernelblaster.policies.expert.schedule import Columns
from kernelblaster.policies.expert.vector_access import VectorAccess, fits, mentioned, vector_access

SCHEDULES = (Columns,)


@dataclass(frozen=True)
class ColumnWriter:
    """A kernel as columns, with what is needed to write it."""

    kernel: Kernel
    plan: Plan
    schedule: Columns
    access: VectorAccess
    render: VectorRenderer
    found: Sequence[Accumulator]


def column_writer(kernel: Kernel, plan: Plan) -> ColumnWriter:
    kernel = flattened(kernel, plan)
    assert isinstance(kernel.schedule, Columns)
    found = vector_access(kernel, plan, kernel.axes[-1])
    render = vector_renderer(renderer(plan), found)
    return ColumnWriter(kernel, plan, kernel.schedule, found, render, accumulators(kernel, plan))


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    columns = column_writer(kernel, plan)
    schedule = columns.schedule
    width = schedule.vector_width
    lines = [
        *(["constexpr int WIDTH = 1;"] if width == 1 else []),
        f"constexpr int WARPS = {schedule.threads // 32};",
        *_place(columns),
        *(line for group in passes(columns.kernel) for line in _pass(columns, group)),
        *_element_stores(columns),
        *_column_stores(columns),
    ]
    condition = aligned(columns.access, width)
    blocks = _blocks(columns, width)
    variants = [Variant((str(width),), condition, blocks)] if width > 1 else []
    variants += [Variant(("1",), "", _blocks(columns, 1))] if condition and variants else []
    found = [device_code("pack"), *([device_code("streaming")] if schedule.streaming else [])]
    return Emitted(
        body=lines,
        blocks=blocks,
        threads=schedule.threads,
        helpers=(*found, device_code("column_reduce"), *helpers(columns.found)),
        parameters=("int WIDTH",) if variants else (),
        variants=tuple(variants),
    )


def _blocks(columns: ColumnWriter, width: int) -> str:
    *outer, last = columns.kernel.axes
    tiles = indices.tiles(last.extent, 32 * width)
    return text(indices.product([*(axis.extent for axis in outer), tiles]))


def _place(columns: ColumnWriter) -> list[str]:
    """Which columns this thread has; threads beyond the last one work on none."""
    *outer, last = columns.kernel.axes
    narrow = fits(columns.plan, indices.product(axis.extent for axis in columns.kernel.axes))
    kind = "unsigned" if narrow else "int64_t"
    extent = text(last.extent)
    lines = [f"const {kind} tiles = ({extent} + 32 * WIDTH - 1) / (32 * WIDTH);"]
    if outer:
        lines.append(f"const {kind} place = blockIdx.x / tiles;")
        lines += declared("place", outer, {axis.name for axis in outer}, narrow=narrow)
    tile = "blockIdx.x % tiles" if outer else "blockIdx.x"
    return [
        *(lines if outer else []),
        f"const int64_t {FIRST} = ({tile}) * (int64_t)(32 * WIDTH) + threadIdx.x % 32 * WIDTH;",
        f"const bool inside = {FIRST} < {extent};",
    ]


def _over_rows(
    columns: ColumnWriter, expressions: list[Expression], lines: list[str], short: "Short | None" = None
) -> list[str]:
    """The loop over this warp's rows: their vectors, then what is done with them. With `short`, several rows
    are summed up shortly first."""
    unroll = columns.schedule.unroll
    early, packs = _packs(columns, expressions)
    rows = _row_loop(columns)
    if short is None:
        pragma = [f"#pragma unroll {unroll}"] if unroll > 1 else []
        head = f"for (int64_t {rows.name} = {rows.first}; {rows.name} < {rows.end}; {rows.name} += WARPS) {{"
        loop = [*early, *pragma, head, *indented([*rows.inside, *packs, *lines]), "}"]
        return ["if (inside) {", *indented(loop), "}"]
    together = [
        *short.before,
        "#pragma unroll",
        f"for (int turn = 0; turn < {unroll}; ++turn) {{",
        f"  const int64_t {rows.name} = row + turn * WARPS;",
        *indented([*rows.inside, *packs, *short.lines]),
        "}",
        *short.after,
    ]
    loop = [
        *early,
        f"int64_t row = {rows.first};",
        f"for (; row + {unroll - 1} * WARPS < {rows.end}; row += {unroll} * WARPS) {{",
        *indented(together),
        "}",
        f"for (; row < {rows.end}; row += WARPS) {{",
        *indented([f"const int64_t {rows.name} = row;", *rows.inside, *packs, *lines]),
        "}",
    ]
    return ["if (inside) {", *indented(loop), "}"]


@dataclass(frozen=True)
class Short:
    """Sums of a few rows in the elements' own type: where they begin, the taking, and how they are added to
    the long ones, which are kept in double."""

    before: list[str]
    lines: list[str]
    after: list[str]


def _packs(columns: ColumnWriter, expressions: list[Expression]) -> tuple[list[str], list[str]]:
    """The reads of vectors that the expressions need: those that are the same in all rows, and the others."""
    kernel = columns.kernel
    used = {load for expression in expressions for load in loads(expression)}
    reduced = {axis.name for axis in kernel.reduced}
    early: list[str] = []
    packs: list[str] = []
    for load, name in columns.access.reads.items():
        if load not in used:
            continue
        once = columns.schedule.streaming and passes_with(kernel, load) == 1
        read = read_text(load, columns.render, columns.access.along, once=once)
        kind = vector_type(columns.plan.buffers[load.buffer])
        moving = bool(indices.names(columns.render.address(load)) & reduced)
        (packs if moving else early).append(f"const {kind} {name}_at = {read};")
    return early, packs


@dataclass(frozen=True)
class RowLoop:
    """The loop over rows: its variable, from where to where, and the reduced axes' variables in it."""

    name: str
    first: str
    end: str
    inside: list[str]


def _row_loop(columns: ColumnWriter) -> RowLoop:
    reduced = columns.kernel.reduced
    if len(reduced) == 1:
        axis = reduced[0]
        start, end, name, inside = axis.begin, text(axis.end), axis.name, []
    else:
        outer, *rest = reduced
        step = indices.product(axis.extent for axis in rest)
        start, end, name = indices.multiply(outer.begin, step), text(indices.multiply(outer.end, step)), "r"
        narrow = fits(columns.plan, indices.multiply(outer.extent, step))
        inside = declared("(unsigned)r" if narrow else "r", reduced, {a.name for a in reduced}, narrow=narrow)
    first = "threadIdx.x / 32" if indices.is_number(start, 0) else f"{text(start)} + threadIdx.x / 32"
    return RowLoop(name, first, end, inside)


def _lanes(columns: ColumnWriter, expressions: list[Expression], lines: list[str]) -> list[str]:
    """A loop over the columns of a vector, with the results of earlier stages and the column's number."""
    along = columns.access.along.name
    needed = {part.stage for e in expressions for part in walk(e) if isinstance(part, Reduced)}
    named = [a.result(f"{a.name}[lane]") for a in columns.found if a.stage.name in needed]
    if along in mentioned(expressions, columns.access):
        named.append(f"const int64_t {along} = {FIRST} + lane;")
    return ["#pragma unroll", "for (int lane = 0; lane < WIDTH; ++lane) {", *indented([*named, *lines]), "}"]


def _pass(columns: ColumnWriter, group: list[Stage]) -> list[str]:
    """One pass for stages that do not need each other, and their results for every thread."""
    found = [accumulator for accumulator in columns.found if accumulator.stage in group]
    bodies = [stage.body for stage in group]
    starts, combined = [], []
    for a in found:
        starts.append(f"{a.name}[lane] = {a.start};")
        combined.append(f"{a.name}[lane] = column_reduce<WARPS>({a.name}[lane], {a.functor}());")
    return [
        *(f"{a.type} {a.name}[WIDTH];" for a in found),
        *_lanes(columns, [], starts),
        *_over_rows(columns, bodies, _taken(columns, found), _short(columns, found)),
        *_lanes(columns, [], combined),
    ]


def _taken(
    columns: ColumnWriter, found: Sequence[Accumulator], short: Sequence[Accumulator] = ()
) -> list[str]:
    """What is done with the vectors of a row; some sums are `short` ones."""
    lane = []
    for a in found:
        name = f"{a.stage.name}_here" if a in short else a.name
        lane += a.take(f"{name}[lane]", columns.render.expression(a.stage.body))
    return _lanes(columns, [a.stage.body for a in found], lane)


def _short(columns: ColumnWriter, found: Sequence[Accumulator]) -> Short | None:
    """CUDA statements that sum the rows of one unrolled step first and add that to the double accumulator
    once, since an addition in double takes longer than a load; None if nothing is unrolled or in double."""
    exact = [a for a in found if a.exact]
    if columns.schedule.unroll == 1 or not exact:
        return None
    before = [f"{a.kind} {a.stage.name}_here[WIDTH] = {{}};" for a in exact]
    after = [f"{a.name}[lane] += {a.stage.name}_here[lane];" for a in exact]
    return Short(before, _taken(columns, found, exact), _lanes(columns, [], after))


def _element_stores(columns: ColumnWriter) -> list[str]:
    stores = [store for store in columns.kernel.stores if store.each]
    values = [store.value for store in stores]
    return _over_rows(columns, values, _stored(columns, stores)) if stores else []


def _column_stores(columns: ColumnWriter) -> list[str]:
    stores = [store for store in columns.kernel.stores if not store.each]
    if not stores:
        return []
    packs, _ = _packs(columns, [store.value for store in stores])
    return ["if (inside && threadIdx.x < 32) {", *indented([*packs, *_stored(columns, stores)]), "}"]


def _stored(columns: ColumnWriter, stores: list[Store]) -> list[str]:
    """Vectors of results, or single ones where they are not contiguous."""
    before, after = [], []
    for store in stores:
        if store in columns.access.writes:
            name = columns.access.writes[store]
            before.append(f"{vector_type(columns.plan.buffers[store.buffer])} {name}_at;")
            once = columns.schedule.streaming and store.each
            after.append(write_text(store, name, columns.render, columns.access.along, once=once))
    lane = [assign(store, columns.plan, columns.render) for store in stores]
    return [*before, *_lanes(columns, [store.value for store in stores], lane), *after]
