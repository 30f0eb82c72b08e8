"""Emits kernels in which a thread-block cluster reduces one row: each block of the cluster keeps its slice of
the row in registers and shared memory.

A thread reads from shared memory only what it copied there itself, so that the only barriers are those of the
cluster. A persistent cluster processes several rows: once a vector of the current row has been used for the
last time, the same vector of the next row is prefetched into its registers or shared memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelblaster.policies.expert.cuda.statements import (
    BREAK,
    Declaration,
    Declarator,
    Do,
    If,
    Statement,
    assign,
    const,
    constexpr,
    consts,
    declare,
    loop,
    shared_memory,
    unrolled,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    BLOCK,
    BOOL,
    GRID,
    INT,
    Choice,
    CudaType,
    Infix,
    Local,
    Operand,
    Prefixed,
    Term,
    call,
    cast,
    kind,
    read,
    term,
    vector_pointer,
)
from kernelblaster.policies.expert.emission.accumulators import Accumulator
from kernelblaster.policies.expert.emission.functions import (
    close_copies,
    copy_async,
    hear_cluster,
    meet_cluster,
    read_once,
    start_in_turn,
    tell_cluster,
    wait_for_copies,
)
from kernelblaster.policies.expert.emission.places import local
from kernelblaster.policies.expert.emission.unaligned_rows import LINE
from kernelblaster.policies.expert.schedules.rows import ClusterRows

NEXT, MORE = local("next", "more")  # the row that a cluster goes on to, and whether there is one
BEGIN, PACKS, AT, K, RANK, BATCH_FIRST = local("begin", "packs", "at", "k", "rank", "batch")
BLOCKS, THREADS, HELD, KEPT, BATCH, WIDTH = local("BLOCKS", "THREADS", "HELD", "KEPT", "BATCH", "WIDTH")
THREAD_IN_ROW = Local("thread")


def blocks(schedule: ClusterRows, total: Term) -> Term:
    """Returns the number of blocks of a launch for `total` rows, as a C++ expression of the host. There is
    one cluster for each row; if the kernel's schedule (layout on the GPU) is persistent, at most as many
    clusters as the GPU runs at once."""
    most = schedule.resident
    return (Choice(total < most, total, term(most)) if schedule.persistent else total) * schedule.blocks


def head(schedule: ClusterRows, total: Term) -> list[Statement]:
    return [
        constexpr("BLOCKS", schedule.blocks, "of a cluster: they share a row"),
        Do(call("__cluster_barrier_arrive_relaxed")),
        const(INT, "rank", BLOCK % BLOCKS),
        Do(start_in_turn.of(schedule.resident)(BLOCK / BLOCKS, total)),
    ]


def find_next_row(number: CudaType, row: str, total: Term) -> list[Statement]:
    """Returns C++ statements for a persistent cluster. Their place is between the reductions of the current
    row and its last pass, which stores elements. They declare two variables: `next`, the number of the row
    that the cluster processes next, and `more`, true if there is such a row (`next` is below `total`, the
    number of rows). `row` is the name of the variable with the number of the current row, `number` its C++
    type.

    If `more`, each thread also arrives at the cluster barrier, without waiting there. It thereby says that it
    has read what other blocks wrote to its block's shared memory in the reductions (see `combine`), so that
    they may write there again, for the next row. All threads wait for these arrivals after the last pass
    (`step_to_next_row`)."""
    return [
        const(number, NEXT.name, Local(row) + GRID / BLOCKS),
        const(BOOL, "more", NEXT < total),
        when(MORE, Do(call("__cluster_barrier_arrive"))),
    ]


def step_to_next_row(row: str) -> list[Statement]:
    """Returns C++ statements that end an iteration of the loop over rows, in code in which `find_next_row`
    declared the variables `more` and `next`. If there is no next row, they leave the loop. Otherwise they set
    the variable named `row` to the number of the next row, and wait at the cluster barrier until all threads
    of the cluster have arrived there (in the statements of `find_next_row`)."""
    return [
        when(Prefixed("!", MORE), BREAK),
        assign(Local(row), NEXT),
        _wait("the other blocks have heard what was told"),
    ]


def _wait(remark: str) -> Statement:
    return Do(call("__cluster_barrier_wait"), remark)


def slice_of_row(number: CudaType, elements: Term) -> list[Statement]:
    """Returns C++ statements that declare `begin` and `packs`: the block processes the vectors of the row
    numbered from `begin` to below `packs`. Slices begin at multiples of whole cache lines. `elements` is the
    number of elements of the row, `number` the C++ type of the two variables."""
    row_packs, share, line = local("row_packs", "share", "LINE")
    return [
        constexpr("LINE", term(LINE) / WIDTH),
        const(number, "row_packs", elements / WIDTH),
        const(number, "share", (row_packs + BLOCKS * line - 1) / (BLOCKS * line) * line),
        consts(number, begin=RANK * share, packs=call("min", row_packs, BEGIN + share)),
    ]


@dataclass(frozen=True)
class Resident:
    """A tensor of which each block of a cluster keeps its slice of the row in registers and shared memory.
    `pack` is the C++ type of its vectors; `place` is the C++ expression of a vector's address in global
    memory, where the variable `at` is the vector's number."""

    pack: CudaType
    place: Term


def read_residents(number: CudaType, schedule: ClusterRows, packs: Mapping[str, Resident]) -> list[Statement]:
    """Returns C++ statements that start to read this block's slice of the row of each tensor in `packs` (by
    name). A thread reads its first vectors into registers, and the next ones into shared memory by
    asynchronous copies; `schedule` says how many. `number` is the C++ type of vector numbers.

    The last statement waits until all blocks of the cluster have started, because a block may write to
    another one's shared memory (see `combine`) only once that block runs."""
    found: list[Statement] = []
    start = BEGIN + THREAD_IN_ROW
    if packs and schedule.register_elements:
        found.append(
            constexpr("HELD", term(schedule.register_elements) / WIDTH, "packs in each thread's registers")
        )
        found += [declare(one.pack, f"{name}_held", None, HELD) for name, one in packs.items()]
        reads = [
            when(
                AT < PACKS,
                assign(
                    Local(f"{name}_held")[K],
                    read_once(one.place) if schedule.streaming else read(one.place),
                ),
            )
            for name, one in packs.items()
        ]
        found.append(over_packs(number, HELD, start, reads))
        start = start + HELD * THREADS
    if packs and schedule.shared_elements:
        remark = "packs of each thread in shared memory"
        found.append(constexpr("KEPT", term(schedule.shared_elements) / WIDTH, remark))
        found += _places(packs)
        found.append(constexpr("BATCH", (KEPT + 15) / 16 * 4, "packs that are waited for together"))
        copies: list[Statement] = [
            when(AT < PACKS, Do(copy_async(Local(f"{name}_kept") + K * THREADS, one.place)))
            for name, one in packs.items()
        ]
        full = Infix("||", ((K + 1) % BATCH).equals(0), (K + 1).equals(KEPT))
        copies.append(when(full, Do(close_copies())))
        found.append(over_packs(number, KEPT, start, copies))
    return [*found, _wait("the other blocks have begun: there is their memory")]


def over_registers(
    number: CudaType, start: Term, take: Statement, following: Mapping[str, Term]
) -> Statement:
    """Returns the C++ loop that executes the statement `take` for each vector that a thread has in registers.
    `start` is the number of the thread's first vector, of the C++ type `number`. Bounds checks are left out
    if every thread has all of its vectors.

    `following` is for the last pass of a persistent cluster over a row, and empty in all other passes. It
    maps the name of a tensor to the C++ address of the vector with the same number in the next row. If there
    is a next row, that vector is read into the registers of the current one as soon as this has been used."""
    held = [when(MORE, assign(Local(f"{n}_held")[K], read(place))) for n, place in following.items()]
    taken = [take, *held]
    sure, unsure = (over_packs(number, HELD, start, found) for found in (taken, [when(AT < PACKS, *taken)]))
    return If(BEGIN + HELD * THREADS <= PACKS, (sure,), (unsure,))


def over_shared(
    number: CudaType, before: Term | None, take: Statement, following: Mapping[str, Term]
) -> list[Statement]:
    """Returns the C++ loops that execute the statement `take` for each vector that a thread has in shared
    memory. Vectors are taken in batches. `before` is how many vectors of the block's slice of the row come
    before its first vector in shared memory, because they are in registers; None if there are none. `number`
    is the C++ type of vector numbers.

    `following` is for the last pass of a persistent cluster over a row, and empty in all other passes. It
    maps the name of a tensor to the C++ address of the vector with the same number in the next row. If there
    is a next row, an asynchronous copy of that vector overwrites the current one as soon as this has been
    used. The loops wait for the asynchronous copies of each batch only if `following` is empty: before
    a last pass, an earlier pass over the row has waited for them."""
    moved: Operand = 0 if before is None else before
    here = const(number, "at", BEGIN + THREAD_IN_ROW + moved + K * THREADS)
    copies = [
        when(MORE, Do(copy_async(Local(f"{name}_kept") + K * THREADS, place)))
        for name, place in following.items()
    ]
    taken: list[Statement] = [take, *copies]
    all_, end, sure = local("all", "end", "sure")
    wait = Do(wait_for_copies((KEPT - 1 - BATCH_FIRST) / BATCH))
    batch: list[Statement] = [
        *([] if following else [wait]),
        consts(
            INT,
            end=call("min", BATCH_FIRST + BATCH, KEPT),
            sure=call("max", BATCH_FIRST, call("min", all_, end)),
        ),
        loop("k", BATCH_FIRST, sure, [here, *taken], unroll=4),
        loop("k", sure, end, [here, when(AT < PACKS, *taken)], unroll=1),
        *([Do(close_copies())] if following else []),
    ]
    left = PACKS - BEGIN if before is None else PACKS - BEGIN - before
    return [
        const(INT, "all", call("min", cast(number, KEPT), left / THREADS)),
        loop("batch", 0, KEPT, batch, step=BATCH, unroll=1),
    ]


def over_packs(number: CudaType, count: Term, start: Term, body: Sequence[Statement]) -> Statement:
    return unrolled("k", count, [const(number, "at", start + K * THREADS), *body])


def _places(packs: Mapping[str, Resident]) -> list[Statement]:
    """Declares the dynamic shared memory of the block, and for each tensor in `packs` (by name) a pointer to
    this thread's first vector of it there."""
    found: list[Statement] = [shared_memory(kind("uint4"), "kept")]
    start: Term = Local("kept")
    for name, one in packs.items():
        own = Local(f"{name}_kept")
        place = vector_pointer(one.pack, start, const=False) + THREAD_IN_ROW
        found.append(Declaration(CudaType("auto*"), (Declarator(own.name, place),)))
        start = own - THREAD_IN_ROW + KEPT * THREADS
    return found


def combine(slots: Mapping[int, Accumulator]) -> list[Statement]:
    """Returns C++ statements that combine the accumulators of all blocks of the cluster, with a single
    cluster barrier. Afterwards the accumulators of every thread hold the total of the whole cluster. Blocks
    exchange accumulators through numbered places in shared memory: `slots` maps the number of a place to the
    accumulator that is exchanged through it."""
    tell = [Do(tell_cluster.of(THREADS, BLOCKS, slot)(a.name, a.join)) for slot, a in slots.items()]
    hear = [Do(hear_cluster.of(BLOCKS, slot)(a.name, a.join)) for slot, a in slots.items()]
    return [*tell, Do(meet_cluster()), *hear]
