"""Rows: reductions, normalizations and maps along memory, by the lanes of a warp or the threads of a block.

Stages that do not need each other's results share one pass over the row. Each thread moves packs of
neighbours (row_packs.py); it may keep some of them in registers, so that later passes read no memory for
them. Several blocks may share a long row (across.py). A pointwise kernel is rows without stages.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert import emit as emitting
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.expression import Expression
from kernelblaster.policies.expert.families import across, peeled
from kernelblaster.policies.expert.families.accumulators import Accumulator, helpers
from kernelblaster.policies.expert.families.assign import assign
from kernelblaster.policies.expert.families.fixed import fixed
from kernelblaster.policies.expert.families.loops import indented
from kernelblaster.policies.expert.families.near import (
    FIRST,
    mentioned,
    pack_type,
    write_text,
)
from kernelblaster.policies.expert.families.row_kernel import (
    RUNNING,
    Rows,
    element_bytes,
    keeps_all,
    kept_elements,
    passes,
    rows_of,
)
from kernelblaster.policies.expert.families.row_packs import (
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
from kernelblaster.policies.expert.index import text
from kernelblaster.policies.expert.plan import Kernel, Plan, Stage


def emit(kernel: Kernel, plan: Plan) -> emitting.Emitted:
    rows = rows_of(kernel, plan)
    schedule = rows.kernel.schedule
    found = [line for group in passes(rows.kernel) for line in _pass(rows, group)]
    lines = [f"constexpr int THREADS = {schedule.row_threads};", *_row(rows)]
    if schedule.stays:
        lines += [*divider(rows), *pack_range(rows), *places(rows), *keeping(rows), "for (;;) {"]
        more = [*axes(rows), *readers(rows), *each(rows), *found, *across.onward(*rows.row, _count(rows))]
        more += [
            *each(rows, last=True),
            *_element_stores(rows),
            *_row_stores(rows),
            *across.upon(rows.row[1]),
        ]
        lines += [*indented(more), "}"]
    else:
        lines += [*axes(rows), *divider(rows), *pack_range(rows), *places(rows), *readers(rows)]
        lines += [*keeping(rows), *each(rows), *found, *_element_stores(rows), *_row_stores(rows)]
    each_bytes = element_bytes(rows.kept, plan)
    total = _count(rows)
    together = schedule.rows_together
    blocks = f"({total} + {together - 1}) / {together}" if together > 1 else total
    if rows.cluster > 1:
        blocks = across.blocks(schedule, each_bytes, total)
    shared = across.shared_bytes(schedule, each_bytes) if rows.cluster > 1 else 0
    return emitting.Emitted(
        body=lines,
        blocks=blocks,
        threads=schedule.threads,
        helpers=_helpers(rows),
        shared=shared,
        per_processor=across.blocks_per_processor(schedule, each_bytes) if rows.cluster > 1 else 0,
        cluster=rows.cluster,
        template=f"template <int WIDTH{', bool REST' if rows.kept else ''}>",
        variants=tuple(_variants(rows, blocks)),
    )


def _variants(rows: Rows, blocks: str) -> Iterator[emitting.Variant]:
    """Packs where they are aligned, and no loop over the rest where all of a row is kept."""
    width = rows.kernel.schedule.vector_width
    aligned = "" if rows.start is not None else rows.near.condition(width)
    rest = ", true" if rows.kept else ""
    if rows.kept and keeps_all(rows.kernel, rows.plan):
        count = indices.product(axis.extent for axis in rows.kernel.reduced)
        fitting = f"{text(count)} <= {kept_elements(rows.kernel)}"
        yield emitting.Variant(f"{width}, false", " && ".join(filter(None, (aligned, fitting))), blocks)
    yield emitting.Variant(f"{width}{rest}", aligned, blocks)
    if aligned:
        yield emitting.Variant(f"1{rest}", "", blocks)


def _count(rows: Rows) -> str:
    """How many rows there are."""
    return emitting.count([axis.extent for axis in rows.kernel.axes])


def _row(rows: Rows) -> list[str]:
    """Which row this is."""
    kind, name = rows.row
    lines = ["const int thread = threadIdx.x;"]
    if rows.cluster > 1:
        lines += across.head(rows.kernel.schedule, element_bytes(rows.kept, rows.plan), _count(rows))
    if rows.kernel.schedule.workers == "warp":
        together = rows.kernel.schedule.rows_together
        lines = [
            "const int thread = threadIdx.x % THREADS;",
            f"const {kind} {name} = blockIdx.x * ({kind}){together} + threadIdx.x / THREADS;",
            f"if ({name} >= {_count(rows)}) return;",
        ]
        if rows.kernel.schedule.row_threads < WARP:
            one_row = f"0xffffffffu >> ({WARP} - THREADS)"
            lines.append(
                f"const unsigned members = ({one_row}) << (threadIdx.x % {WARP} - thread);  // of the row"
            )
    elif rows.kernel.axes:
        kind = kind if rows.kernel.schedule.stays else f"const {kind}"
        lines.append(f"{kind} {name} = blockIdx.x{' / BLOCKS' if rows.cluster > 1 else ''};")
    return lines


@dataclass
class Taking:
    """What a pass over a row does with each vector (pack) of `values`: CUDA statements before its elements,
    for each element, and after them. `places` are loop variables that must be defined beside those that
    occur in `values`."""

    values: list[Expression]
    before: list[str] = field(default_factory=list)
    element: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)


def _over_packs(rows: Rows, taking: Taking, giving: str = "each") -> list[str]:
    ends = rows.start is not None
    arguments = [f"int64_t {FIRST}" if ends else f"{rows.number} at"]
    for load, name in rows.near.reads.items():
        kind = "auto" if ends else pack_type(rows.plan.buffers[load.buffer])
        arguments.append(f"const {kind}& {name}_at")
    inner = rows.near.along.name
    reduced = {axis.name for axis in rows.kernel.reduced}
    names = (mentioned(taking.values, rows.near) | taking.places) & (reduced | {FIRST, RUNNING})
    element = taking.element
    if inner in names:
        names = names - {inner} | {FIRST}
        element = [f"const int64_t {inner} = {FIRST} + lane;", *element]
    return [
        f"{giving}([&]({', '.join(arguments)}) {{",
        *indented([peeled.lanes(next(iter(rows.near.reads.values())))] if ends else position(rows, names)),
        *indented(taking.before),
        "  #pragma unroll",
        f"  for (int lane = 0; lane < {_lanes(rows)}; ++lane) {{",
        *indented(indented(element)),
        "  }",
        *indented(taking.after),
        "});",
    ]


def _lanes(rows: Rows) -> str:
    """Elements of the pack that a pass is given."""
    return peeled.LANES if rows.start is not None else "WIDTH"


def _pass(rows: Rows, group: list[Stage]) -> list[str]:
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


def _combined(rows: Rows, found: list[Accumulator]) -> list[str]:
    """Combines what the threads of a row have found."""
    if rows.cluster > 1:
        return across.met({rows.found.index(a): a for a in found})
    schedule = rows.kernel.schedule
    reduce = "block_shuffle_reduce<THREADS>" if schedule.shuffles else "block_reduce"
    few = schedule.row_threads < WARP
    if schedule.workers == "warp":
        reduce = "warp_reduce<THREADS>" if few else "warp_reduce"
    members = ", members" if few else ""
    return [f"{a.name} = {reduce}({a.name}, {a.functor}(){members});" for a in found]


def _element_stores(rows: Rows) -> list[str]:
    stores = [store for store in rows.kernel.stores if store.each]
    if not stores:
        return []
    lines, values = _once(rows, [store.value for store in stores], stores[0].buffer)
    taking = Taking(values)
    for store, value in zip(stores, values, strict=True):
        names = set().union(*(indices.names(index) for index in store.position))
        if store in rows.near.writes:
            name = rows.near.writes[store]
            place, names = straightened(rows, store)
            once = rows.kernel.schedule.streaming
            width = _lanes(rows)
            taking.before.append(f"{pack_type(rows.plan.buffers[store.buffer], width)} {name}_at;")
            taking.after.append(write_text(place, name, rows.render, rows.near.along, once=once, width=width))
        taking.places |= names
        taking.element.append(assign(replace(store, value=value), rows.plan, rows.render))
    return lines + _over_packs(rows, taking, "last" if rows.kernel.schedule.stays else "each")


def _once(rows: Rows, values: list[Expression], prefix: str) -> tuple[list[str], list[Expression]]:
    return fixed(values, {axis.name for axis in rows.kernel.reduced}, rows.render, prefix)


def _row_stores(rows: Rows) -> list[str]:
    lines = [assign(s, rows.plan, rows.render) for s in rows.kernel.stores if not s.each]
    one = "thread == 0 && rank == 0" if rows.cluster > 1 else "thread == 0"
    return [f"if ({one}) {{", *indented(lines), "}"] if lines else []


def _helpers(rows: Rows) -> tuple[str, ...]:
    schedule = rows.kernel.schedule
    found = [device_code("pack")] if rows.near.reads or rows.near.writes else []
    if rows.kernel.stages:
        if schedule.workers == "warp" or schedule.shuffles:
            found.append(device_code("warp_reduce"))
        if schedule.workers != "warp":
            found.append(device_code("block_shuffle_reduce" if schedule.shuffles else "block_reduce"))
    found += [device_code("divider")] if divides(rows) else []
    found += across.helpers() if rows.cluster > 1 else []
    if schedule.streaming:
        found.append(device_code("streaming"))
    return (*found, *helpers(rows.found))
