"""Parts of emitted row kernels (rows.py) that concern vectors, groups of neighbouring elements of a row. The
functions here return C++ statements for four purposes: which vectors a thread processes; reading them;
keeping them in registers or shared memory between passes over the row; and the loop over them in a pass. In
the emitted code the variable `at` is the number of a vector within its row."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.cuda.statements import (
    Declaration,
    Declarator,
    Do,
    If,
    LambdaParameter,
    Return,
    Statement,
    assign,
    const,
    constexpr,
    declare,
    function,
    loop,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    AUTO,
    INT64,
    UNSIGNED,
    Braces,
    Local,
    Term,
    any_of,
    call,
    cast,
    read,
    term,
)
from kernelblaster.policies.expert.emission import cluster_rows, unaligned_rows
from kernelblaster.policies.expert.emission.cluster_rows import (
    AT,
    BEGIN,
    HELD,
    KEPT,
    NEXT,
    PACKS,
    THREAD_IN_ROW,
    THREADS,
    WIDTH,
    K,
    over_packs,
)
from kernelblaster.policies.expert.emission.functions import DIVIDER
from kernelblaster.policies.expert.emission.places import unravel_term
from kernelblaster.policies.expert.emission.row_writer import RowWriter
from kernelblaster.policies.expert.emission.unaligned_rows import HEAD
from kernelblaster.policies.expert.emission.vectors import FIRST, pointer, read_vector, vector_type
from kernelblaster.policies.expert.expression import Gather, Load
from kernelblaster.policies.expert.guards import Guard
from kernelblaster.policies.expert.kernel import Store
from kernelblaster.policies.expert.row_kernel import RUNNING
from kernelblaster.policies.expert.schedules.rows import BlockRows, ClusterRows, WarpRows

UNROLL = 4  # vectors that a cluster reads again: as many at a time
REST = Local("REST")


def pack_range(rows: RowWriter) -> list[Statement]:
    """Returns C++ statements for the kernel `rows` that declare `begin` and `packs`: the threads that share a
    row process its vectors numbered from `begin` to below `packs`. `begin` is left out if it is 0, that is
    unless the row is cut into parts or shared by the blocks of a cluster."""
    outer, *rest = rows.kernel.reduced
    step = indices.product(axis.extent for axis in rest)
    end = rows.index(indices.multiply(outer.end, step))
    before: list[Statement] = []
    if rows.unaligned is not None:
        before = unaligned_rows.ends(rows.unaligned, outer.extent, rows.plan)
        end = Local("row_length") - HEAD
    if rows.cluster > 1:
        return [*before, *cluster_rows.slice_of_row(rows.number, end)]
    found = [*before, const(rows.number, "packs", end / WIDTH)]
    if outer.part is not None:
        begin = rows.index(indices.multiply(outer.begin, step))
        found.insert(0, const(rows.number, "begin", begin / WIDTH))
    return found


def _start(rows: RowWriter) -> Term:
    cut = rows.kernel.reduced[0].part is not None or rows.cluster > 1
    return BEGIN + THREAD_IN_ROW if cut else THREAD_IN_ROW


def position(rows: RowWriter, names: set[str]) -> list[Statement]:
    """Returns C++ statements for the kernel `rows` that find where a vector lies in its row. The vector's
    number is in the C++ variable `at`. The statements declare those loop variables along the row whose names
    are in `names`, and set them to the position of the vector's first element."""
    *outer, inner = rows.kernel.reduced
    if not outer:
        first = cast(INT64, AT) * WIDTH
        first = HEAD + first if rows.unaligned is not None else first
        return [const(INT64, FIRST.name, first)] if FIRST.name in names else []
    if not names:
        return []
    numbered = const(UNSIGNED if rows.narrow else INT64, RUNNING, AT * WIDTH)
    if divides(rows) and names - {RUNNING}:
        parts = Declaration(INT64, (Declarator(outer[0].name), Declarator(FIRST.name)))
        divided = Local("inner").call("divide", Local(RUNNING), Local(outer[0].name), FIRST)
        return [numbered, parts, Do(divided)]
    named = [*outer, replace(inner, name=FIRST.name, part=None)]
    return [
        numbered,
        *unravel_term(Local(RUNNING), named, names, rows.plan.sizes[0], narrow=rows.narrow),
    ]


def divides(rows: RowWriter) -> bool:
    """True if the code emitted for the kernel `rows` uses a `Divider`, a C++ object that divides 32-bit
    numbers by a fixed number without a division instruction. It does if the row has two axes and the numbers
    of its elements fit in 32 bits: these numbers are then divided by the extent of the inner axis."""
    return len(rows.kernel.reduced) == 2 and rows.narrow


def divider(rows: RowWriter) -> list[Statement]:
    if not divides(rows):
        return []
    made = Declarator("inner", rows.index(rows.kernel.reduced[-1].extent), constructed=True)
    return [Declaration(DIVIDER, (made,), "const")]


Moved = TypeVar("Moved", bound=Load | Gather | Store)


def straightened(rows: RowWriter, moved: Moved) -> tuple[Moved, set[str]]:
    """Rewrites the indices of `moved`, a load or store of a vector in the kernel `rows`, so that as few loop
    variables as possible occur in its address. Returns (the rewritten load or store, the names of the loop
    variables that its indices use). If the tensor is contiguous along the whole row, the indices use one
    variable only, called RUNNING: the number of the element within the row."""
    address = indices.row_major(moved.position, rows.plan.buffers[moved.buffer].shape)
    values = rows.straight(address)
    if values and not isinstance(moved, Gather) and moved not in rows.access.guards:
        position = tuple(indices.replace(index, values) for index in moved.position)
        return replace(moved, position=position), {RUNNING}
    loops = {axis.name for axis in rows.kernel.reduced} - {rows.access.along.name}
    return moved, {FIRST.name} | (indices.names(address) & loops)


def axes(rows: RowWriter, names: set[str] | None = None) -> list[Statement]:
    """Returns C++ statements for the kernel `rows` that compute the variables of its axes (its loops over
    rows) from the number of the row: all of them if `names` is None, else only those in `names`. Empty if
    there is a single axis, because its variable is the number of the row."""
    kind, name = rows.row
    found = rows.kernel.axes
    if len(found) == 1:
        return []
    wanted = {axis.name for axis in found} if names is None else names
    return unravel_term(Local(name), found, wanted, rows.plan.sizes[0], narrow=kind == UNSIGNED)


def _takes_at(rows: RowWriter) -> LambdaParameter:
    return LambdaParameter(rows.number, "at")


def places(rows: RowWriter) -> list[Statement]:
    """Returns the C++ declarations of a lambda `place_<name>` for each tensor of the kernel `rows` that a
    thread-block cluster keeps in registers and shared memory; empty without a cluster. The lambda returns the
    address of a vector in global memory. Its argument is the vector's number; in a persistent cluster, which
    has several rows, it has two arguments: the number of the row, then that of the vector."""
    found: list[Statement] = []
    row = (LambdaParameter(*rows.row),) if rows.persistent else ()
    for load, name in rows.kept.items() if rows.cluster > 1 else ():
        moved, names = straightened(rows, load)
        inside = axes(rows, indices.names(rows.values.address(moved))) if rows.persistent else []
        place = pointer(moved, rows.values, rows.access.along)
        body = [*inside, *position(rows, names), Return(place)]
        found.append(function(f"place_{name}", (*row, _takes_at(rows)), body))
    return found


def _place(rows: RowWriter, name: str, row: Term | None = None) -> Term:
    """The C++ call of the lambda `place_<name>`, which gives the address of the vector with the number `at`:
    in the row with the number `row` or, if None, in the current one."""
    own = [row if row is not None else Local(rows.row[1])] if rows.persistent else []
    return call(f"place_{name}", *own, AT)


def readers(rows: RowWriter) -> list[Statement]:
    """Returns the C++ declarations of a lambda `read_<name>` for each tensor that the kernel `rows` reads in
    vectors. The lambda takes the number of a vector and returns the vector. A load may be needed only on one
    side of a boundary, as in a concatenation; for a vector on the other side, the lambda returns zeros. If
    rows do not begin at aligned addresses, there also is a lambda `one_<name>` that reads a single
    element."""
    found: list[Statement] = []
    streaming = rows.schedule.streaming
    for load, name in rows.access.reads.items():
        if rows.unaligned is not None:
            one = Return(read(pointer(load, rows.values, rows.access.along, "1")))
            found.append(function(f"one_{name}", (LambdaParameter(INT64, FIRST.name),), [one]))
        if rows.cluster > 1 and load in rows.kept:
            found.append(function(f"read_{name}", (_takes_at(rows),), [Return(read(_place(rows, name)))]))
            continue
        once = streaming and rows.is_read_once(load, rows.schedule)
        moved, names = straightened(rows, load)
        body = position(rows, names)
        if load in rows.access.guards:
            fails = any_of([_fails(rows, guard) for guard in rows.access.guards[load]])
            nothing = Braces((), vector_type(rows.plan.buffers[load.buffer]))
            body.append(when(fails, Return(nothing)))
        body.append(Return(read_vector(moved, rows.values, rows.access.along, once=once)))
        found.append(function(f"read_{name}", (_takes_at(rows),), body))
    return found


def _fails(rows: RowWriter, guard: Guard) -> Term:
    """The C++ condition under which a vector is on the wrong side of the boundary of `guard`, so that it must
    not be loaded."""
    boundary = rows.index(guard.boundary)
    return FIRST >= boundary if guard.below else FIRST < boundary


def keeping(rows: RowWriter) -> list[Statement]:
    """Returns C++ statements for the kernel `rows` that load the vectors which more than one pass over the
    row needs: into registers or, if the blocks of a cluster share the row, into registers and shared memory.
    Empty if the kernel's schedule (layout on the GPU) keeps no vectors. With a cluster the list is never
    empty: its last statement waits until all blocks of the cluster have started, because only then may they
    write to each other's shared memory."""
    found: list[Statement] = []
    if rows.unaligned is not None:
        single = {name: vector_type(rows.plan.buffers[load.buffer], "1") for load, name in rows.kept.items()}
        found += unaligned_rows.read_ends(single, rows.schedule)
    if isinstance(rows.schedule, ClusterRows):
        packs = {
            name: cluster_rows.Resident(vector_type(rows.plan.buffers[load.buffer]), _place(rows, name))
            for load, name in rows.kept.items()
        }
        return [*found, *cluster_rows.read_residents(rows.number, rows.schedule, packs)]
    if not rows.kept:
        return []
    assert isinstance(rows.schedule, WarpRows | BlockRows)
    elements = term(rows.schedule.register_elements)
    found.append(constexpr("KEPT", elements / WIDTH, "packs in each thread's registers"))
    for load, name in rows.kept.items():
        found.append(declare(vector_type(rows.plan.buffers[load.buffer]), f"{name}_kept", None, KEPT))
    reads = [
        when(AT < PACKS, assign(Local(f"{name}_kept")[K], call(f"read_{name}", AT)))
        for name in rows.kept.values()
    ]
    return [*found, over_packs(rows.number, KEPT, _start(rows), reads)]


def _kept_packs(
    rows: RowWriter, names: Sequence[str], at: Term, *, last: bool
) -> tuple[list[Statement], Term]:
    """Returns (C++ loops over all vectors that were kept on chip, the number of the thread's first vector
    that was not). The loops call the C++ function `take` for each, with its number `at` and the vectors of
    the tensors `names`. With `last`, in a cluster, each kept vector is then overwritten by that of the next
    row."""
    start = _start(rows)
    if not rows.kept:
        return [], start

    def take(place: str, number: Term) -> Statement:
        kept = {name: Local(f"{name}_{place}")[number] for name in rows.kept.values()}
        return Do(call("take", at, *(kept.get(name) or call(f"read_{name}", AT) for name in names)))

    if not isinstance(rows.schedule, ClusterRows):
        here = [when(AT < PACKS, take("kept", K))]
        return [over_packs(rows.number, KEPT, start, here)], start + KEPT * THREADS
    following = {name: _place(rows, name, NEXT) for name in rows.kept.values()} if last else {}
    found: list[Statement] = []
    before: Term | None = None
    if rows.schedule.register_elements:
        before = HELD * THREADS
        found.append(cluster_rows.over_registers(rows.number, start, take("held", K), following))
        start = start + before
    if rows.schedule.shared_elements:
        found += cluster_rows.over_shared(rows.number, before, take("kept", K * THREADS), following)
        start = start + KEPT * THREADS
    return found, start


def each(rows: RowWriter, *, last: bool = False) -> Statement:
    """Returns the C++ declaration of a lambda, named `each`, that loops over the vectors of a row of the
    kernel `rows`. It takes a function and calls it for every vector that this thread processes. With `last`,
    the lambda is named `last`, and also starts to load the vectors of the next row; it is for a persistent
    cluster's last pass over a row."""
    names = list(rows.access.reads.values())
    ends = rows.unaligned is not None
    at: Term = HEAD + cast(INT64, AT) * WIDTH if ends else AT
    body: list[Statement] = []
    if ends:
        held = rows.kept.values()
        body += [unaligned_rows.single(end, names, held, rows.schedule) for end in unaligned_rows.ENDS]
    kept, start = _kept_packs(rows, names, at, last=last)
    again = Do(call("take", at, *(call(f"read_{name}", AT) for name in names)))
    rest = _rest(rows, start, again)
    # in a cluster, kept vectors are still on their way when the first pass begins
    body += [rest, *kept] if rows.cluster > 1 else [*kept, rest]
    return function("last" if last else "each", (LambdaParameter(AUTO, "take"),), body)


def _rest(rows: RowWriter, start: Term, taken: Statement) -> Statement:
    """The loop that does the statement `taken` for each vector that is not kept on chip, from number `start`
    on; where the template argument REST is false, all vectors are kept and it is compiled out."""
    unroll = rows.schedule.unroll if rows.cluster == 1 else max(UNROLL, rows.schedule.unroll)
    found = loop(
        "at", start, PACKS, [taken], step=THREADS, type_=rows.number, unroll=unroll if unroll > 1 else 0
    )
    return If(REST, (found,), constexpr=True) if rows.kept else found
