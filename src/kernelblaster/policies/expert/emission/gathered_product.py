"""Emits convolutions as matrix products (implicit GEMM) on tensor cores in TF32
(device_code/multiply_tf32.cuh). The right operand is gathered: its elements are read from the input tensor,
and are 0 in the padding.

A thread gathers elements of one column. The address of its first element, and the conditions that hold for
all of its elements, are computed once for each point of the outer K (summed) axes. Shared memory has buffers
for `stages` tiles (a field of the schedule) of each operand; tiles are copied up to `stages` - 1 steps ahead.
"""

from dataclasses import dataclass
from functools import cached_property

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.contraction import Contraction, as_contraction, extent
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
    Statement,
    assign,
    const,
    consts,
    declare,
    function,
    loop,
    shared_memory,
    unrolled,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    BLOCK,
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
    Local,
    Prefixed,
    Term,
    address_of,
    all_of,
    call,
    cast,
    read,
    term,
    vector_pointer,
)
from kernelblaster.policies.expert.emission.functions import (
    pack_type,
    pipeline_commit,
    pipeline_memcpy_async,
    pipeline_wait_prior,
)
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.places import local, unravel, unravel_term
from kernelblaster.policies.expert.emission.stores import store_statement, stored_value
from kernelblaster.policies.expert.emission.values import c_type, index_term, values_of
from kernelblaster.policies.expert.expression import Load, address, used_names
from kernelblaster.policies.expert.gathered_element import GatheredElement, gathered_element
from kernelblaster.policies.expert.index import Index, row_major
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.product import contiguous
from kernelblaster.policies.expert.proofs import separate_all
from kernelblaster.policies.expert.schedules.gathered import TILE_PADDING, Gathered, GatheredProduct
from kernelblaster.policies.expert.vector_access import fits

SCHEDULES = (GatheredProduct,)
MULTIPLY = DeviceFunction("multiply_tiles_tf32", header("multiply_tf32"))
PAIR = 2
BUFFER, STEP, FIRST, K, PART, SUMS = local("buffer", "step", "first", "k", "part", "sums")
LEFT_TILE, RIGHT_TILE = local("left_tile", "right_tile")
STEPS, POINTS, TILES = local("steps", "points", "tiles")
BLOCK_ROW, BLOCK_COLUMN, BLOCK_ROWS, BATCHES = local("block_row", "block_column", "block_rows", "batches")
WARP_ROW, WARP_COLUMN, LANE, COLUMN, ROW = local("warp_row", "warp_column", "lane", "column", "row")
RIGHT_K, RIGHT_COLUMN, LEFT_K, LEFT_ROW = local("right_k", "right_column", "left_k", "left_row")


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    found, schedule = as_contraction(kernel, plan), kernel.schedule
    assert found is not None and isinstance(schedule, GatheredProduct)
    return GatheredKernel(kernel, plan, schedule, found).emitted()


@dataclass(frozen=True)
class GatheredKernel:
    """Writes the body of one kernel as C++ statements: a convolution as a matrix product whose right operand
    is gathered from the input tensor. Each method writes one part of it. `kernel` is that kernel within
    `plan`, `tile` its layout on the GPU, and `product` tells which of its axes are rows, columns and K."""

    kernel: Kernel
    plan: Plan
    tile: Gathered
    product: Contraction

    def index(self, index: Index) -> Term:
        return index_term(index, self.plan.sizes[0])

    @cached_property
    def element(self) -> GatheredElement:
        found = gathered_element(self.product.right)
        assert found is not None
        return found

    @property
    def _packed(self) -> Load:
        assert isinstance(self.product.left, Load)
        return self.product.left

    def emitted(self) -> Emitted:
        product, tile = self.product, self.tile
        nest = tile.nest(product.batch, product.rows, product.columns, product.outer, product.inner)
        body = [
            *self._block(),
            *self._threads(),
            *self._memory(),
            *self._copy(),
            *self._loop(),
            *self._results(),
        ]
        return launched(
            nest, self.plan.sizes[0], body, shared=tile.shared_bytes(), blocks_per_sm=self._blocks_per_sm()
        )

    def _blocks_per_sm(self) -> int:
        """How many blocks must fit in the registers of an SM; 0 for any number."""
        return 0

    def _block(self) -> list[Statement]:
        """Statements that compute from the block's index which tile of the results it has; neighbouring
        blocks have the same columns."""
        product, tile, sizes = self.product, self.tile, self.plan.sizes[0]
        rows = self.index(indices.tiles(extent(product.rows), tile.block_m))
        row: Statement = const(INT64, "block_row", BLOCK % BLOCK_ROWS)
        if not product.batch:
            column = const(INT64, "block_column", BLOCK / BLOCK_ROWS)
            return [const(INT64, "block_rows", rows), row, column]
        return [
            consts(INT64, block_rows=rows, batches=self.index(extent(product.batch))),
            row,
            const(INT64, "batch", BLOCK / BLOCK_ROWS % BATCHES),
            *unravel("batch", product.batch, sizes),
            const(INT64, "block_column", BLOCK / BLOCK_ROWS / BATCHES),
        ]

    def _threads(self) -> list[Statement]:
        """Statements that compute which elements of both operands this thread copies, above all the column
        that it gathers, and where its warp's results lie in the block's tile."""
        tile, sizes = self.tile, self.plan.sizes[0]
        columns = self.product.columns
        total = self.index(extent(columns))
        narrow = fits(self.plan, extent(columns))
        number: Term = cast("unsigned", COLUMN) if narrow else COLUMN
        wanted = used_names([self.product.right], []) & {axis.name for axis in columns}
        across = tile.block_m // 4
        return [
            *self._gathered(),
            consts(INT, left_row=THREAD % across * 4, left_k=THREAD / across),
            consts(
                INT,
                warp_row=THREAD / 32 / tile.warps_n * (tile.block_m // tile.warps_m),
                warp_column=THREAD / 32 % tile.warps_n * (tile.block_n // tile.warps_n),
            ),
            const(INT64, "column", BLOCK_COLUMN * tile.block_n + RIGHT_COLUMN),
            const(BOOL, "in_columns", COLUMN < total),
            *unravel_term(number, columns, wanted, sizes, narrow=narrow),
        ]

    def _gathered(self) -> list[Statement]:
        """Declares which part of a tile of the right operand this thread gathers: the column `right_column`,
        and `right_k`, the first of its terms along K."""
        width = self.tile.block_n
        return [consts(INT, right_column=THREAD % width, right_k=THREAD / width)]

    def _memory(self) -> list[Statement]:
        tile = self.tile
        assert isinstance(tile, GatheredProduct)
        memory = Local("memory")
        left = f"float (*)[{tile.block_k}][{tile.block_m + TILE_PADDING}]"
        right = f"float (*)[{tile.block_k}][{tile.block_n + TILE_PADDING}]"
        behind = tile.stages * tile.block_k * (tile.block_m + TILE_PADDING)
        m, n = tile.block_m // tile.warps_m // 16, tile.block_n // tile.warps_n // 8
        return [
            shared_memory(FLOAT, "memory", 16),
            Declaration(CudaType("auto"), (Declarator("left_tile", cast(CudaType(left), memory)),)),
            Declaration(
                CudaType("auto"), (Declarator("right_tile", cast(CudaType(right), memory + behind)),)
            ),
            self._steps(),
            declare(FLOAT, "sums", Braces(), m, n, 4),
        ]

    def _copy(self) -> list[Statement]:
        """Declares the lambda `copy(buffer, step)`, which starts to copy the tiles of both operands for a
        step."""
        body = [*self._point(), *self._copy_left(), *self._gather_right(), Do(pipeline_commit())]
        parameters = LambdaParameter(INT, "buffer"), LambdaParameter(INT, "step")
        return [function("copy", parameters, body)]

    def _point(self) -> list[Statement]:
        """Statements that compute, from the number of a step, where along the K axes the step is: at which
        point of the outer axes, and at which first term of the inner ones. All points come one after another
        for the same inner tile, so that elements under several taps of a filter are still in the cache."""
        product, tile = self.product, self.tile
        if not product.outer:
            return [const(INT, "first", STEP * tile.block_k)]
        first: Term = STEP / POINTS * tile.block_k
        if self.plan.elements(product.inner) <= tile.block_k:
            first = Choice(TILES.equals(1), term(0), first)
        place = consts(INT, point=STEP % POINTS, first=first)
        return [place, *unravel("point", product.outer, self.plan.sizes[0])]

    def _steps(self) -> Statement:
        """Declares `steps`, the number of tiles along K that the kernel goes through. If there are outer K
        axes, also `tiles` and `points`, whose product it is: tiles of the inner K axes, and points of the
        outer ones."""
        inner = self.index(indices.tiles(extent(self.product.inner), self.tile.block_k))
        if not self.product.outer:
            return const(INT, "steps", inner)
        points = self.index(extent(self.product.outer))
        return consts(INT, tiles=inner, points=points, steps=POINTS * TILES)

    def _copy_left(self) -> list[Statement]:
        """Statements that copy this thread's vectors of the left operand, without bounds checks: it was
        packed with padding up to whole tiles."""
        tile = self.tile
        load = self._packed
        *outer, _, _ = load.position
        shape = self.plan.buffers[load.buffer].shape
        lines = tile.threads // (tile.block_m // 4)
        start = row_major((*outer, indices.variable("k"), indices.variable("row")), shape)
        here = LEFT_K + PART * lines
        copy: list[Statement] = [
            const(INT64, "k", FIRST + here),
            const(INT64, "row", BLOCK_ROW * tile.block_m + LEFT_ROW),
            Do(
                pipeline_memcpy_async(
                    address_of(LEFT_TILE[BUFFER][here][LEFT_ROW]), Given(load.buffer) + self.index(start), 16
                )
            ),
        ]
        return self._over_lines(tile.block_k, copy)

    def _over_lines(self, count: int, copy: list[Statement]) -> list[Statement]:
        """The statements `copy`, which copy this thread's vector of a line of the left tile, for all `count`
        lines; threads that would be beyond a whole number of lines do nothing."""
        across = self.tile.block_m // 4
        lines, left = divmod(self.tile.threads, across)
        tests = [LEFT_K < lines] if left else []
        tests += [LEFT_K + PART * lines < count] if count % lines else []
        condition = all_of(tests)
        return [unrolled("part", -(-count // lines), copy if condition is None else [when(condition, *copy)])]

    def _gather_right(self) -> list[Statement]:
        product, tile, values = self.product, self.tile, values_of(self.plan)
        moving = {axis.name for axis in product.inner}
        load = self.element.load
        fixed, moved = separate_all(address(load, self.plan.buffers[load.buffer].shape), moving)
        early = [c for c in self.element.conditions if not used_names([c], []) & moving]
        late = [c for c in self.element.conditions if c not in early]
        inside = all_of([Local("in_columns"), *(values.expression(c) for c in early)])
        assert inside is not None
        step = tile.threads // tile.block_n
        here = RIGHT_K + PART * step
        whole = all(
            indices.evaluate(extent(product.inner), sizes) % tile.block_k == 0 for sizes in self.plan.sizes
        )
        ends: list[Term] = [] if whole else [K < self.index(extent(product.inner))]
        wanted = used_names(late, [moved]) & moving
        there = all_of([Local("inside"), *ends, *(values.expression(c) for c in late)])
        assert there is not None
        element = [
            const(INT, "k", FIRST + here),
            *named_k(product.inner, wanted, self.plan),
            Do(
                pipeline_memcpy_async(
                    address_of(RIGHT_TILE[BUFFER][here][RIGHT_COLUMN]),
                    Local("from") + self.index(moved),
                    4,
                    Choice(there, term(0), term(4)),
                )
            ),
        ]
        return [
            const(BOOL, "inside", inside),
            declare(CudaType("const float*"), "from", Given(load.buffer) + self.index(fixed)),
            unrolled("part", tile.block_k // step, element),
        ]

    def _loop(self) -> list[Statement]:
        tile = self.tile
        assert isinstance(tile, GatheredProduct)
        ahead, stage = tile.stages - 1, Local("stage")
        further = STEP + ahead
        multiply = MULTIPLY.of(tile.terms)(
            SUMS, LEFT_TILE[STEP % tile.stages], RIGHT_TILE[STEP % tile.stages], WARP_ROW, WARP_COLUMN
        )
        fetch = If(
            further < STEPS, (Do(call("copy", further % tile.stages, further)),), (Do(pipeline_commit()),)
        )
        first = If(stage < STEPS, (Do(call("copy", stage, stage)),), (Do(pipeline_commit()),))
        return [
            loop("stage", 0, ahead, [first]),
            loop("step", 0, STEPS, [Do(pipeline_wait_prior(ahead - 1)), BARRIER, fetch, Do(multiply)]),
        ]

    def _results(self) -> list[Statement]:
        """Statements that compute, for each pair of a thread's neighbouring results, what is fused behind the
        product, and store it."""
        product, tile, sizes = self.product, self.tile, self.plan.sizes[0]
        m, n = tile.block_m // tile.warps_m // 16, tile.block_n // tile.warps_n // 8
        pairs = self._pairs()
        i, j = local("i", "j")
        column = BLOCK_COLUMN * tile.block_n + WARP_COLUMN + j * 8 + LANE % 4 * 2
        row = BLOCK_ROW * tile.block_m + WARP_ROW + i * 8 + LANE / 4
        inner = self._pair(pairs, column)
        rows: list[Statement] = [
            const(INT64, "row", row),
            when(ROW >= self.index(extent(product.rows)), CONTINUE),
            *unravel("row", product.rows, sizes),
            unrolled("j", n, inner),
        ]
        paired = [const(BOOL, "paired", self._condition(pairs))] if pairs else []
        return [*paired, const(INT, "lane", THREAD % 32), unrolled("i", 2 * m, rows)]

    def _pairs(self) -> tuple[Index, ...]:
        """The extents that must be even for results to be written in pairs. Empty if results are written one
        by one: where they are not neighbours in memory, or where such an extent is odd at the timed sizes."""
        last = self.product.columns[-1]
        found: list[Index] = [last.extent]
        for store in self.kernel.stores:
            aligned = contiguous(store.buffer, store.position, last, self.plan)
            if aligned is None:
                return ()
            found += aligned
        even = all(self.plan.extent(index) % PAIR == 0 for index in found)
        return tuple(dict.fromkeys(found)) if even else ()

    def _condition(self, found: tuple[Index, ...]) -> Term:
        every = all_of([(self.index(index) % PAIR).equals(0) for index in found])
        assert every is not None
        return every

    def _pair(self, pairs: tuple[Index, ...], column: Term) -> list[Statement]:
        product, sizes, values = self.product, self.plan.sizes[0], values_of(self.plan)
        i, j, e = local("i", "j", "e")
        total, stage = self.index(extent(product.columns)), self.kernel.stages[0].name
        narrow = fits(self.plan, extent(product.columns))
        names = {axis.name for axis in product.columns}

        def placed(number: Term) -> list[Statement]:
            counted: Term = cast("unsigned", number) if narrow else number
            return unravel_term(counted, product.columns, names, sizes, narrow=narrow)

        each: list[Statement] = [
            const(INT64, "column", column + e),
            when(Local("column") >= total, CONTINUE),
            *placed(Local("column")),
            const(FLOAT, stage, SUMS[i / 2][j][i % 2 * 2 + e]),
        ]
        if not pairs:
            stores = [store_statement(store, self.plan, values) for store in self.kernel.stores]
            return [unrolled("e", PAIR, [*each, *stores])]
        packs = {store: Local(f"{store.buffer}_pair") for store in self.kernel.stores}
        types = {s: pack_type(c_type(self.plan.buffers[s.buffer].dtype), PAIR) for s in packs}
        taken = [assign(pack.field("at")[e], stored_value(s, self.plan, values)) for s, pack in packs.items()]
        single = [
            when(
                Prefixed("!", Local("paired")),
                assign(values.place(s.buffer, s.position), pack.field("at")[e]),
            )
            for s, pack in packs.items()
        ]
        written = []
        for store, pack in packs.items():
            place = self.index(row_major(store.position, self.plan.buffers[store.buffer].shape))
            to = vector_pointer(types[store], Given(store.buffer) + place, const=False)
            written.append(assign(read(to), pack))
        both = all_of([Local("paired"), Local("column") < total])
        assert both is not None
        return [
            *(declare(types[store], pack.name) for store, pack in packs.items()),
            unrolled("e", PAIR, [*each, *taken, *single]),
            const(INT64, "column", column),
            when(both, *placed(Local("column")), *written),
        ]


def named_k(axes: tuple[Axis, ...], wanted: set[str], plan: Plan) -> list[Statement]:
    """Returns C++ statements that declare the variables of the inner K (summed) axes and compute them from
    the variable `k`, the row-major linear index over `axes`. Only variables whose names are in `wanted` are
    declared. `plan` has the names of the sizes."""
    if len(axes) == 1:
        return [const(INT64, axes[0].name, K)] if wanted else []
    return unravel("k", axes, plan.sizes[0], wanted)
