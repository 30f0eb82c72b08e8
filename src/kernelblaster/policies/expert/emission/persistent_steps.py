"""Emits a recurrent layer (LSTM, GRU, RNN) in the layout `PersistentSteps`: one cooperative launch, in which
the blocks keep their weights in registers and loop over the time steps."""

from dataclasses import replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.cuda.source import Emitted
from kernelblaster.policies.expert.cuda.statements import (
    Do,
    If,
    Statement,
    assign,
    const,
    constexpr,
    consts,
    declare,
    loop,
    shared,
    shared_memory,
    unrolled,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    BLOCK,
    FLOAT,
    GRID,
    INT,
    INT64,
    THREAD,
    Choice,
    CudaType,
    Given,
    LiteralTerm,
    Local,
    all_of,
    call,
    cast,
)
from kernelblaster.policies.expert.emission.functions import (
    RESIDENT_COLUMNS,
    copy_states,
    tell_steps,
    wait_for_steps,
)
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.places import local, unravel
from kernelblaster.policies.expert.emission.stores import store_statement
from kernelblaster.policies.expert.emission.values import index_term, values_of
from kernelblaster.policies.expert.expression import (
    Expression,
    Load,
    Operation,
    Reduced,
    loads,
    substituted,
    walk,
)
from kernelblaster.policies.expert.kernel import Kernel, Store
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.recurrent_layer import kept_state, own_state, state_before
from kernelblaster.policies.expert.schedules.recurrences import VECTOR, PersistentSteps

SCHEDULES = (PersistentSteps,)
ROWS, UNITS, WARPS, VECTORS, GATES = local("ROWS", "UNITS", "WARPS", "VECTORS", "GATES")
FEATURES, WIDTH, THREADS, TOGETHER = local("FEATURES", "WIDTH", "THREADS", "TOGETHER")
LANE, WARP_NUMBER, UNIT, PART, E = local("lane", "warp", "unit", "part", "e")
BLOCKS, TILES, GROUP, FIRST_ROW, FIRST_FEATURE = local(
    "blocks", "tiles", "group", "first_row", "first_feature"
)
BEFORE, SUMS, WEIGHTS, ELEMENT, ROW, LEFT = local("before", "sums", "weights", "element", "row", "left")
DONE, COLUMN, AT = local("done", "column", "at")


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    return PersistentKernel(kernel, plan).emitted()


class PersistentKernel:
    """Writes the body of one kernel as C++ statements: a recurrent layer in the layout `PersistentSteps`,
    whose blocks loop over the time steps. Each method writes one part of it. `kernel` is that layer, a kernel
    of `plan`."""

    def __init__(self, kernel: Kernel, plan: Plan) -> None:
        assert isinstance(kernel.schedule, PersistentSteps) and kernel.steps is not None
        self.kernel, self.plan, self.schedule = kernel, plan, kernel.schedule
        self.sizes, self.values = plan.sizes[0], values_of(plan)
        *outer, self.batch, self.features = kernel.axes
        self.outer, (self.k,), self.steps = tuple(outer), kernel.reduced, kernel.steps
        *self.results, self.state, self.progress = kernel.stores
        self.rows, self.width, self.end = (
            index_term(axis.extent, self.sizes) for axis in (self.batch, self.features, self.steps)
        )
        self.step = Local(self.steps.name)
        self.early = self._early()

    def emitted(self) -> Emitted:
        schedule, gates = self.schedule, len(self.kernel.stages)
        groups = indices.product(
            [
                *(axis.extent for axis in self.outer),
                indices.tiles(self.batch.extent, schedule.rows),
            ]
        )
        total, most = index_term(groups, self.sizes), schedule.groups
        blocks = index_term(indices.tiles(self.features.extent, schedule.features), self.sizes)
        grid = Choice(total < most, total, LiteralTerm(str(most))) * blocks
        nest = schedule.nest(self.outer, (self.batch,), (self.features,), (self.k,))
        extra = schedule.padded_rows(gates) * schedule.width * 4
        body = [*self._constants(), *self._places(), self._groups(groups)]
        return launched(nest, self.sizes, body, blocks=grid, shared=extra, blocks_per_sm=1, cooperative=True)

    def _constants(self) -> list[Statement]:
        schedule, gates = self.schedule, len(self.kernel.stages)
        return [
            constexpr("ROWS", schedule.rows, "sequences of a group"),
            constexpr("UNITS", schedule.units, "features of a warp"),
            constexpr("WARPS", schedule.warps),
            constexpr("GATES", gates),
            constexpr("VECTORS", schedule.vectors, "of 4 weights, in a lane for each column"),
            constexpr("TOGETHER", schedule.together(gates), "sequences that a warp computes at once"),
            constexpr("FEATURES", WARPS * UNITS),
            constexpr("WIDTH", VECTORS * (32 * VECTOR)),
            constexpr("THREADS", WARPS * 32),
        ]

    def _places(self) -> list[Statement]:
        padded = self.schedule.padded_rows(len(self.kernel.stages))
        return [
            shared_memory(FLOAT, "before", 16),
            shared(FLOAT, "sums", padded, GATES, FEATURES),
            consts(INT, lane=THREAD % 32, warp=THREAD / 32),
            const(INT, "blocks", cast(INT, index_term(self._blocks(), self.sizes)), "of a group"),
            const(INT64, "tiles", index_term(self._tiles(), self.sizes)),
            const(INT64, "first_feature", BLOCK % BLOCKS * FEATURES),
        ]

    def _blocks(self) -> indices.Index:
        return indices.tiles(self.features.extent, self.schedule.features)

    def _tiles(self) -> indices.Index:
        return indices.tiles(self.batch.extent, self.schedule.rows)

    def _groups(self, groups: indices.Index) -> Statement:
        """The loop over the groups of sequences that the block computes."""
        body: list[Statement] = []
        if self.outer:
            body += [const(INT64, "outer", GROUP / TILES), *unravel("outer", self.outer, self.sizes)]
        body += [
            const(INT64, "first_row", GROUP % TILES * ROWS),
            const(INT, "left", cast(INT, call("min", cast(INT64, ROWS), self.rows - FIRST_ROW))),
            declare(CudaType("int*"), "done", Given(self.progress.buffer) + GROUP * BLOCKS),
            *self._weights(),
            *self._declared_early(),
            loop(self.steps.name, 0, self.end, self._step(), type_=INT64),
        ]
        end = index_term(groups, self.sizes)
        return loop("group", BLOCK / BLOCKS, end, body, step=GRID / BLOCKS, type_=INT64)

    def _weights(self) -> list[Statement]:
        """Reads the weights of the warp's features into registers, with zeros beyond the last ones."""
        columns = f"ResidentColumns<{self.schedule.units * len(self.kernel.stages)}, VECTORS>"
        inside = all_of([Local(self.features.name) < self.width, Local(self.k.name) < self.width])
        assert inside is not None
        each: list[Statement] = [
            const(INT64, self.k.name, (PART / VECTOR * 32 + LANE) * VECTOR + PART % VECTOR)
        ]
        for gate, stage in enumerate(self.kernel.stages):
            assert isinstance(stage.body, Operation)
            value = self.values.expression(stage.body.operands[1])
            place = WEIGHTS.field("weights")[UNIT * GATES + gate][PART]
            each.append(assign(place, Choice(inside, value, LiteralTerm("0.0f"))))
        feature = FIRST_FEATURE + WARP_NUMBER * UNITS + UNIT
        return [
            declare(CudaType(columns, RESIDENT_COLUMNS), "weights"),
            unrolled(
                "unit",
                UNITS,
                [const(INT64, self.features.name, feature), unrolled("part", VECTORS * VECTOR, each)],
            ),
        ]

    def _step(self) -> list[Statement]:
        """The statements of one time step."""
        first, later = self._first_states(), self._later_states()
        return [
            *self._read_early(),
            If(self.step.equals(0), tuple(first), tuple(later)),
            Do(call("__syncthreads")),
            *self._products(),
            Do(call("__syncthreads")),
            self._elements(self._new_states()),
            Do(
                tell_steps(DONE + BLOCK % BLOCKS, cast(INT, self.step + 1)),
                "all of the block have stored their states",
            ),
        ]

    def _elements(self, body: list[Statement]) -> Statement:
        """The loop over the elements of the state that a thread computes: `body` for each of them, where
        there is one."""
        row, feature = Local(self.batch.name), Local(self.features.name)
        inside = all_of([ELEMENT < ROWS * FEATURES, row < self.rows, feature < self.width])
        assert inside is not None
        return unrolled(
            "e",
            self.schedule.elements,
            [
                const(INT, "element", THREAD + E * THREADS),
                const(INT64, row.name, FIRST_ROW + ELEMENT / FEATURES),
                const(INT64, feature.name, FIRST_FEATURE + ELEMENT % FEATURES),
                when(inside, *body),
            ],
        )

    def _early(self) -> dict[Expression, str]:
        """What the results of a step depend on beside its sums and its state, and a name for each of it. No
        other thread writes any of it."""
        found, own = dict[Expression, str](), own_state(self.kernel)

        def take(part: Expression) -> None:
            if isinstance(part, Load) or (isinstance(part, Operation) and part.name == "where"):
                if loads(part) and part != own:
                    found.setdefault(part, f"early{len(found)}")
            elif isinstance(part, Operation):
                for operand in part.operands:
                    take(operand)

        for store in (*self.results, self.state):
            take(store.value)
        return found

    def _declared_early(self) -> list[Statement]:
        return [
            declare(self.values.type(part.kind), f"{name}_read", None, self.schedule.elements)
            for part, name in self.early.items()
        ]

    def _read_early(self) -> list[Statement]:
        """Reads all that needs no other block, before the wait for these. A kept value is there already,
        beside that before the first step."""
        reads: list[Statement] = []
        for part, name in self.early.items():
            kept = self._kept(part) is not None and isinstance(part, Operation)
            value = part.operands[1] if kept and isinstance(part, Operation) else part
            read = assign(Local(f"{name}_read")[E], self.values.expression(value))
            reads.append(when(self.step.equals(0), read) if kept else read)
        return [self._elements(reads)] if reads else []

    def _first_states(self) -> list[Statement]:
        """Computes the states before the first step, with zeros behind them, in shared memory."""
        padded = self.schedule.padded_rows(len(self.kernel.stages))
        state = state_before(self.kernel).operands[1]
        row, k = Local(self.batch.name), Local(self.k.name)
        last = self.rows - 1
        body: list[Statement] = [
            const(INT64, row.name, call("min", FIRST_ROW + AT / WIDTH, last)),
            const(INT64, k.name, AT % WIDTH),
            assign(BEFORE[AT], Choice(k < self.width, self.values.expression(state), LiteralTerm("0.0f"))),
        ]
        return [loop("at", THREAD, padded * WIDTH, body, step=THREADS)]

    def _later_states(self) -> list[Statement]:
        """Waits for the states of the step before, and copies them to shared memory."""
        load = state_before(self.kernel).operands[2]
        assert isinstance(load, Load)
        shape = self.plan.buffers[load.buffer].shape
        begin = (*load.position[:-2], indices.variable("first_row"), indices.ZERO)
        start = self.values.index(indices.row_major(begin, shape))
        pitch = cast(INT, index_term(shape[-1], self.sizes))
        rows = (LEFT, cast(INT, self.width), pitch)
        return [
            Do(wait_for_steps(DONE, BLOCKS, cast(INT, self.step))),
            Do(copy_states.of(WIDTH, THREADS)(BEFORE, Given(load.buffer) + start, *rows)),
        ]

    def _products(self) -> list[Statement]:
        """Multiplies the states by the weights; the sums of all gates go to shared memory."""
        columns = UNITS * GATES
        place = SUMS[ROW + LANE / columns][COLUMN % GATES][WARP_NUMBER * UNITS + COLUMN / GATES]
        return [
            loop(
                "row",
                0,
                LEFT,
                [
                    const(FLOAT, "sum", WEIGHTS.call("multiply<TOGETHER>", BEFORE + ROW * WIDTH)),
                    const(INT, "column", LANE % columns),
                    when(LANE < TOGETHER * columns, assign(place, Local("sum"))),
                ],
                step=TOGETHER,
                unroll=1,
            )
        ]

    def _new_states(self) -> list[Statement]:
        """Computes the elements of the new states from the sums of the gates, and stores them. What does not
        depend on the step is stored in the last one only, and kept in a register until then."""
        row, feature = ELEMENT / FEATURES, ELEMENT % FEATURES
        real, known = self.values.real_type, dict[Expression, Expression]()
        own = Reduced("own_state", "real")
        body: list[Statement] = []
        if any(own_state(self.kernel) in walk(store.value) for store in self.results):
            place = BEFORE[row * WIDTH + cast(INT, Local(self.features.name))]
            body.append(const(real, own.stage, place))
        for part, name in self.early.items():
            body.append(const(self.values.type(part.kind), name, Local(f"{name}_read")[E]))
            known[part] = Reduced(name, part.kind)
        for gate, stage in enumerate(self.kernel.stages):
            body.append(const(real, stage.name, SUMS[row][gate][feature]))
        known[own_state(self.kernel)] = own
        last = (self.step + 1).equals(self.end)
        for store in sorted((*self.results, self.state), key=self._depends_on_step):
            if store.value not in known:
                name = f"{store.buffer}_now"
                value = self.values.expression(substituted(store.value, known))
                body.append(const(real, name, value))
                known[store.value] = Reduced(name, store.value.kind)
            written = store_statement(replace(store, value=known[store.value]), self.plan, self.values)
            body.append(written if self._depends_on_step(store) else when(last, written))
            for part, name in self.early.items():
                if self._kept(part) == store:
                    body.append(assign(Local(f"{name}_read")[E], Local(self._name(known[store.value]))))
        return body

    def _depends_on_step(self, store: Store) -> bool:
        return any(self.steps.name in indices.names(index) for index in store.position)

    def _kept(self, part: Expression) -> Store | None:
        """The store whose value a thread keeps until the next step, where `part` is that value: a choice
        between one before the first step and that of the step before."""
        if isinstance(part, Operation) and part.name == "where" and isinstance(part.operands[2], Load):
            return kept_state(self.kernel, part.operands[2])
        return None

    @staticmethod
    def _name(known: Expression) -> str:
        assert isinstance(known, Reduced)
        return known.stage
