"""Rows that begin anywhere: packs begin at the first aligned element, and a few threads take what is left
before and behind them, one element each.

That is possible where all that a row reads and writes side by side lies equally far from alignment.
"""

from kernelblaster.policies.expert.address import separate
from kernelblaster.policies.expert.expression import Load
from kernelblaster.policies.expert.families.near import Near
from kernelblaster.policies.expert.index import Index, row_major, text, variable
from kernelblaster.policies.expert.plan import Kernel, Plan, Schedule
from kernelblaster.policies.expert.render import Renderer

LANES = "LANES"  # elements of the pack that a pass is given
LINE = 32  # elements: in long rows packs begin at a whole line of memory
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


def single(which: str, names: list[str], schedule: Schedule) -> str:
    """Gives a pass the element of this thread before or behind the packs (`head`, `tail`); of a few lanes,
    each may have several."""
    few = schedule.row_threads < LINE
    element = "e" if few else "thread"
    place = f"(int64_t){element}" if which == "head" else f"row_length - tail + {element}"
    reads = ", ".join([place, *(f"one_{name}({place})" for name in names)])
    if few:
        return f"for (int e = thread; e < {which}; e += THREADS) take({reads});"
    return f"if ({'rank == 0 && ' if schedule.cluster > 1 else ''}thread < {which}) take({reads});"


def lanes(name: str) -> str:
    return f"constexpr int {LANES} = sizeof({name}_at.at) / sizeof({name}_at.at[0]);"
