"""Rows whose first element is aligned to nothing: vectors begin at the first aligned element, and a few
threads take what is left before and behind them, one element each.

That is possible where all that a row reads and writes contiguously is equally far from alignment.
"""

from collections.abc import Collection, Mapping, Sequence

from kernelblaster.policies.expert.index import Index, text
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedule import Rows, cluster_blocks, row_threads

LANES = "LANES"  # elements of the vector that a pass is given
LINE = 32  # elements: in long rows vectors begin at a whole line of memory
ENDS = ("head", "tail")
LONG = 1024  # elements of such a row


def ends(start: Index, length: Index, plan: Plan) -> list[str]:
    """How many elements are left before and behind the vectors."""
    line = LINE if plan.extent(length) >= LONG else "WIDTH"
    return [
        f"const int64_t row_start = {text(start)}, row_length = {text(length)};",
        f"const int head = min(row_length, ({line} - row_start % {line}) % {line});",
        "const int tail = (row_length - head) % WIDTH;",
    ]


def read_ends(packs: Mapping[str, str], schedule: Rows) -> list[str]:
    """Reads this thread's elements before and behind the vectors of each name, whose single elements have the
    given types."""
    if _several(schedule):
        return []
    lines = []
    for which in ENDS:
        lines += [f"{pack} {name}_{which};" for name, pack in packs.items()]
        reads = " ".join(f"{name}_{which} = one_{name}({_place(which, 'thread')});" for name in packs)
        lines.append(f"if ({_has(which, schedule)}) {{ {reads} }}")
    return lines


def single(which: str, names: Sequence[str], held: Collection[str], schedule: Rows) -> str:
    """Gives a pass the element of this thread before or behind the packs (`head`, `tail`); those of some
    names are `held` since they were read. Of a few lanes, each may have several, which are read again."""
    if _several(schedule):
        place = _place(which, "e")
        reads = ", ".join([place, *(f"one_{name}({place})" for name in names)])
        return f"for (int e = thread; e < {which}; e += THREADS) take({reads});"
    place = _place(which, "thread")
    known = (f"{name}_{which}" if name in held else f"one_{name}({place})" for name in names)
    return f"if ({_has(which, schedule)}) take({', '.join([place, *known])});"


def _several(schedule: Rows) -> bool:
    return row_threads(schedule) < LINE


def _place(which: str, element: str) -> str:
    return f"(int64_t){element}" if which == "head" else f"row_length - tail + {element}"


def _has(which: str, schedule: Rows) -> str:
    return f"{'rank == 0 && ' if cluster_blocks(schedule) > 1 else ''}thread < {which}"


def lanes(name: str) -> str:
    return f"constexpr int {LANES} = sizeof({name}_at.at) / sizeof({name}_at.at[0]);"
