"""Emits scans (a result for each prefix along an axis, such as cumulative sums) in three layouts. In the
first one, a single thread does a whole scan. Scans along memory are done by the warps of a block
(device_code/scan_chunk.cuh), scans across memory by threads that go down neighbouring columns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.combines.prefix import is_reversed
from kernelblaster.policies.expert.cuda.headers import header
from kernelblaster.policies.expert.cuda.source import Emitted, TemplateParameter, Variant
from kernelblaster.policies.expert.cuda.statements import (
    Declaration,
    Declarator,
    Do,
    LambdaParameter,
    Return,
    Statement,
    assign,
    const,
    constexpr,
    declare,
    function,
    loop,
    unrolled,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    AUTO,
    BLOCK,
    BLOCK_THREADS,
    INT,
    INT64,
    THREAD,
    Braces,
    Choice,
    CudaType,
    DeviceFunction,
    Local,
    Term,
    call,
    cast,
    term,
)
from kernelblaster.policies.expert.emission.accumulators import Accumulator, accumulators
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.places import count, local, running, unravel_term
from kernelblaster.policies.expert.emission.stores import store_statement
from kernelblaster.policies.expert.emission.values import index_term, values_of
from kernelblaster.policies.expert.emission.vectors import (
    FIRST,
    LANE,
    VectorValues,
    aligned,
    read_vector,
    vector_name,
    vector_type,
    vector_values,
    write_vector,
)
from kernelblaster.policies.expert.expression import Expression, Gather, Load, loads
from kernelblaster.policies.expert.flatten import flattened
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel, Store
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.row_kernel import RowKernel, row_kernel
from kernelblaster.policies.expert.schedules.scans import ScanColumns, ScanRows, ThreadPerScan
from kernelblaster.policies.expert.vector_access import VectorAccess, mentioned, vector_access

SCHEDULES = (ThreadPerScan, ScanRows, ScanColumns)
SCAN_CHUNK = DeviceFunction("scan_chunk", header("scan_chunk"))
TURN, AT, PACKS, K, OWN, START, CHUNK = local("turn", "at", "packs", "k", "own", "start", "CHUNK")
WARPS, VECTORS, WIDTH = local("WARPS", "VECTORS", "WIDTH")


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    match kernel.schedule:
        case ThreadPerScan():
            return _by_thread(kernel, kernel.schedule, plan)
        case ScanRows():
            return _row_scan(kernel, kernel.schedule, plan).emitted()
    assert isinstance(kernel.schedule, ScanColumns)
    return _columns(kernel, kernel.schedule, plan)


def _row_scan(kernel: Kernel, schedule: ScanRows, plan: Plan) -> "RowScan":
    rows = row_kernel(kernel, plan)
    values = vector_values(values_of(plan), rows.access)
    return RowScan(rows, schedule, values, accumulators(rows.kernel, plan))


def _walked(kernel: Kernel, plan: Plan, number: Term) -> Term:
    """The C++ index of the element that the scan reaches after `number` steps: counted from the end where the
    scan runs backwards, else `number` itself."""
    length = index_term(kernel.reduced[0].extent, plan.sizes[0])
    return length - 1 - number if is_reversed(kernel.stages) else number


def _by_thread(kernel: Kernel, schedule: ThreadPerScan, plan: Plan) -> Emitted:
    sizes, values = plan.sizes[0], values_of(plan)
    total = count((axis.extent for axis in kernel.axes), sizes)
    first, declared = running("i", kernel.axes, sizes)
    (scanned,) = kernel.reduced
    found = accumulators(kernel, plan)
    step: list[Statement] = []
    if is_reversed(kernel.stages):
        step.append(const(INT64, scanned.name, _walked(kernel, plan, TURN)))
    for a in found:
        step += [*a.take(a.name, values.expression(a.stage.body)), a.result(a.name)]
    step += [store_statement(store, plan, values) for store in kernel.stores]
    name = TURN.name if is_reversed(kernel.stages) else scanned.name
    body: list[Statement] = [
        const(INT64, first, BLOCK * cast(INT64, BLOCK_THREADS) + THREAD),
        when(Local(first) >= total, Return()),
        *declared,
        *(a.declared() for a in found),
        loop(name, 0, index_term(scanned.extent, sizes), step, type_=INT64),
    ]
    return launched(schedule.nest(kernel.axes, kernel.reduced), sizes, body)


@dataclass(frozen=True)
class RowScan:
    """Writes a scan along memory (such as a cumulative sum of each row), one chunk of a row after another. In
    a chunk each lane has `VECTORS` vectors, a constant of the emitted code; neighbouring lanes of a warp have
    neighbouring vectors. `rows` describes the kernel, `schedule` its layout on the GPU; `values` writes its
    expressions as C++. `found` has, for each scan of the kernel, the C++ variable in which its result so far
    is accumulated."""

    rows: RowKernel
    schedule: ScanRows
    values: VectorValues
    found: Sequence[Accumulator]

    @property
    def kernel(self) -> Kernel:
        return self.rows.kernel

    @property
    def access(self) -> VectorAccess:
        return self.rows.access

    def index(self, index: Index) -> Term:
        return index_term(index, self.rows.plan.sizes[0])

    def emitted(self) -> Emitted:
        schedule, sizes = self.schedule, self.rows.plan.sizes[0]
        length = self.index(self.kernel.reduced[0].extent)
        body = [
            constexpr("WARPS", schedule.warps),
            constexpr("VECTORS", term(schedule.elements) / WIDTH),
            constexpr("CHUNK", WARPS * VECTORS * WARP, "vectors of a row that its warps have at once"),
            *self._row(),
            const(INT, "packs", length / WIDTH),
            *self._readers(),
            *(a.declared() for a in self.found),
            loop("start", 0, PACKS, self._chunk(), step=CHUNK),
        ]
        nest = schedule.nest(self.kernel.axes, self.kernel.reduced)
        condition, blocks = (
            aligned(self.access, schedule.vector_width, self.rows.plan),
            self.index(nest.blocks()),
        )
        variants = [Variant((term(schedule.vector_width),), condition, blocks)]
        variants += [] if condition is None else [Variant((term(1),), None, blocks)]
        parameters = (TemplateParameter(INT, "WIDTH"),)
        return launched(nest, sizes, body, parameters=parameters, variants=tuple(variants))

    def _row(self) -> list[Statement]:
        """Statements that compute the number of the row that this thread works on, and the number of the
        thread's first vector within a chunk (`own`); warps beyond the last row return."""
        sizes, axes = self.rows.plan.sizes[0], self.kernel.axes
        together = self.schedule.rows
        first, declared = running("row", axes, sizes)
        found: list[Statement] = []
        if together > 1:
            number = BLOCK * cast(INT64, together) + THREAD / WARP
            found.append(const(INT64, first, number))
            found.append(when(Local(first) >= count((a.extent for a in axes), sizes), Return()))
        elif axes:
            found.append(const(INT64, first, BLOCK))
        own = THREAD / WARP % WARPS * (VECTORS * WARP) + THREAD % WARP
        return [*found, *declared, const(INT, "own", own)]

    def _first(self) -> Statement:
        """Declares `first`, the index in the row of the first element of the vector whose number is in the
        variable `at`; vectors are numbered from the row's end where the scan runs backwards."""
        number = cast(INT64, AT)
        length = self.index(self.kernel.reduced[0].extent)
        return const(INT64, FIRST.name, length - (number + 1) * WIDTH if self._reversed else number * WIDTH)

    @property
    def _reversed(self) -> bool:
        return is_reversed(self.kernel.stages)

    def _readers(self) -> list[Statement]:
        """Declares for each tensor that is read in vectors a lambda `read_<name>` from a vector's number in
        the row to the vector."""
        found: list[Statement] = []
        for load, name in self.access.reads.items():
            once = self.schedule.streaming and self.rows.reads_own_rows(load)
            vector = read_vector(load, self.values, self.access.along, once=once)
            body = [self._first(), Return(vector)]
            found.append(function(f"read_{name}", (LambdaParameter(INT, "at"),), body))
        return found

    def _over_vectors(self, body: Sequence[Statement]) -> Statement:
        return unrolled("k", VECTORS, [const(INT, "at", START + OWN + K * WARP), *body])

    def _chunk(self) -> list[Statement]:
        """Statements that read a chunk of the row, scan it, and store the results. Vectors behind the row's
        end count as elements that change nothing (the operation's identity) and are not stored."""
        bodies = [a.stage.body for a in self.found]
        early = {load: name for load, name in self.access.reads.items() if load in _loads(bodies)}
        arrays = [
            declare(vector_type(self.values.buffers[load.buffer]), f"{name}_packs", None, VECTORS)
            for load, name in early.items()
        ]
        reads = [assign(Local(f"{name}_packs")[K], call(f"read_{name}", AT)) for name in early.values()]
        taken = [
            assign(_values_of(a)[K][TURN], Choice(AT < PACKS, self._single(a), _nothing(a)))
            for a in self.found
        ]
        numbered = any(a.stage.combine.placed for a in self.found)
        return [
            *arrays,
            *([self._over_vectors([when(AT < PACKS, *reads)])] if reads else []),
            *(declare(a.type, _values_of(a).name, None, VECTORS, WIDTH) for a in self.found),
            self._over_vectors(
                [self._first(), *_named(early.values()), self._lanes(bodies, taken, numbered=numbered)]
            ),
            *(Do(SCAN_CHUNK.of(WARPS)(_values_of(a), a.name, _nothing(a), a.join)) for a in self.found),
            self._over_vectors([when(AT < PACKS, self._first(), *self._stored(early))]),
        ]

    def _single(self, a: Accumulator) -> Term:
        return a.stage.combine.single(a.running, self.values.expression(a.stage.body))

    def _lanes(
        self, expressions: Sequence[Expression], body: Sequence[Statement], *, numbered: bool = False
    ) -> Statement:
        """The unrolled loop that does `body` for each element of a vector, in the order of the scan. It
        declares the element's index along the row where `expressions` use it, or if `numbered`."""
        along = self.access.along.name
        found: list[Statement] = []
        lane: Term = WIDTH - 1 - TURN if self._reversed else TURN
        found.append(const(INT, LANE.name, lane))
        if numbered or along in mentioned(expressions, self.access):
            found.append(const(INT64, along, FIRST + LANE))
        return unrolled(TURN.name, WIDTH, [*found, *body])

    def _stored(self, early: Mapping[Load | Gather, str]) -> list[Statement]:
        stores, plan = self.kernel.stores, self.rows.plan
        used = _loads([store.value for store in stores])
        late = [name for load, name in self.access.reads.items() if load in used and load not in early]
        again = [name for load, name in early.items() if load in used]
        before = [*_named(again), *(const(AUTO, vector_name(n).name, call(f"read_{n}", AT)) for n in late)]
        after: list[Statement] = []
        for store in stores:
            if store in self.access.writes:
                name = self.access.writes[store]
                before.append(declare(vector_type(plan.buffers[store.buffer]), vector_name(name).name))
                once = self.schedule.streaming
                after.append(write_vector(store, name, self.values, self.access.along, once=once))
        results = [a.result(_values_of(a)[K][TURN]) for a in self.found]
        statements = [store_statement(store, plan, self.values) for store in stores]
        along = self.access.along.name
        single = any(along in _names(s) for s in stores if s not in self.access.writes)
        lanes = self._lanes([s.value for s in stores], [*results, *statements], numbered=single)
        return [*before, lanes, *after]


def _names(store: Store) -> set[str]:
    return set().union(*(indices.names(index) for index in store.position))


def _values_of(a: Accumulator) -> Local:
    return Local(f"{a.stage.name}_values")


def _nothing(a: Accumulator) -> Term:
    """The C++ value with which the accumulator `a` starts, before any element: the identity of the scan's
    operation, like 0 for a sum."""
    return Braces(a.start.items, a.type) if isinstance(a.start, Braces) else cast(a.type, a.start)


def _loads(expressions: Iterable[Expression]) -> set[Load | Gather]:
    return {load for expression in expressions for load in loads(expression)}


def _named(names: Iterable[str]) -> list[Statement]:
    """Declares, for each tensor in `names`, a C++ reference with the name of its current vector to element
    `k` of the array of vectors that was read before."""
    return [
        Declaration(CudaType("auto&"), (Declarator(vector_name(n).name, Local(f"{n}_packs")[K]),), "const")
        for n in names
    ]


def _columns(kernel: Kernel, schedule: ScanColumns, plan: Plan) -> Emitted:
    """The kernel of a scan across memory: each thread has `schedule.vector_width` neighbouring columns and
    walks down their rows, in a loop that is unrolled so that loads of several rows overlap."""
    kernel = flattened(kernel, plan)
    sizes, (scanned,) = plan.sizes[0], kernel.reduced
    *outer, last = kernel.axes
    access = vector_access(kernel, plan, last)
    values = vector_values(values_of(plan), access)
    found = accumulators(kernel, plan)
    packs = index_term(last.extent, sizes) / WIDTH
    total = count((axis.extent for axis in outer), sizes) * Local("packs") if outer else Local("packs")
    number = Local("number")
    place = unravel_term(number / Local("packs"), outer, {axis.name for axis in outer}, sizes, narrow=False)
    stored = [store.value for store in kernel.stores]
    bodies = [a.stage.body for a in found]
    used = _loads([*bodies, *stored])
    reads: list[Statement] = [
        const(
            vector_type(plan.buffers[load.buffer]),
            vector_name(name).name,
            read_vector(load, values, last, once=schedule.streaming),
        )
        for load, name in access.reads.items()
        if load in used
    ]
    before: list[Statement] = []
    after: list[Statement] = []
    for store, name in access.writes.items():
        before.append(declare(vector_type(plan.buffers[store.buffer]), vector_name(name).name))
        after.append(write_vector(store, name, values, last, once=schedule.streaming))
    step: list[Statement] = []
    if last.name in mentioned([*bodies, *stored], access) or len(access.writes) < len(kernel.stores):
        step.append(const(INT64, last.name, FIRST + LANE))
    for a in found:
        step += [*a.take(a.name[LANE], values.expression(a.stage.body)), a.result(a.name[LANE])]
    step += [store_statement(store, plan, values) for store in kernel.stores]
    turned = [const(INT64, scanned.name, _walked(kernel, plan, TURN))] if is_reversed(kernel.stages) else []
    down = loop(
        TURN.name if turned else scanned.name,
        0,
        index_term(scanned.extent, sizes),
        [*turned, *reads, *before, unrolled("lane", WIDTH, step), *after],
        type_=INT64,
        unroll=schedule.unroll,
    )
    body: list[Statement] = [
        const(INT64, "packs", packs),
        const(INT64, "number", BLOCK * cast(INT64, BLOCK_THREADS) + THREAD),
        when(number >= total, Return()),
        *place,
        const(INT64, FIRST.name, (number % Local("packs") if outer else number) * WIDTH),
        *(a.declared(WIDTH) for a in found),
        unrolled("lane", WIDTH, [assign(a.name[LANE], a.start) for a in found]),
        down,
    ]
    nest, single = (
        replace(schedule, vector_width=width).nest(kernel.axes, kernel.reduced)
        for width in (schedule.vector_width, 1)
    )
    condition = aligned(access, schedule.vector_width, plan)
    variants = [Variant((term(schedule.vector_width),), condition, index_term(nest.blocks(), sizes))]
    if condition is not None:
        variants.append(Variant((term(1),), None, index_term(single.blocks(), sizes)))
    parameters = (TemplateParameter(INT, "WIDTH"),)
    return launched(nest, sizes, body, parameters=parameters, variants=tuple(variants))
