"""Parts of emitted row kernels (rows.py) for rows that do not start at an aligned address. Vectors begin at
the first aligned element of a row; the elements before it (head) and those behind the last whole vector
(tail) are processed singly.

This is possible only if all tensors that a row reads or writes contiguously start at the same offset from an
aligned address.
"""

from collections.abc import Collection, Mapping, Sequence

from kernelblaster.policies.expert.cuda.statements import (
    Do,
    Statement,
    assign,
    const,
    constexpr,
    consts,
    declare,
    loop,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    INT,
    INT64,
    CudaType,
    Infix,
    Local,
    Term,
    call,
    cast,
    term,
)
from kernelblaster.policies.expert.emission.places import local
from kernelblaster.policies.expert.emission.values import index_term
from kernelblaster.policies.expert.emission.vectors import vector_name
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.rows import Rows, cluster_blocks, row_threads

LANES = "LANES"  # elements of the vector that a pass is given
LINE = 32  # elements: in long rows vectors begin at a whole line of memory
ENDS = ("head", "tail")
LONG = 1024  # elements of such a row
ROW_START, ROW_LENGTH, HEAD, TAIL = local("row_start", "row_length", "head", "tail")
WIDTH, THREADS, THREAD_IN_ROW, RANK, ELEMENT = local("WIDTH", "THREADS", "thread", "rank", "e")


def ends(start: Index, length: Index, plan: Plan) -> list[Statement]:
    """Returns C++ statements that declare `head` and `tail`: how many elements of a row lie before its first
    aligned vector, and how many behind its last one. `start` is the offset in memory of the row's first
    element, `length` the row's number of elements; both are symbolic, in the sizes of the `plan`. In rows of
    1024 or more elements the first vector begins at a multiple of 32 elements; in shorter ones at a multiple
    of the vector width."""
    line = term(LINE) if plan.extent(length) >= LONG else WIDTH
    sizes = plan.sizes[0]
    return [
        consts(INT64, row_start=index_term(start, sizes), row_length=index_term(length, sizes)),
        const(INT, "head", call("min", ROW_LENGTH, (line - ROW_START % line) % line)),
        const(INT, "tail", (ROW_LENGTH - HEAD) % WIDTH),
    ]


def read_ends(packs: Mapping[str, CudaType], schedule: Rows) -> list[Statement]:
    """Returns C++ statements by which each thread reads elements that lie in no vector into registers: at
    most one element before the row's first vector and one behind its last, for each tensor in `packs` (name
    to C++ type). Empty if fewer than 32 threads (LINE) share a row under `schedule`, because a thread may
    then have several such elements."""
    if _several(schedule):
        return []
    found: list[Statement] = []
    for which in ENDS:
        found += [declare(pack, f"{name}_{which}") for name, pack in packs.items()]
        place = _place(which, THREAD_IN_ROW)
        reads = [assign(Local(f"{name}_{which}"), call(f"one_{name}", place)) for name in packs]
        found.append(when(_has(which, schedule), *reads))
    return found


def single(which: str, names: Sequence[str], held: Collection[str], schedule: Rows) -> Statement:
    """Returns the C++ statement that processes the elements of a row that lie in no vector: those before the
    first vector if `which` is "head", those after the last one if it is "tail". It calls the emitted function
    `take` with the element of each tensor in `names`. Tensors in `held` have theirs in registers already. A
    thread has at most one such element if at least 32 threads (LINE) share a row under `schedule`; otherwise
    the statement is a loop."""
    if _several(schedule):
        place = _place(which, ELEMENT)
        given = Do(call("take", place, *(call(f"one_{name}", place) for name in names)))
        return loop("e", THREAD_IN_ROW, Local(which), [given], step=THREADS)
    place = _place(which, THREAD_IN_ROW)
    known = [Local(f"{name}_{which}") if name in held else call(f"one_{name}", place) for name in names]
    return when(_has(which, schedule), Do(call("take", place, *known)))


def _several(schedule: Rows) -> bool:
    return row_threads(schedule) < LINE


def _place(which: str, element: Term) -> Term:
    return cast(INT64, element) if which == "head" else ROW_LENGTH - TAIL + element


def _has(which: str, schedule: Rows) -> Term:
    own = THREAD_IN_ROW < Local(which)
    return Infix("&&", RANK.equals(0), own) if cluster_blocks(schedule) > 1 else own


def lanes(name: str) -> Statement:
    vector = vector_name(name).field("at")
    return constexpr(LANES, call("sizeof", vector) / call("sizeof", vector[0]))
