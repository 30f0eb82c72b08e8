"""The packs of a row: which are a thread's, how they are read, kept, and given to a pass."""

from dataclasses import replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.expression import Gather, Load
from kernelblaster.policies.expert.families import across, peeled
from kernelblaster.policies.expert.families.loops import indented
from kernelblaster.policies.expert.families.near import FIRST, declared, pack_type, pointer_text, read_text
from kernelblaster.policies.expert.families.row_kernel import Rows, keeps_all, passes_with
from kernelblaster.policies.expert.index import Index, text


def pack_range(rows: Rows) -> list[str]:
    """The packs of the row: all of them, or those of this part."""
    outer, *rest = rows.kernel.reduced
    step = indices.product(axis.extent for axis in rest)
    kind = rows.number
    end = text(indices.multiply(outer.end, step))
    before = []
    if rows.start is not None:
        before = peeled.ends(rows.start, outer.extent)
        end = "row_length - head"
    if rows.cluster > 1:
        return [*before, *across.part(kind, end)]
    lines = [*before, f"const {kind} packs = ({end}) / WIDTH;"]
    if outer.part is not None:
        begin = text(indices.multiply(outer.begin, step))
        lines.insert(0, f"const {kind} begin = ({begin}) / WIDTH;")
    return lines


def _start(rows: Rows) -> str:
    cut = rows.kernel.reduced[0].part is not None or rows.cluster > 1
    return "begin + thread" if cut else "thread"


def position(rows: Rows, names: set[str]) -> list[str]:
    """From a pack's number to the loops' variables at its first element."""
    *outer, inner = rows.kernel.reduced
    if not outer:
        first = "head + (int64_t)at * WIDTH" if rows.start is not None else "(int64_t)at * WIDTH"
        return [f"const int64_t {FIRST} = {first};"] if FIRST in names else []
    if not names:
        return []
    kind = "unsigned" if rows.narrow else "int64_t"
    named = [*outer, replace(inner, name=FIRST, part=None)]
    return [f"const {kind} j = at * WIDTH;", *declared("j", named, names, narrow=rows.narrow)]


def _place_names(rows: Rows, address: Index) -> set[str]:
    return {FIRST} | (indices.names(address) & {axis.name for axis in rows.kernel.reduced})


def readers(rows: Rows) -> list[str]:
    """A function for each tensor that gives the pack of a number."""
    lines = []
    streaming = rows.kernel.schedule.streaming
    for load, name in rows.near.reads.items():
        if rows.start is not None:
            place = pointer_text(load, rows.render, rows.near.along, "1")
            lines.append(f"auto one_{name} = [&](int64_t {FIRST}) {{ return *{place}; }};")
        once = streaming and _moves(rows, load) and _read_once(rows, load)
        before = indented(position(rows, _place_names(rows, rows.render.address(load))))
        if load in rows.near.guards:
            fails = " || ".join(guard.fails(FIRST) for guard in rows.near.guards[load])
            before.append(f"  if ({fails}) return {pack_type(rows.plan.buffers[load.buffer])}{{}};")
        value = read_text(load, rows.render, rows.near.along, once=once)
        if rows.cluster > 1 and load in rows.kept:
            place = pointer_text(load, rows.render, rows.near.along)
            lines += [f"auto place_{name} = [&]({rows.number} at) {{", *before, f"  return {place};", "};"]
            lines.append(f"auto read_{name} = [&]({rows.number} at) {{ return *place_{name}(at); }};")
            continue
        lines.append(f"auto read_{name} = [&]({rows.number} at) {{")
        lines += [*before, f"  return {value};", "};"]
    return lines


def _read_once(rows: Rows, load: Load | Gather) -> bool:
    """Whether one pass needs it, or all of a row is kept in the primary workload."""
    return passes_with(rows.kernel, load) == 1 or (load in rows.kept and keeps_all(rows.kernel, rows.plan))


def _moves(rows: Rows, load: Load | Gather) -> bool:
    """Whether every row has elements of its own."""
    mentioned_here = indices.names(rows.render.address(load))
    return all(axis.name in mentioned_here for axis in rows.kernel.axes) and isinstance(load, Load)


def keeping(rows: Rows) -> list[str]:
    if rows.cluster > 1:
        packs = {name: pack_type(rows.plan.buffers[load.buffer]) for load, name in rows.kept.items()}
        return across.kept(rows.number, rows.kernel.schedule.kept, packs)
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


def each(rows: Rows) -> list[str]:
    """A function that gives all packs of this thread to another one."""
    names = list(rows.near.reads.values())
    ends = rows.start is not None
    at = "head + (int64_t)at * WIDTH" if ends else "at"
    again = ", ".join([at, *(f"read_{name}(at)" for name in names)])
    start = _start(rows)
    lines = ["auto each = [&](auto take) {"]
    if ends:
        lines.append(f"  {peeled.single('(int64_t)thread', 'head', names, rows.cluster > 1)}")
    if rows.kept:
        kept = set(rows.kept.values())
        k = "k * THREADS" if rows.cluster > 1 else "k"
        first = ", ".join([at, *(f"{n}_kept[{k}]" if n in kept else f"read_{n}(at)" for n in names)])
        lines += [
            f"  #pragma unroll{' 4' if rows.cluster > 1 else ''}",
            "  for (int k = 0; k < KEPT; ++k) {",
            f"    const {rows.number} at = {start} + k * THREADS;",
            f"    if (at < packs) take({first});",
            "  }",
        ]
        start += " + KEPT * THREADS"
    lines += indented(_rest(rows, start, again))
    if ends:
        lines.append(f"  {peeled.single('row_length - tail + thread', 'tail', names, rows.cluster > 1)}")
    return [*lines, "};"]


def _rest(rows: Rows, start: str, arguments: str) -> list[str]:
    """The loop over the packs that are not kept."""
    unroll = rows.kernel.schedule.unroll
    loop = [f"#pragma unroll {unroll}"] if unroll > 1 else []
    loop.append(f"for ({rows.number} at = {start}; at < packs; at += THREADS) take({arguments});")
    return ["if constexpr (REST) {", *indented(loop), "}"] if rows.kept else loop
