"""Rows: reductions, normalizations and maps along memory, by the lanes of a warp or the threads of a block.

Stages that do not need each other's results share one pass over the row. Each thread moves packs of
neighbours; it may keep some of them in registers, so that later passes read no memory for them. A
pointwise kernel is rows without stages.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from kernelblaster.policies.expert import emit as emitting
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.expression import Expression, Gather, Load, Reduced, loads, walk
from kernelblaster.policies.expert.families.accumulators import Accumulator, accumulators, helpers
from kernelblaster.policies.expert.families.assign import assign
from kernelblaster.policies.expert.families.loops import indented
from kernelblaster.policies.expert.families.near import (
    FIRST,
    Near,
    NearRenderer,
    declared,
    fits,
    mentioned,
    near,
    near_renderer,
    pack_type,
    read_text,
    write_text,
)
from kernelblaster.policies.expert.flatten import flattened
from kernelblaster.policies.expert.index import Index, text
from kernelblaster.policies.expert.plan import Kernel, Plan, Stage


@dataclass(frozen=True)
class Rows:
    """A kernel as rows, with what is needed to write it."""

    kernel: Kernel
    plan: Plan
    near: Near
    render: NearRenderer
    found: Sequence[Accumulator]

    @property
    def narrow(self) -> bool:
        return fits(self.plan, indices.product(axis.extent for axis in self.kernel.reduced))

    @property
    def number(self) -> str:
        """The type that counts packs."""
        return "int" if self.narrow else "int64_t"

    @property
    def kept(self) -> dict[Load | Gather, str]:
        """Packs that stay in registers: those that more than one pass needs."""
        if not self.kernel.schedule.kept:
            return {}
        return {load: name for load, name in self.near.reads.items() if passes_with(self.kernel, load) > 1}


def as_rows(kernel: Kernel) -> Kernel:
    """A pointwise kernel as rows without stages; any other as it is."""
    if kernel.stages:
        return kernel
    stores = tuple(replace(store, each=True) for store in kernel.stores)
    return replace(kernel, axes=kernel.axes[:-1], reduced=kernel.axes[-1:], stores=stores)


def rows_of(kernel: Kernel, plan: Plan) -> Rows:
    kernel = as_rows(flattened(kernel, plan))
    found = near(kernel, plan, kernel.reduced[-1])
    render = near_renderer(emitting.renderer(plan), found)
    return Rows(kernel, plan, found, render, accumulators(kernel, plan))


def passes(kernel: Kernel) -> list[list[Stage]]:
    """Stages in the order of their needs; those of one list do not need each other."""
    depth: dict[str, int] = {}
    for stage in kernel.stages:
        needed = [part.stage for part in walk(stage.body) if isinstance(part, Reduced)]
        depth[stage.name] = 1 + max((depth[name] for name in needed), default=-1)
    levels = sorted(set(depth.values()))
    return [[stage for stage in kernel.stages if depth[stage.name] == level] for level in levels]


def passes_with(kernel: Kernel, load: Load | Gather) -> int:
    """How many passes over the row need what a load reads."""
    bodies = [[stage.body for stage in group] for group in passes(kernel)]
    bodies.append([store.value for store in kernel.stores if store.each])
    return sum(any(load in loads(body) for body in group) for group in bodies)


def emit(kernel: Kernel, plan: Plan) -> emitting.Emitted:
    rows = rows_of(kernel, plan)
    schedule = rows.kernel.schedule
    lines = [
        f"constexpr int THREADS = {32 if schedule.workers == 'warp' else schedule.threads};",
        *_row(rows),
        *_range(rows),
        *_readers(rows),
        *_kept(rows),
        *_each(rows),
        *(line for group in passes(rows.kernel) for line in _pass(rows, group)),
        *_element_stores(rows),
        *_row_stores(rows),
    ]
    total = emitting.count([axis.extent for axis in rows.kernel.axes])
    together = schedule.threads // 32 if schedule.workers == "warp" else 1
    blocks = f"({total} + {together - 1}) / {together}" if together > 1 else total
    return emitting.Emitted(
        body=lines,
        blocks=blocks,
        threads=schedule.threads,
        helpers=_helpers(rows),
        template=f"template <int WIDTH{', bool REST' if rows.kept else ''}>",
        variants=tuple(_variants(rows, blocks)),
    )


def _variants(rows: Rows, blocks: str) -> Iterator[emitting.Variant]:
    """Packs where they are aligned, and no loop over the rest where all of a row is kept."""
    width = rows.kernel.schedule.vector_width
    aligned = rows.near.condition(width)
    rest = ", true" if rows.kept else ""
    if rows.kept and keeps_all(rows.kernel, rows.plan):
        count = indices.product(axis.extent for axis in rows.kernel.reduced)
        fitting = f"{text(count)} <= {kept_elements(rows.kernel)}"
        yield emitting.Variant(f"{width}, false", " && ".join(filter(None, (aligned, fitting))), blocks)
    yield emitting.Variant(f"{width}{rest}", aligned, blocks)
    if aligned:
        yield emitting.Variant(f"1{rest}", "", blocks)


def _row(rows: Rows) -> list[str]:
    """Which row this is, and the variables of its axes."""
    axes = rows.kernel.axes
    total = indices.product(axis.extent for axis in axes)
    narrow = fits(rows.plan, total)
    kind = "unsigned" if narrow else "int64_t"
    one = len(axes) == 1
    name = axes[0].name if one else "row"
    kind = "int64_t" if one else kind
    lines = ["const int thread = threadIdx.x;"]
    if rows.kernel.schedule.workers == "warp":
        together = rows.kernel.schedule.threads // 32
        lines = [
            "const int thread = threadIdx.x % 32;",
            f"const {kind} {name} = blockIdx.x * ({kind}){together} + threadIdx.x / 32;",
            f"if ({name} >= {text(total)}) return;",
        ]
    elif axes:
        lines.append(f"const {kind} {name} = blockIdx.x;")
    return lines if one else [*lines, *declared("row", axes, {axis.name for axis in axes}, narrow=narrow)]


def _range(rows: Rows) -> list[str]:
    """The packs of the row: all of them, or those of this part."""
    outer, *rest = rows.kernel.reduced
    step = indices.product(axis.extent for axis in rest)
    kind = rows.number
    end = text(indices.multiply(outer.end, step))
    lines = [f"const {kind} packs = ({end}) / WIDTH;"]
    if outer.part is not None:
        begin = text(indices.multiply(outer.begin, step))
        lines.insert(0, f"const {kind} begin = ({begin}) / WIDTH;")
    return lines


def _start(rows: Rows) -> str:
    return "begin + thread" if rows.kernel.reduced[0].part is not None else "thread"


def _position(rows: Rows, names: set[str]) -> list[str]:
    """From a pack's number to the loops' variables at its first element."""
    *outer, inner = rows.kernel.reduced
    if not outer:
        return [f"const int64_t {FIRST} = (int64_t)at * WIDTH;"] if FIRST in names else []
    if not names:
        return []
    kind = "unsigned" if rows.narrow else "int64_t"
    named = [*outer, replace(inner, name=FIRST, part=None)]
    return [f"const {kind} j = at * WIDTH;", *declared("j", named, names, narrow=rows.narrow)]


def _place_names(rows: Rows, address: Index) -> set[str]:
    return {FIRST} | (indices.names(address) & {axis.name for axis in rows.kernel.reduced})


def _readers(rows: Rows) -> list[str]:
    """A function for each tensor that gives the pack of a number."""
    lines = []
    streaming = rows.kernel.schedule.streaming
    for load, name in rows.near.reads.items():
        once = streaming and _moves(rows, load) and _read_once(rows, load)
        lines.append(f"auto read_{name} = [&]({rows.number} at) {{")
        lines += indented(_position(rows, _place_names(rows, rows.render.address(load))))
        lines += [f"  return {read_text(load, rows.render, rows.near.along, once=once)};", "};"]
    return lines


def _read_once(rows: Rows, load: Load | Gather) -> bool:
    """Whether one pass needs it, or all of a row is kept in the primary workload."""
    return passes_with(rows.kernel, load) == 1 or (load in rows.kept and keeps_all(rows.kernel, rows.plan))


def keeps_all(kernel: Kernel, plan: Plan) -> bool:
    """Whether the primary workload's rows fit in what threads keep."""
    return kept_elements(kernel) >= plan.elements(kernel.reduced)


def kept_elements(kernel: Kernel) -> int:
    """How many elements of a row the threads keep together."""
    chosen = kernel.schedule
    return chosen.kept * (32 if chosen.workers == "warp" else chosen.threads)


def _moves(rows: Rows, load: Load | Gather) -> bool:
    """Whether every row has elements of its own."""
    mentioned_here = indices.names(rows.render.address(load))
    return all(axis.name in mentioned_here for axis in rows.kernel.axes) and isinstance(load, Load)


def _kept(rows: Rows) -> list[str]:
    if not rows.kept:
        return []
    lines = [
        f"constexpr int KEPT = {rows.kernel.schedule.kept} / WIDTH;  // packs in each thread's registers"
    ]
    for load, name in rows.kept.items():
        lines.append(f"{pack_type(rows.plan.buffers[load.buffer])} {name}_kept[KEPT];")
    reads = [f"if (at < packs) {name}_kept[k] = read_{name}(at);" for name in rows.kept.values()]
    return [
        *lines,
        "#pragma unroll",
        "for (int k = 0; k < KEPT; ++k) {",
        f"  const {rows.number} at = {_start(rows)} + k * THREADS;",
        *indented(reads),
        "}",
    ]


def _each(rows: Rows) -> list[str]:
    """A function that gives all packs of this thread to another one."""
    names = list(rows.near.reads.values())
    again = ", ".join(["at", *(f"read_{name}(at)" for name in names)])
    start = _start(rows)
    lines = ["auto each = [&](auto take) {"]
    if rows.kept:
        kept = set(rows.kept.values())
        first = ", ".join(["at", *(f"{n}_kept[k]" if n in kept else f"read_{n}(at)" for n in names)])
        lines += [
            "  #pragma unroll",
            "  for (int k = 0; k < KEPT; ++k) {",
            f"    const {rows.number} at = {start} + k * THREADS;",
            f"    if (at < packs) take({first});",
            "  }",
        ]
        start += " + KEPT * THREADS"
    return [*lines, *indented(_rest(rows, start, again)), "};"]


def _rest(rows: Rows, start: str, arguments: str) -> list[str]:
    """The loop over the packs that are not kept."""
    unroll = rows.kernel.schedule.unroll
    loop = [f"#pragma unroll {unroll}"] if unroll > 1 else []
    loop.append(f"for ({rows.number} at = {start}; at < packs; at += THREADS) take({arguments});")
    return ["if constexpr (REST) {", *indented(loop), "}"] if rows.kept else loop


@dataclass
class Taking:
    """What a pass does with each pack: before, for each, and after its elements. `places` are loop
    variables that are needed beside those that `values` mention."""

    values: list[Expression]
    before: list[str] = field(default_factory=list)
    element: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)


def _over_packs(rows: Rows, taking: Taking) -> list[str]:
    arguments = [f"{rows.number} at"]
    for load, name in rows.near.reads.items():
        arguments.append(f"const {pack_type(rows.plan.buffers[load.buffer])}& {name}_at")
    inner = rows.near.along.name
    reduced = {axis.name for axis in rows.kernel.reduced}
    names = (mentioned(taking.values, rows.near) | taking.places) & (reduced | {FIRST})
    element = taking.element
    if inner in names:
        names = names - {inner} | {FIRST}
        element = [f"const int64_t {inner} = {FIRST} + lane;", *element]
    return [
        f"each([&]({', '.join(arguments)}) {{",
        *indented(_position(rows, names)),
        *indented(taking.before),
        "  #pragma unroll",
        "  for (int lane = 0; lane < WIDTH; ++lane) {",
        *indented(indented(element)),
        "  }",
        *indented(taking.after),
        "});",
    ]


def _pass(rows: Rows, group: list[Stage]) -> list[str]:
    """One pass for stages that do not need each other, and their results."""
    found = [accumulator for accumulator in rows.found if accumulator.stage in group]
    taking = Taking([stage.body for stage in group])
    for a in found:
        value = rows.render.expression(a.stage.body)
        if a.exact:
            taking.before.append(f"{a.kind} {a.stage.name}_here = 0;")
            taking.after.append(f"{a.name} += {a.stage.name}_here;")
        taking.element += a.take(f"{a.stage.name}_here" if a.exact else a.name, value)
        if a.stage.combine in ("argmax", "argmin"):
            taking.places |= {axis.name for axis in rows.kernel.reduced}
    lines = [f"{a.type} {a.name} = {a.start};" for a in found] + _over_packs(rows, taking)
    for a in found:
        lines += [f"{a.name} = {_reduce(rows)}({a.name}, {a.functor}());", a.result(a.name)]
    return lines


def _reduce(rows: Rows) -> str:
    """The function that combines what the threads of a row have found."""
    if rows.kernel.schedule.workers == "warp":
        return "warp_reduce"
    return "block_shuffle_reduce<THREADS>" if rows.kernel.schedule.shuffles else "block_reduce"


def _element_stores(rows: Rows) -> list[str]:
    stores = [store for store in rows.kernel.stores if store.each]
    if not stores:
        return []
    taking = Taking([store.value for store in stores])
    for store in stores:
        names = set().union(*(indices.names(index) for index in store.position))
        if store in rows.near.writes:
            name = rows.near.writes[store]
            names = names - {rows.near.along.name} | {FIRST}
            once = rows.kernel.schedule.streaming
            taking.before.append(f"{pack_type(rows.plan.buffers[store.buffer])} {name}_at;")
            taking.after.append(write_text(store, name, rows.render, rows.near.along, once=once))
        taking.places |= names
        taking.element.append(assign(store, rows.plan, rows.render))
    return _over_packs(rows, taking)


def _row_stores(rows: Rows) -> list[str]:
    lines = [assign(s, rows.plan, rows.render) for s in rows.kernel.stores if not s.each]
    return ["if (thread == 0) {", *indented(lines), "}"] if lines else []


def _helpers(rows: Rows) -> tuple[str, ...]:
    schedule = rows.kernel.schedule
    found = [device_code("pack")] if rows.near.reads or rows.near.writes else []
    if rows.kernel.stages:
        if schedule.workers == "warp" or schedule.shuffles:
            found.append(device_code("warp_reduce"))
        if schedule.workers != "warp":
            found.append(device_code("block_shuffle_reduce" if schedule.shuffles else "block_reduce"))
    if schedule.streaming:
        found.append(device_code("streaming"))
    return (*found, *helpers(rows.found))
