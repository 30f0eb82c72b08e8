"""The packs of a row: which are a thread's, how they are read, kept, and given to a pass."""

from dataclasses import replace
from typing import TypeVar

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.expression import Gather, Load
from kernelblaster.policies.expert.families import across, peeled
from kernelblaster.policies.expert.families.across import unrolled
from kernelblaster.policies.expert.families.loops import indented
from kernelblaster.policies.expert.families.near import FIRST, declared, pack_type, pointer_text, read_text
from kernelblaster.policies.expert.families.row_kernel import RUNNING, Rows, keeps_all, passes_with
from kernelblaster.policies.expert.index import text
from kernelblaster.policies.expert.plan import Store

UNROLL = 4  # packs that are read again across blocks: as many at a time


def pack_range(rows: Rows) -> list[str]:
    """The packs of the row: all of them, or those of this part."""
    outer, *rest = rows.kernel.reduced
    step = indices.product(axis.extent for axis in rest)
    kind = rows.number
    end = text(indices.multiply(outer.end, step))
    before = []
    if rows.start is not None:
        before = peeled.ends(rows.start, outer.extent, rows.plan)
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
    line = f"const {kind} {RUNNING} = at * WIDTH;"
    if divides(rows) and names - {RUNNING}:
        parts = f"{outer[0].name}, {FIRST}"
        return [line, f"int64_t {parts};", f"inner.divide({RUNNING}, {parts});"]
    named = [*outer, replace(inner, name=FIRST, part=None)]
    return [line, *declared(RUNNING, named, names, narrow=rows.narrow)]


def divides(rows: Rows) -> bool:
    """Whether packs' numbers are divided by one length only."""
    return len(rows.kernel.reduced) == 2 and rows.narrow


def divider(rows: Rows) -> list[str]:
    return [f"const Divider inner({text(rows.kernel.reduced[-1].extent)});"] if divides(rows) else []


Moved = TypeVar("Moved", bound=Load | Gather | Store)


def straightened(rows: Rows, moved: Moved) -> tuple[Moved, set[str]]:
    """The load or store as its pack is moved, and the variables that this needs."""
    address = indices.row_major(moved.position, rows.plan.buffers[moved.buffer].shape)
    values = rows.straight(address)
    if values and not isinstance(moved, Gather) and moved not in rows.near.guards:
        position = tuple(indices.replace(index, values) for index in moved.position)
        return replace(moved, position=position), {RUNNING}
    loops = {axis.name for axis in rows.kernel.reduced} - {rows.near.along.name}
    return moved, {FIRST} | (indices.names(address) & loops)


def axes(rows: Rows, names: set[str] | None = None) -> list[str]:
    """The variables of a row's axes: all of them, or those of some names."""
    kind, name = rows.row
    found = rows.kernel.axes
    wanted = {axis.name for axis in found} if names is None else names
    return [] if len(found) == 1 else declared(name, found, wanted, narrow=kind == "unsigned")


def places(rows: Rows) -> list[str]:
    """Across blocks, a function for each tensor that is kept: where the pack of a number is."""
    lines = []
    stays = rows.kernel.schedule.stays
    row = f"{' '.join(rows.row)}, " if stays else ""
    for load, name in rows.kept.items() if rows.cluster > 1 else ():
        moved, names = straightened(rows, load)
        inside = axes(rows, indices.names(rows.render.address(moved))) if stays else []
        place = pointer_text(moved, rows.render, rows.near.along)
        inside += [*position(rows, names), f"return {place};"]
        lines += [f"auto place_{name} = [&]({row}{rows.number} at) {{", *indented(inside), "};"]
    return lines


def _place(rows: Rows, name: str, row: str = "") -> str:
    """Where a pack of this row, or of another one, is."""
    row = f"{row or rows.row[1]}, " if rows.kernel.schedule.stays else ""
    return f"place_{name}({row}at)"


def readers(rows: Rows) -> list[str]:
    """A function for each tensor that gives the pack of a number."""
    lines = []
    streaming = rows.kernel.schedule.streaming
    for load, name in rows.near.reads.items():
        if rows.start is not None:
            place = pointer_text(load, rows.render, rows.near.along, "1")
            lines.append(f"auto one_{name} = [&](int64_t {FIRST}) {{ return *{place}; }};")
        if rows.cluster > 1 and load in rows.kept:
            lines.append(f"auto read_{name} = [&]({rows.number} at) {{ return *{_place(rows, name)}; }};")
            continue
        once = streaming and _moves(rows, load) and _read_once(rows, load)
        moved, names = straightened(rows, load)
        before = indented(position(rows, names))
        if load in rows.near.guards:
            fails = " || ".join(guard.fails(FIRST) for guard in rows.near.guards[load])
            before.append(f"  if ({fails}) return {pack_type(rows.plan.buffers[load.buffer])}{{}};")
        value = read_text(moved, rows.render, rows.near.along, once=once)
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
    """Reads what later passes need again."""
    lines = []
    if rows.start is not None:
        single = {name: pack_type(rows.plan.buffers[load.buffer], "1") for load, name in rows.kept.items()}
        lines += peeled.kept(single, rows.kernel.schedule)
    if rows.cluster > 1:
        packs = {
            name: across.Kept(pack_type(rows.plan.buffers[load.buffer]), _place(rows, name))
            for load, name in rows.kept.items()
        }
        return [*lines, *across.kept(rows.number, rows.kernel.schedule, packs)]
    if not rows.kept:
        return []
    lines += [
        f"constexpr int KEPT = {rows.kernel.schedule.kept} / WIDTH;  // packs in each thread's registers"
    ]
    for load, name in rows.kept.items():
        lines.append(f"{pack_type(rows.plan.buffers[load.buffer])} {name}_kept[KEPT];")
    reads = [f"if (at < packs) {name}_kept[k] = read_{name}(at);" for name in rows.kept.values()]
    return [*lines, *unrolled(rows.number, "KEPT", _start(rows), reads)]


def _kept_packs(rows: Rows, names: list[str], at: str, *, last: bool) -> tuple[list[str], str]:
    """Loops over packs that need not be read again, and where the others start. The last pass reads the next
    row's in their places."""
    chosen, start = rows.kernel.schedule, _start(rows)
    if not rows.kept:
        return [], start

    def take(place: str) -> str:
        kept = {name: f"{name}_{place}" for name in rows.kept.values()}
        return f"take({', '.join([at, *(kept.get(name, f'read_{name}(at)') for name in names)])});"

    if rows.cluster == 1:
        here = f"if (at < packs) {take('kept[k]')}"
        return unrolled(rows.number, "KEPT", start, [here]), f"{start} + KEPT * THREADS"
    following = {name: _place(rows, name, across.NEXT) for name in rows.kept.values()} if last else {}
    lines = []
    if chosen.held:
        lines += across.over_held(rows.number, start, take("held[k]"), following)
        start += " + HELD * THREADS"
    if chosen.kept:
        lines += across.over_kept(rows.number, start, take("kept[k * THREADS]"), following)
        start += " + KEPT * THREADS"
    return lines, start


def each(rows: Rows, *, last: bool = False) -> list[str]:
    """A function that gives all packs of this thread to another one; that of the last pass begins to read the
    next row."""
    names = list(rows.near.reads.values())
    ends = rows.start is not None
    at = "head + (int64_t)at * WIDTH" if ends else "at"
    again = ", ".join([at, *(f"read_{name}(at)" for name in names)])
    lines = [f"auto {'last' if last else 'each'} = [&](auto take) {{"]
    if ends:
        held = rows.kept.values()
        lines += [f"  {peeled.single(end, names, held, rows.kernel.schedule)}" for end in peeled.ENDS]
    kept, start = _kept_packs(rows, names, at, last=last)
    rest = _rest(rows, start, again)
    # across blocks, kept packs are still on their way when the first pass begins
    lines += indented([*rest, *kept] if rows.cluster > 1 else [*kept, *rest])
    return [*lines, "};"]


def _rest(rows: Rows, start: str, arguments: str) -> list[str]:
    """The loop over the packs that are not kept."""
    unroll = rows.kernel.schedule.unroll if rows.cluster == 1 else max(UNROLL, rows.kernel.schedule.unroll)
    loop = [f"#pragma unroll {unroll}"] if unroll > 1 else []
    loop.append(f"for ({rows.number} at = {start}; at < packs; at += THREADS) take({arguments});")
    return ["if constexpr (REST) {", *indented(loop), "}"] if rows.kept else loop
