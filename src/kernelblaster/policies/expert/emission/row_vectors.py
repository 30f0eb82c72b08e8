"""The vectors of a row: which are a thread's, how they are read, kept, and given to a pass."""

from dataclasses import replace
from typing import TypeVar

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.emission import cluster_rows, unaligned_rows
from kernelblaster.policies.expert.emission.cluster_rows import unrolled
from kernelblaster.policies.expert.emission.loops import indented
from kernelblaster.policies.expert.emission.row_writer import RowWriter
from kernelblaster.policies.expert.emission.vectors import (
    FIRST,
    declared,
    pointer_text,
    read_text,
    vector_type,
)
from kernelblaster.policies.expert.expression import Gather, Load
from kernelblaster.policies.expert.index import text
from kernelblaster.policies.expert.plan import Store
from kernelblaster.policies.expert.row_kernel import RUNNING
from kernelblaster.policies.expert.schedule import BlockRows, ClusterRows, WarpRows

UNROLL = 4  # vectors that a cluster reads again: as many at a time


def pack_range(rows: RowWriter) -> list[str]:
    """The vectors of the row: all of them, or those of this part."""
    outer, *rest = rows.kernel.reduced
    step = indices.product(axis.extent for axis in rest)
    kind = rows.number
    end = text(indices.multiply(outer.end, step))
    before = []
    if rows.unaligned is not None:
        before = unaligned_rows.ends(rows.unaligned, outer.extent, rows.plan)
        end = "row_length - head"
    if rows.cluster > 1:
        return [*before, *cluster_rows.slice_of_row(kind, end)]
    lines = [*before, f"const {kind} packs = ({end}) / WIDTH;"]
    if outer.part is not None:
        begin = text(indices.multiply(outer.begin, step))
        lines.insert(0, f"const {kind} begin = ({begin}) / WIDTH;")
    return lines


def _start(rows: RowWriter) -> str:
    cut = rows.kernel.reduced[0].part is not None or rows.cluster > 1
    return "begin + thread" if cut else "thread"


def position(rows: RowWriter, names: set[str]) -> list[str]:
    """From a vector's number to the loops' variables at its first element."""
    *outer, inner = rows.kernel.reduced
    if not outer:
        first = "head + (int64_t)at * WIDTH" if rows.unaligned is not None else "(int64_t)at * WIDTH"
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


def divides(rows: RowWriter) -> bool:
    """Whether vectors' numbers are divided by one length only."""
    return len(rows.kernel.reduced) == 2 and rows.narrow


def divider(rows: RowWriter) -> list[str]:
    return [f"const Divider inner({text(rows.kernel.reduced[-1].extent)});"] if divides(rows) else []


Moved = TypeVar("Moved", bound=Load | Gather | Store)


def straightened(rows: RowWriter, moved: Moved) -> tuple[Moved, set[str]]:
    """The load or store as its vector is moved, and the variables that this needs."""
    address = indices.row_major(moved.position, rows.plan.buffers[moved.buffer].shape)
    values = rows.straight(address)
    if values and not isinstance(moved, Gather) and moved not in rows.access.guards:
        position = tuple(indices.replace(index, values) for index in moved.position)
        return replace(moved, position=position), {RUNNING}
    loops = {axis.name for axis in rows.kernel.reduced} - {rows.access.along.name}
    return moved, {FIRST} | (indices.names(address) & loops)


def axes(rows: RowWriter, names: set[str] | None = None) -> list[str]:
    """The variables of a row's axes: all of them, or those of some names."""
    kind, name = rows.row
    found = rows.kernel.axes
    wanted = {axis.name for axis in found} if names is None else names
    return [] if len(found) == 1 else declared(name, found, wanted, narrow=kind == "unsigned")


def places(rows: RowWriter) -> list[str]:
    """In a cluster, a function for each tensor that is kept: the address of the vector of a number."""
    lines = []
    row = f"{' '.join(rows.row)}, " if rows.persistent else ""
    for load, name in rows.kept.items() if rows.cluster > 1 else ():
        moved, names = straightened(rows, load)
        inside = axes(rows, indices.names(rows.render.address(moved))) if rows.persistent else []
        place = pointer_text(moved, rows.render, rows.access.along)
        inside += [*position(rows, names), f"return {place};"]
        lines += [f"auto place_{name} = [&]({row}{rows.number} at) {{", *indented(inside), "};"]
    return lines


def _place(rows: RowWriter, name: str, row: str = "") -> str:
    """The address of a vector of this row, or of another one."""
    row = f"{row or rows.row[1]}, " if rows.persistent else ""
    return f"place_{name}({row}at)"


def readers(rows: RowWriter) -> list[str]:
    """A function for each tensor that gives the vector of a number."""
    lines = []
    streaming = rows.schedule.streaming
    for load, name in rows.access.reads.items():
        if rows.unaligned is not None:
            place = pointer_text(load, rows.render, rows.access.along, "1")
            lines.append(f"auto one_{name} = [&](int64_t {FIRST}) {{ return *{place}; }};")
        if rows.cluster > 1 and load in rows.kept:
            lines.append(f"auto read_{name} = [&]({rows.number} at) {{ return *{_place(rows, name)}; }};")
            continue
        once = streaming and rows.is_read_once(load, rows.schedule)
        moved, names = straightened(rows, load)
        before = indented(position(rows, names))
        if load in rows.access.guards:
            fails = " || ".join(guard.fails(FIRST) for guard in rows.access.guards[load])
            before.append(f"  if ({fails}) return {vector_type(rows.plan.buffers[load.buffer])}{{}};")
        value = read_text(moved, rows.render, rows.access.along, once=once)
        lines.append(f"auto read_{name} = [&]({rows.number} at) {{")
        lines += [*before, f"  return {value};", "};"]
    return lines


def keeping(rows: RowWriter) -> list[str]:
    """Reads what later passes need again."""
    lines = []
    if rows.unaligned is not None:
        single = {name: vector_type(rows.plan.buffers[load.buffer], "1") for load, name in rows.kept.items()}
        lines += unaligned_rows.read_ends(single, rows.schedule)
    if isinstance(rows.schedule, ClusterRows):
        packs = {
            name: cluster_rows.Resident(vector_type(rows.plan.buffers[load.buffer]), _place(rows, name))
            for load, name in rows.kept.items()
        }
        return [*lines, *cluster_rows.read_residents(rows.number, rows.schedule, packs)]
    if not rows.kept:
        return []
    assert isinstance(rows.schedule, WarpRows | BlockRows)
    elements = rows.schedule.register_elements
    lines.append(f"constexpr int KEPT = {elements} / WIDTH;  // packs in each thread's registers")
    for load, name in rows.kept.items():
        lines.append(f"{vector_type(rows.plan.buffers[load.buffer])} {name}_kept[KEPT];")
    reads = [f"if (at < packs) {name}_kept[k] = read_{name}(at);" for name in rows.kept.values()]
    return [*lines, *unrolled(rows.number, "KEPT", _start(rows), reads)]


def _kept_packs(rows: RowWriter, names: list[str], at: str, *, last: bool) -> tuple[list[str], str]:
    """Loops over vectors that need not be read again, and where the others start. The last pass reads the
    next row's in their places."""
    start = _start(rows)
    if not rows.kept:
        return [], start

    def take(place: str) -> str:
        kept = {name: f"{name}_{place}" for name in rows.kept.values()}
        return f"take({', '.join([at, *(kept.get(name, f'read_{name}(at)') for name in names)])});"

    if not isinstance(rows.schedule, ClusterRows):
        here = f"if (at < packs) {take('kept[k]')}"
        return unrolled(rows.number, "KEPT", start, [here]), f"{start} + KEPT * THREADS"
    following = {name: _place(rows, name, cluster_rows.NEXT) for name in rows.kept.values()} if last else {}
    lines, before = [], ""
    if rows.schedule.register_elements:
        before = "HELD * THREADS"
        lines += cluster_rows.over_registers(rows.number, start, take("held[k]"), following)
        start += f" + {before}"
    if rows.schedule.shared_elements:
        lines += cluster_rows.over_shared(rows.number, before, take("kept[k * THREADS]"), following)
        start += " + KEPT * THREADS"
    return lines, start


def each(rows: RowWriter, *, last: bool = False) -> list[str]:
    """A function that gives all vectors of this thread to another one; that of the last pass begins to read
    the next row."""
    names = list(rows.access.reads.values())
    ends = rows.unaligned is not None
    at = "head + (int64_t)at * WIDTH" if ends else "at"
    again = ", ".join([at, *(f"read_{name}(at)" for name in names)])
    lines = [f"auto {'last' if last else 'each'} = [&](auto take) {{"]
    if ends:
        held = rows.kept.values()
        lines += [
            f"  {unaligned_rows.single(end, names, held, rows.schedule)}" for end in unaligned_rows.ENDS
        ]
    kept, start = _kept_packs(rows, names, at, last=last)
    rest = _rest(rows, start, again)
    # in a cluster, kept vectors are still on their way when the first pass begins
    lines += indented([*rest, *kept] if rows.cluster > 1 else [*kept, *rest])
    return [*lines, "};"]


def _rest(rows: RowWriter, start: str, arguments: str) -> list[str]:
    """The loop over the vectors that are not kept."""
    unroll = rows.schedule.unroll if rows.cluster == 1 else max(UNROLL, rows.schedule.unroll)
    loop = [f"#pragma unroll {unroll}"] if unroll > 1 else []
    loop.append(f"for ({rows.number} at = {start}; at < packs; at += THREADS) take({arguments});")
    return ["if constexpr (REST) {", *indented(loop), "}"] if rows.kept else loop
