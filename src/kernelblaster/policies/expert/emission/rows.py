"""Rows: reductions, normalizations and maps along memory, by the lanes of a warp, a block or a cluster.

Stages that do not need each other's results share one pass over the row. Each thread moves vectors of
neighbours (row_vectors.py); it may keep some of them in registers, so that later passes read no memory for
them. The blocks of a cluster may share a long row (cluster_rows.py). A map has rows without stages.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.emission import cluster_rows, unaligned_rows
from kernelblaster.policies.expert.emission.accumulators import Accumulator, helpers
from kernelblaster.policies.expert.emission.assign import assign
from kernelblaster.policies.expert.emission.emitted import Emitted, Variant
from kernelblaster.policies.expert.emission.hoisting import hoisted
from kernelblaster.policies.expert.emission.loops import count, indented
from kernelblaster.policies.expert.emission.row_vectors import (
    axes,
    divider,
    divides,
    each,
    keeping,
    pack_range,
    places,
    position,
    readers,
    straightened,
)
from kernelblaster.policies.expert.emission.row_writer import RowWriter, row_writer
from kernelblaster.policies.expert.emission.vectors import FIRST, aligned, vector_type, write_text
from kernelblaster.policies.expert.expression import Expression
from kernelblaster.policies.expert.index import text
from kernelblaster.policies.expert.plan import Kernel, Plan, Stage
from kernelblaster.policies.expert.row_kernel import RUNNING, element_bytes, keeps_all, kept_elements, passes
from kernelblaster.policies.expert.schedule import (
    BlockRowMap,
    BlockRows,
    ClusterRows,
    WarpRowMap,
    WarpRows,
    row_threads,
    rows_per_block,
)
from kernelblaster.policies.expert.vector_access import mentioned

SCHEDULES = (WarpRowMap, BlockRowMap, WarpRows, BlockRows, ClusterRows)


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    rows = row_writer(kernel, plan)
    schedule, total = rows.schedule, _count(rows)
    found = [line for group in passes(rows.kernel) for line in _pass(rows, group)]
    lines = [f"constexpr int THREADS = {row_threads(schedule)};", *_row(rows)]
    if rows.persistent:
        lines += [*divider(rows), *pack_range(rows), *places(rows), *keeping(rows), "for (;;) {"]
        more = [*axes(rows), *readers(rows), *each(rows), *found]
        more += cluster_rows.find_next_row(*rows.row, total)
        more += [*each(rows, last=True), *_element_stores(rows), *_row_stores(rows)]
        lines += [*indented([*more, *cluster_rows.step_to_next_row(rows.row[1])]), "}"]
    else:
        lines += [*axes(rows), *divider(rows), *pack_range(rows), *places(rows), *readers(rows)]
        lines += [*keeping(rows), *each(rows), *found, *_element_stores(rows), *_row_stores(rows)]
    together = rows_per_block(schedule)
    blocks = f"({total} + {together - 1}) / {together}" if together > 1 else total
    shared, blocks_per_sm = 0, 0
    if isinstance(schedule, ClusterRows):
        blocks = cluster_rows.blocks(schedule, total)
        shared = schedule.shared_elements * schedule.threads * element_bytes(rows.kept, plan)
        blocks_per_sm = schedule.blocks_per_sm
    return Emitted(
        body=lines,
        blocks=blocks,
        threads=schedule.threads,
        helpers=_helpers(rows),
        shared=shared,
        blocks_per_sm=blocks_per_sm,
        cluster=rows.cluster,
        parameters=("int WIDTH", "bool REST") if rows.kept else ("int WIDTH",),
        variants=tuple(_variants(rows, blocks)),
    )


def _variants(rows: RowWriter, blocks: str) -> Iterator[Variant]:
    """Vectors where they are aligned, and no loop over the rest where all of a row is kept."""
    width = str(rows.schedule.vector_width)
    condition = "" if rows.unaligned is not None else aligned(rows.access, rows.schedule.vector_width)
    rest = ("true",) if rows.kept else ()
    if rows.kept and keeps_all(rows.kernel, rows.schedule, rows.plan):
        length = indices.product(axis.extent for axis in rows.kernel.reduced)
        fitting = f"{text(length)} <= {kept_elements(rows.schedule)}"
        yield Variant((width, "false"), " && ".join(filter(None, (condition, fitting))), blocks)
    yield Variant((width, *rest), condition, blocks)
    if condition:
        yield Variant(("1", *rest), "", blocks)


def _count(rows: RowWriter) -> str:
    """How many rows there are."""
    return count([axis.extent for axis in rows.kernel.axes])


def _row(rows: RowWriter) -> list[str]:
    """Which row this is."""
    kind, name = rows.row
    lines = ["const int thread = threadIdx.x;"]
    if isinstance(rows.schedule, ClusterRows):
        lines += cluster_rows.head(rows.schedule, _count(rows))
    if rows.by_warps:
        together = rows_per_block(rows.schedule)
        lines = [
            "const int thread = threadIdx.x % THREADS;",
            f"const {kind} {name} = blockIdx.x * ({kind}){together} + threadIdx.x / THREADS;",
            f"if ({name} >= {_count(rows)}) return;",
        ]
        if row_threads(rows.schedule) < WARP:
            one_row = f"0xffffffffu >> ({WARP} - THREADS)"
            lines.append(
                f"const unsigned members = ({one_row}) << (threadIdx.x % {WARP} - thread);  // of the row"
            )
    elif rows.kernel.axes:
        kind = kind if rows.persistent else f"const {kind}"
        lines.append(f"{kind} {name} = blockIdx.x{' / BLOCKS' if rows.cluster > 1 else ''};")
    return lines


@dataclass
class Taking:
    """What a pass does with each vector: before, for each, and after its elements. `places` are loop
    variables that are needed beside those that `values` mention."""

    values: list[Expression]
    before: list[str] = field(default_factory=list)
    element: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)


def _over_packs(rows: RowWriter, taking: Taking, giving: str = "each") -> list[str]:
    ends = rows.unaligned is not None
    arguments = [f"int64_t {FIRST}" if ends else f"{rows.number} at"]
    for load, name in rows.access.reads.items():
        kind = "auto" if ends else vector_type(rows.plan.buffers[load.buffer])
        arguments.append(f"const {kind}& {name}_at")
    inner = rows.access.along.name
    reduced = {axis.name for axis in rows.kernel.reduced}
    names = (mentioned(taking.values, rows.access) | taking.places) & (reduced | {FIRST, RUNNING})
    element = taking.element
    if inner in names:
        names = names - {inner} | {FIRST}
        element = [f"const int64_t {inner} = {FIRST} + lane;", *element]
    return [
        f"{giving}([&]({', '.join(arguments)}) {{",
        *indented(
            [unaligned_rows.lanes(next(iter(rows.access.reads.values())))] if ends else position(rows, names)
        ),
        *indented(taking.before),
        "  #pragma unroll",
        f"  for (int lane = 0; lane < {_lanes(rows)}; ++lane) {{",
        *indented(indented(element)),
        "  }",
        *indented(taking.after),
        "});",
    ]


def _lanes(rows: RowWriter) -> str:
    """Elements of the vector that a pass is given."""
    return unaligned_rows.LANES if rows.unaligned is not None else "WIDTH"


def _pass(rows: RowWriter, group: list[Stage]) -> list[str]:
    """One pass for stages that do not need each other, and their results."""
    all_found = [accumulator for accumulator in rows.found if accumulator.stage in group]
    given = {a: part for a in all_found for other in all_found if (part := other.given(a.stage))}
    found = [a for a in all_found if a not in given]
    lines, bodies = _once(rows, [a.stage.body for a in found], group[0].name)
    lines += [f"{a.type} {a.name} = {a.start};" for a in found]
    closing: list[str] = []
    taking = Taking(bodies)
    for a, body in zip(found, bodies, strict=True):
        value = rows.render.expression(body)
        way = a.by_packs(_lanes(rows))
        lines += way.first
        closing += way.last
        taking.before += way.before
        taking.element += [way.element.format(value)] if way.element else a.take(way.running, value)
        taking.after += way.after
        if a.stage.combine in ("argmax", "argmin"):
            taking.places |= {axis.name for axis in rows.kernel.reduced}
    lines += [*_over_packs(rows, taking), *closing]
    return [*lines, *_combined(rows, found), *(a.result(given.get(a, a.name)) for a in all_found)]


def _combined(rows: RowWriter, found: list[Accumulator]) -> list[str]:
    """Combines what the threads of a row have found."""
    match rows.schedule:
        case ClusterRows():
            return cluster_rows.combine({rows.found.index(a): a for a in found})
        case WarpRows(lanes=lanes) if lanes < WARP:
            reduce, members = "warp_reduce<THREADS>", ", members"
        case WarpRows():
            reduce, members = "warp_reduce", ""
        case BlockRows(shuffles=True):
            reduce, members = "block_shuffle_reduce<THREADS>", ""
        case _:
            reduce, members = "block_reduce", ""
    return [f"{a.name} = {reduce}({a.name}, {a.functor}(){members});" for a in found]


def _element_stores(rows: RowWriter) -> list[str]:
    stores = [store for store in rows.kernel.stores if store.each]
    if not stores:
        return []
    lines, values = _once(rows, [store.value for store in stores], stores[0].buffer)
    taking = Taking(values)
    for store, value in zip(stores, values, strict=True):
        names = set().union(*(indices.names(index) for index in store.position))
        if store in rows.access.writes:
            name = rows.access.writes[store]
            place, names = straightened(rows, store)
            once = rows.schedule.streaming
            width = _lanes(rows)
            taking.before.append(f"{vector_type(rows.plan.buffers[store.buffer], width)} {name}_at;")
            taking.after.append(
                write_text(place, name, rows.render, rows.access.along, once=once, width=width)
            )
        taking.places |= names
        taking.element.append(assign(replace(store, value=value), rows.plan, rows.render))
    return lines + _over_packs(rows, taking, "last" if rows.persistent else "each")


def _once(rows: RowWriter, values: list[Expression], prefix: str) -> tuple[list[str], list[Expression]]:
    return hoisted(values, {axis.name for axis in rows.kernel.reduced}, rows.render, prefix)


def _row_stores(rows: RowWriter) -> list[str]:
    lines = [assign(s, rows.plan, rows.render) for s in rows.kernel.stores if not s.each]
    one = "thread == 0 && rank == 0" if rows.cluster > 1 else "thread == 0"
    return [f"if ({one}) {{", *indented(lines), "}"] if lines else []


def _helpers(rows: RowWriter) -> tuple[str, ...]:
    found = ["pack"] if rows.access.reads or rows.access.writes else []
    match rows.schedule:
        case WarpRows():
            found += ["warp_reduce"]
        case ClusterRows() | BlockRows(shuffles=True):
            found += ["warp_reduce", "block_shuffle_reduce"]
        case BlockRows():
            found += ["block_reduce"]
    found += ["divider"] if divides(rows) else []
    found += cluster_rows.HELPERS if rows.cluster > 1 else []
    found += ["streaming"] if rows.schedule.streaming else []
    return (*map(device_code, found), *helpers(rows.found))
