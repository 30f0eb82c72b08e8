"""Emits convolutions as matrix products (implicit GEMM) on tensor cores in half precision, after exact
scaling by powers of two (device_code/gathered_halves.cuh).

While earlier tiles are multiplied, a thread gathers the elements of one column from the input tensor into
registers. Then it divides them by the column's power of two and writes them to shared memory as halves. If
later elements of the column need a larger power of two, the sums that were computed with the smaller one are
rescaled after the tile's barrier.
"""

from dataclasses import dataclass

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.contraction import as_contraction, extent
from kernelblaster.policies.expert.cuda.headers import header
from kernelblaster.policies.expert.cuda.source import Emitted
from kernelblaster.policies.expert.cuda.statements import (
    BARRIER,
    CONTINUE,
    Declaration,
    Declarator,
    Do,
    If,
    LambdaParameter,
    Return,
    Statement,
    assign,
    const,
    declare,
    function,
    loop,
    shared_memory,
    unrolled,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    BOOL,
    FLOAT,
    INT,
    INT64,
    THREAD,
    Braces,
    Choice,
    CudaType,
    DeviceFunction,
    Given,
    Infix,
    LiteralTerm,
    Local,
    Term,
    address_of,
    all_of,
    call,
    cast,
    read,
    vector_pointer,
)
from kernelblaster.policies.expert.emission.functions import (
    pack_type,
    pipeline_commit,
    pipeline_memcpy_async,
    pipeline_wait_prior,
    scale_for,
    write_pack,
)
from kernelblaster.policies.expert.emission.gathered_product import (
    BLOCK_COLUMN,
    BLOCK_ROW,
    BUFFER,
    COLUMN,
    FIRST,
    LANE,
    LEFT_K,
    LEFT_ROW,
    LEFT_TILE,
    PART,
    RIGHT_COLUMN,
    RIGHT_TILE,
    ROW,
    STEP,
    STEPS,
    SUMS,
    WARP_COLUMN,
    WARP_ROW,
    GatheredKernel,
    K,
    named_k,
)
from kernelblaster.policies.expert.emission.places import local, unravel, unravel_term
from kernelblaster.policies.expert.emission.stores import store_statement, stored_value
from kernelblaster.policies.expert.emission.values import c_type, values_of
from kernelblaster.policies.expert.expression import Load, Operation, address, used_names
from kernelblaster.policies.expert.index import Index, row_major
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.product import contiguous
from kernelblaster.policies.expert.proofs import separate_all
from kernelblaster.policies.expert.schedules.gathered import TILE_PADDING, GatheredHalves
from kernelblaster.policies.expert.vector_access import fits

SCHEDULES = (GatheredHalves,)
WORD = CudaType("uint32_t")
HALVES = header("gathered_halves")
PUT, MULTIPLY, RESCALE = (
    DeviceFunction(name, HALVES) for name in ("put_halves", "multiply_tiles_halves", "rescale_columns")
)
VALUES, COLUMN_STEP, FACTORS, CHANGED, FURTHER = local(
    "values", "column_step", "factors", "changed", "further"
)
FEW_RESULTS = 32  # of a thread, which leave registers for several blocks of an SM
RESIDENT, RESIDENT_DEEP = 512, 384  # threads of an SM then, with up to 32 and with more terms of a tile each
TOGETHER = (4, 2)  # results that are stored together, where sizes allow it


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    found, schedule = as_contraction(kernel, plan), kernel.schedule
    assert found is not None and isinstance(schedule, GatheredHalves)
    return HalvesKernel(kernel, plan, schedule, found).emitted()


@dataclass(frozen=True)
class HalvesKernel(GatheredKernel):
    """Writes the body of one kernel as C++ statements: a convolution as a matrix product whose operands are
    rounded to half precision (the schedule `GatheredHalves`). Each method writes one part of it."""

    @property
    def _operand(self) -> tuple[Load, Load]:
        """Returns two loads: of the packed operand's element, and of the power of two by which its row was
        divided."""
        left = self.product.left
        assert isinstance(left, Operation)
        packed, step = left.operands
        assert isinstance(packed, Load) and isinstance(step, Load)
        return packed, step

    @property
    def _fragments(self) -> tuple[int, int]:
        """Returns how many fragments (the parts of a result tile that one instruction computes) a warp has:
        (along the rows, 16 rows each; along the columns, 8 columns each)."""
        tile = self.tile
        return tile.block_m // tile.warps_m // 16, tile.block_n // tile.warps_n // 8

    def _blocks_per_sm(self) -> int:
        tile = self.tile
        few = tile.block_m * tile.block_n <= FEW_RESULTS * tile.threads
        resident = RESIDENT if tile.block_k <= FEW_RESULTS else RESIDENT_DEEP
        return resident // tile.threads if few else 0

    def _gathered(self) -> list[Statement]:
        return [const(INT, "right_column", THREAD)]

    def _memory(self) -> list[Statement]:
        tile, memory = self.tile, Local("memory")
        pairs = tile.block_k // 2
        left = f"uint32_t (*)[{pairs}][{tile.block_m + TILE_PADDING}]"
        right = f"uint32_t (*)[{pairs}][{tile.block_n + TILE_PADDING}]"
        behind = 2 * pairs * (tile.block_m + TILE_PADDING)
        after = behind + 2 * pairs * (tile.block_n + TILE_PADDING)
        auto = CudaType("auto")
        return [
            shared_memory(WORD, "memory", 16),
            Declaration(auto, (Declarator("left_tile", cast(CudaType(left), memory)),)),
            Declaration(auto, (Declarator("right_tile", cast(CudaType(right), memory + behind)),)),
            Declaration(auto, (Declarator("factors", cast(CudaType("float*"), memory + after)),)),
            self._steps(),
            declare(FLOAT, "sums", Braces(), *self._fragments, 4),
            declare(FLOAT, "values", None, tile.block_k),
            declare(FLOAT, "column_step", scale_for(LiteralTerm("0.0f"))),
        ]

    def _copy(self) -> list[Statement]:
        """Returns the declarations of two C++ lambdas. `copy(buffer, step)` starts to copy the tile of the
        packed operand for a step, and to read this thread's column of the gathered one. `put(buffer)` puts
        that column into shared memory, and returns whether the sums of the column have to be scaled."""
        tile = self.tile
        copied = [*self._point(), *self._copy_left(), *self._gather_right(), Do(pipeline_commit())]
        put = PUT.of(tile.block_k)(RIGHT_TILE[BUFFER], RIGHT_COLUMN, VALUES, COLUMN_STEP)
        buffer = LambdaParameter(INT, "buffer")
        return [
            function("copy", (buffer, LambdaParameter(INT, "step")), copied),
            function(
                "put",
                (buffer,),
                [
                    const(FLOAT, "factor", put),
                    assign(FACTORS[RIGHT_COLUMN], Local("factor")),
                    Return(Infix("!=", Local("factor"), LiteralTerm("1.0f"))),
                ],
            ),
        ]

    def _copy_left(self) -> list[Statement]:
        """Statements that copy this thread's words of the packed operand, without bounds checks: it was
        packed with padding up to whole tiles."""
        tile, (load, _) = self.tile, self._operand
        *outer, _, _, _ = load.position
        shape = self.plan.buffers[load.buffer].shape
        pairs, lines = tile.block_k // 2, tile.threads // (tile.block_m // 4)
        position = (*outer, indices.variable("pair"), indices.variable("row"), indices.ZERO)
        here = LEFT_K + PART * lines
        copy: list[Statement] = [
            const(INT64, "pair", FIRST / 2 + here),
            const(INT64, "row", BLOCK_ROW * tile.block_m + LEFT_ROW),
            Do(
                pipeline_memcpy_async(
                    address_of(LEFT_TILE[BUFFER][here][LEFT_ROW]),
                    Given(load.buffer) + self.index(row_major(position, shape)),
                    16,
                )
            ),
        ]
        return self._over_lines(pairs, copy)

    def _gather_right(self) -> list[Statement]:
        product, tile, values = self.product, self.tile, values_of(self.plan)
        moving = {axis.name for axis in product.inner}
        load = self.element.load
        fixed, moved = separate_all(address(load, self.plan.buffers[load.buffer].shape), moving)
        early = [c for c in self.element.conditions if not used_names([c], []) & moving]
        late = [c for c in self.element.conditions if c not in early]
        inside = all_of([Local("in_columns"), *(values.expression(c) for c in early)])
        whole = all(
            indices.evaluate(extent(product.inner), sizes) % tile.block_k == 0 for sizes in self.plan.sizes
        )
        ends: list[Term] = [] if whole else [K < self.index(extent(product.inner))]
        there = all_of([Local("inside"), *ends, *(values.expression(c) for c in late)])
        assert inside is not None and there is not None
        element = read(Local("from") + self.index(moved))
        return [
            const(BOOL, "inside", inside),
            declare(CudaType("const float*"), "from", Given(load.buffer) + self.index(fixed)),
            unrolled(
                "part",
                tile.block_k,
                [
                    const(INT, "k", FIRST + PART),
                    *named_k(product.inner, used_names(late, [moved]) & moving, self.plan),
                    assign(VALUES[PART], Choice(there, element, LiteralTerm("0.0f"))),
                ],
            ),
        ]

    def _loop(self) -> list[Statement]:
        next_ = STEP + 1
        multiply = MULTIPLY(SUMS, LEFT_TILE[STEP % 2], RIGHT_TILE[STEP % 2], WARP_ROW, WARP_COLUMN)
        rescale = Do(RESCALE(SUMS, FACTORS, WARP_COLUMN))
        return [
            Do(call("copy", 0, 0)),
            Do(call("put", 0)),
            Do(pipeline_wait_prior(0)),
            BARRIER,
            loop(
                "step",
                0,
                STEPS,
                [
                    const(BOOL, "further", next_ < STEPS),
                    when(FURTHER, Do(call("copy", next_ % 2, next_))),
                    Do(multiply),
                    const(BOOL, "changed", Infix("&&", FURTHER, call("put", next_ % 2))),
                    Do(pipeline_wait_prior(0)),
                    when(call("__syncthreads_or", CHANGED), rescale, BARRIER),
                ],
            ),
        ]

    def _results(self) -> list[Statement]:
        """Statements that compute, for each few of a thread's neighbouring results, what is fused behind the
        product, and store it: together where they are neighbours in memory, at sizes that allow it."""
        product, tile, sizes = self.product, self.tile, self.plan.sizes[0]
        m, n = self._fragments
        together, even = self._together()
        j, h, start, first = local("j", "h", "start", "first")
        place = j * together
        row = BLOCK_ROW * tile.block_m + WARP_ROW + h / 4 * 32 + LANE / 4 * 4 + h % 4
        rows: list[Statement] = [
            const(INT64, "row", row),
            when(ROW >= self.index(extent(product.rows)), CONTINUE),
            *unravel("row", product.rows, sizes),
            const(FLOAT, "row_step", values_of(self.plan).expression(self._operand[1])),
        ]
        stored, neighbours = (
            self._stored_singly(together),
            all_of([(self.index(index) % together).equals(0) for index in even]),
        )
        if neighbours is not None:
            stored = [If(Local("neighbours"), tuple(self._stored_together(together)), tuple(stored))]
        last = product.columns[-1]
        starts = (*product.columns[:-1], Axis(f"{last.name}_first", last.extent))
        return [
            assign(FACTORS[RIGHT_COLUMN], COLUMN_STEP),
            BARRIER,
            *([const(BOOL, "neighbours", neighbours)] if neighbours is not None else []),
            const(INT, "lane", THREAD % 32),
            unrolled(
                "j",
                2 * n // together,
                [
                    const(INT, "start", WARP_COLUMN + place / 8 * 32 + LANE % 4 * 8 + place % 8),
                    const(INT64, "first", BLOCK_COLUMN * tile.block_n + start),
                    when(first >= self.index(extent(product.columns)), CONTINUE),
                    *(self._unravelled(first, starts) if neighbours is not None else []),
                    unrolled("h", 2 * m, [*rows, *stored]),
                ],
            ),
        ]

    def _together(self) -> tuple[int, tuple[Index, ...]]:
        """Returns (how many neighbouring results are stored together, the extents that must be divisible by
        this number for them to be neighbours in memory). There are no extents if the results never are
        neighbours, or not at the timed sizes."""
        last = self.product.columns[-1]
        found: list[Index] = [last.extent]
        for store in self.kernel.stores:
            aligned = contiguous(store.buffer, store.position, last, self.plan)
            if aligned is None:
                return TOGETHER[0], ()
            found += aligned
        for count in TOGETHER:
            if all(self.plan.extent(index) % count == 0 for index in found):
                return count, tuple(dict.fromkeys(found))
        return TOGETHER[0], ()

    def _unravelled(self, number: Term, axes: tuple[Axis, ...]) -> list[Statement]:
        narrow = fits(self.plan, extent(self.product.columns))
        counted: Term = cast("unsigned", number) if narrow else number
        return unravel_term(counted, axes, {axis.name for axis in axes}, self.plan.sizes[0], narrow=narrow)

    def _total(self, together: int) -> Statement:
        """Declares the result number `e` of those that are stored together, with its powers of two."""
        j, h, e = local("j", "h", "e")
        place = j * together + e
        result = SUMS[h / 2][place / 8 * 4 + place % 4][h % 2 * 2 + place % 8 / 4]
        value = result * Local("row_step") * FACTORS[Local("start") + e]
        return const(FLOAT, self.kernel.stages[0].name, value)

    def _stored_together(self, together: int) -> list[Statement]:
        e, values, last = Local("e"), values_of(self.plan), self.product.columns[-1]
        packs = {store: Local(f"{store.buffer}_pack") for store in self.kernel.stores}
        types = {s: pack_type(c_type(self.plan.buffers[s.buffer].dtype), together) for s in packs}
        taken = [assign(pack.field("at")[e], stored_value(s, self.plan, values)) for s, pack in packs.items()]
        start = {last.name: indices.variable(f"{last.name}_first")}
        written = []
        for store, pack in packs.items():
            place = indices.replace(row_major(store.position, self.plan.buffers[store.buffer].shape), start)
            to = vector_pointer(types[store], Given(store.buffer) + self.index(place), const=False)
            written.append(Do(write_pack(to, pack)))
        here = const(INT64, last.name, Local(f"{last.name}_first") + e)
        return [
            *(declare(types[store], pack.name) for store, pack in packs.items()),
            unrolled("e", together, [here, self._total(together), *taken]),
            *written,
        ]

    def _stored_singly(self, together: int) -> list[Statement]:
        stores = [store_statement(store, self.plan, values_of(self.plan)) for store in self.kernel.stores]
        each: list[Statement] = [
            const(INT64, "column", Local("first") + Local("e")),
            when(COLUMN >= self.index(extent(self.product.columns)), CONTINUE),
            *self._unravelled(COLUMN, self.product.columns),
            self._total(together),
            *stores,
        ]
        return [unrolled("e", together, each)]
