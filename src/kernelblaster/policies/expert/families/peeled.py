"""Rows that begin anywhere: packs begin at the first aligned element, and a few threads take what is left
before and behind them, one element each.

That is possible where all that a row reads and writes side by side lies equally far from alignment.
"""

from collections.abc import Collection, Mapping, Sequence

from kernelblaster.policies.expert.address import separate
from kernelblaster.policies.expert.expression import Load
from kernelblaster.policies.expert.families.near import Near
from kernelblaster.policies.expert.index import Index, row_major, text, variable
from kernelblaster.policies.expert.plan import Kernel, Plan, Schedule
from kernelblaster.policies.expert.render import Renderer

LANES = "LANES"  # elements of the pack that a pass is given
LINE = 32  # elements: in long rows packs begin at a whole line of memory
ENDS = ("head", "tail")
LONG = 1024  # elements of such a row


def row_start(kernel: Kernel, plan: Plan, found: Near, render: Renderer) -> Index | None:
    """Where a row starts in all its tensors, if packs along it are not aligned in the primary workload
    but could be when peeled; else None."""
    width = kernel.schedule.vector_width
    loads = [load for load in found.reads if isinstance(load, Load)]
    if width == 1 or not loads or found.guards or len(loads) < len(found.reads):
        return None
    if found.possible(plan, width):
        return None
    if len(kernel.reduced) > 1 or found.along.part is not None:
        return None
    addresses = [render.address(load) for load in loads]
    addresses += [row_major(store.position, plan.buffers[store.buffer].shape) for store in found.writes]
    starts = {separate(address, found.along.name) for address in addresses}
    if len(starts) != 1:
        return None
    start, moved = starts.pop()
    return start if moved == variable(found.along.name) else None


def ends(start: Index, length: Index, plan: Plan) -> list[str]:
    """How many elements are left before and behind the packs."""
    line = LINE if plan.extent(length) >= LONG else "WIDTH"
    return [
        f"const int64_t row_start = {text(start)}, row_length = {text(length)};",
        f"const int head = min(row_length, ({line} - row_start % {line}) % {line});",
        "const int tail = (row_length - head) % WIDTH;",
    ]


def kept(packs: Mapping[str, str], schedule: Schedule) -> list[str]:
    """Reads this thread's elements before and behind the packs of each name, whose single elements have the
    given types."""
    if _several(schedule):
        return []
    lines = []
    for which in ENDS:
        lines += [f"{pack} {name}_{which};" for name, pack in packs.items()]
        reads = " ".join(f"{name}_{which} = one_{name}({_place(which, 'thread')});" for name in packs)
        lines.append(f"if ({_has(which, schedule)}) {{ {reads} }}")
    return lines


def single(which: str, names: Sequence[str], held: Collection[str], schedule: Schedule) -> str:
    """Gives a pass the element of this thread before or behind the packs (`head`, `tail`); those of some
    names are `held` since they were read. Of a few lanes, each may have several, which are read again."""
    if _several(schedule):
        place = _place(which, "e")
        reads = ", ".join([place, *(f"one_{name}({place})" for name in names)])
        return f"for (int e = thread; e < {which}; e += THREADS) take({reads});"
    place = _place(which, "thread")
    known = (f"{name}_{which}" if name in held else f"one_{name}({place})" for name in names)
    return f"if ({_has(which, schedule)}) take({', '.join([place, *known])});"


def _several(schedule: Schedule) -> bool:
    return schedule.row_threads < LINE


def _place(which: str, element: str) -> str:
    return f"(int64_t){element}" if which == "head" else f"row_length - tail + {element}"


def _has(which: str, schedule: Schedule) -> str:
    return f"{'rank == 0 && ' if schedule.cluster > 1 else ''}thread < {which}"


def lanes(name: str) -> str:
    return f"constexpr int {LANES} = sizeof({name}_at.at) / sizeof({name}_at.at[0]);"
