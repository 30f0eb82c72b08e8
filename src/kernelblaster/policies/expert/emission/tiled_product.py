"""Emits matrix products without tensor cores, on tiles of both operands in shared memory (tile_loads.py).

Each thread keeps its sums in registers over the whole loop. What is fused behind the product is computed from
them, and results are written in vectors if their layout allows it.
"""

from dataclasses import dataclass

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.cuda.headers import header
from kernelblaster.policies.expert.cuda.source import Emitted
from kernelblaster.policies.expert.cuda.statements import (
    BARRIER,
    CONTINUE,
    Assignment,
    Do,
    Remark,
    Statement,
    add_to,
    assign,
    const,
    consts,
    declare,
    function,
    loop,
    shared,
    unrolled,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    BLOCK,
    BOOL,
    INT,
    INT64,
    THREAD,
    Braces,
    DeviceFunction,
    Given,
    Infix,
    Local,
    Prefixed,
    Term,
    call,
    kind,
    read,
    term,
    vector_pointer,
)
from kernelblaster.policies.expert.emission.functions import pack_type, pipeline_commit, pipeline_wait_prior
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.places import grouped_tiles, local, unravel
from kernelblaster.policies.expert.emission.stores import store_statement, stored_value
from kernelblaster.policies.expert.emission.tile_loads import (
    BUFFER,
    FIRST,
    LANE,
    TAKES_BUFFER,
    TAKES_FIRST,
    VECTOR_WIDTH,
    TileLoads,
    condition,
    divisible,
)
from kernelblaster.policies.expert.emission.values import c_type, index_term, values_of
from kernelblaster.policies.expert.index import Index, row_major
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.product import Product, as_product, contiguous
from kernelblaster.policies.expert.schedules.products import TiledProduct

SCHEDULES = (TiledProduct,)
MULTIPLY_TILE, MULTIPLY_TILE_SINGLY = (
    DeviceFunction("multiply_tile", header(name)) for name in ("multiply_tile", "multiply_tile_singly")
)
SUMS, TOTALS, BEGIN, END = local("sums", "totals", "begin", "end")
THREAD_ROW, THREAD_COLUMN, ROW, COLUMN = local("thread_row", "thread_column", "row", "column")
MORE, R, C = local("more", "r", "c")


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    tile, product = kernel.schedule, as_product(kernel, plan)
    assert isinstance(tile, TiledProduct) and product is not None
    parts = _Parts(kernel, plan, tile, product)
    body = (
        *parts.block_place(),
        *parts.thread_place(),
        *parts.memory(),
        *(found for side in parts.sides for found in (*side.prepare(), *side.functions())),
        *parts.loop(),
        *parts.results(),
    )
    outer = ((product.part,) if product.part is not None else ()) + product.batch
    nest = tile.nest(outer, product.rows, product.columns, (product.k_axis,))
    return launched(nest, plan.sizes[0], body)


@dataclass(frozen=True)
class _Parts:
    """Writes the body of one tiled matrix product: each method gives the statements of one section of it, in
    the order in which they are executed."""

    kernel: Kernel
    plan: Plan
    tile: TiledProduct
    product: Product

    @property
    def sides(self) -> tuple[TileLoads, TileLoads]:
        product, tile = self.product, self.tile
        left = TileLoads("left", "row", tile.block_m, product.left, product.k_axis, tile, self.plan)
        right = TileLoads("right", "column", tile.block_n, product.right, product.k_axis, tile, self.plan)
        return left, right

    def _index(self, index: Index) -> Term:
        return index_term(index, self.plan.sizes[0])

    def block_place(self) -> list[Statement]:
        """Statements that compute, from the block's number, which tile of the results it has: its first row,
        its first column, and the variables of the batch axes."""
        product, tile = self.product, self.tile
        down = indices.tiles(product.extent(product.rows), tile.block_m)
        across = indices.tiles(product.extent(product.columns), tile.block_n)
        blocks_across, blocks_down = local("blocks_across", "blocks_down")
        found: list[Statement] = [
            Remark(
                f"{tile.block_m} x {tile.block_n} results for a block, {tile.thread_m} x {tile.thread_n} for"
                f" a thread, {tile.block_k} terms at a time."
            ),
            consts(INT64, blocks_across=self._index(across), blocks_down=self._index(down)),
        ]
        if tile.raster == 1:
            row, column = BLOCK / blocks_across % blocks_down, BLOCK % blocks_across
        else:
            row, column = local("block_row", "block_column")
            number = BLOCK % (blocks_across * blocks_down)
            found += grouped_tiles(number, blocks_down, blocks_across, tile.raster)
        found.append(const(INT64, "first_column", column * tile.block_n))
        found.append(const(INT64, "first_row", row * tile.block_m))
        outer = ((product.part,) if product.part is not None else ()) + product.batch
        if outer:
            found.append(const(INT64, "batch", BLOCK / (blocks_across * blocks_down)))
        return [*found, *unravel("batch", outer, self.plan.sizes[0])]

    def thread_place(self) -> list[Statement]:
        """Statements that compute which rows and columns of the block's tile this thread has. The threads of
        a warp form a rectangle of 4 x 8 where possible, so that a warp reads few elements of both
        operands."""
        down = self.tile.block_m // self.tile.thread_m
        across = self.tile.block_n // self.tile.thread_n
        if self.tile.thread_m == 1 or across % 8 or down % 4:
            return [consts(INT, thread_row=THREAD / across, thread_column=THREAD % across)]
        warps = across // 8
        warp, in_warp = local("warp", "in_warp")
        return [
            consts(INT, warp=THREAD / 32, in_warp=THREAD % 32),
            const(INT, "thread_row", warp / warps * 4 + in_warp / 8),
            const(INT, "thread_column", warp % warps * 8 + in_warp % 8),
        ]

    def memory(self) -> list[Statement]:
        tile, real = self.tile, kind(self.plan.real)
        found: list[Statement] = [
            shared(real, f"{side.name}_tile", tile.stages, tile.block_k, side.block + side.pad, align=32)
            for side in self.sides
        ]
        for name in ("sums",) if tile.flush is None else ("sums", "totals"):
            found.append(declare(real, name, Braces(), tile.thread_m, tile.thread_n))
        inner = self.product.k_axis
        return [*found, consts(INT64, begin=self._index(inner.begin), end=self._index(inner.end))]

    def loop(self) -> list[Statement]:
        if self.tile.asynchronous:
            found = self._pipelined()
        else:
            found = self._buffered() if self.tile.stages > 1 else self._single()
        return [*found, *self._flush()]

    def _over_tiles(self, *body: Statement) -> Statement:
        every = [*body, *self._flush_now()]
        return loop("first", BEGIN, END, every, step=self.tile.block_k, type_=INT64)

    def _fetch(self, first: Term) -> list[Statement]:
        return [Do(call(side.function.name, first)) for side in self.sides]

    def _stash(self, buffer: Term) -> list[Statement]:
        return [Do(call(f"stash_{side.name}", buffer)) for side in self.sides]

    def _single(self) -> list[Statement]:
        zero = term(0)
        steps = (*self._fetch(FIRST), *self._stash(zero), BARRIER, self._multiply(zero), BARRIER)
        return [self._over_tiles(*steps)]

    def _buffered(self) -> list[Statement]:
        """The loop over K with two shared-memory buffers: the next tiles are loaded into registers while one
        buffer is multiplied, then stored to the other buffer."""
        following = FIRST + self.tile.block_k
        return [
            *self._fetch(BEGIN),
            *self._stash(term(0)),
            BARRIER,
            declare(INT, "buffer", 0),
            self._over_tiles(
                const(BOOL, "more", following < END),
                when(MORE, *self._fetch(following)),
                self._multiply(BUFFER),
                Assignment(BUFFER, term(1), "^="),
                when(MORE, *self._stash(BUFFER)),
                BARRIER,
            ),
        ]

    def _pipelined(self) -> list[Statement]:
        """The loop over K with `stages` shared-memory buffers filled by asynchronous copies, `stages` - 1
        tiles ahead. Elements beyond the end of K are copied as zeros."""
        stages, step, stage = self.tile.stages, self.tile.block_k, Local("stage")
        ahead = stages - 1
        copies = [found for side in self.sides for found in _copy(side)]
        return [
            function("copy", (TAKES_BUFFER, TAKES_FIRST), [*copies, Do(pipeline_commit())]),
            loop("stage", 0, ahead, [Do(call("copy", stage, BEGIN + stage * step))]),
            declare(INT, "buffer", 0),
            self._over_tiles(
                Do(pipeline_wait_prior(ahead - 1)),
                BARRIER,
                Do(call("copy", (BUFFER + ahead) % stages, FIRST + ahead * step)),
                self._multiply(BUFFER),
                assign(BUFFER, (BUFFER + 1) % stages),
            ),
        ]

    def _multiply(self, buffer: Term) -> Statement:
        single = self.tile.thread_m == 1
        multiply = MULTIPLY_TILE_SINGLY if single else MULTIPLY_TILE.of(self.tile.block_m, self.tile.block_n)
        left, right = local("left_tile", "right_tile")
        return Do(multiply(SUMS, left[buffer], right[buffer], THREAD_ROW, THREAD_COLUMN))

    def _flush_now(self) -> list[Statement]:
        if self.tile.flush is None:
            return []
        last = self.tile.flush - self.tile.block_k
        return [when(((FIRST - BEGIN) % self.tile.flush).equals(last), *self._flush())]

    def _flush(self) -> list[Statement]:
        """Statements that add the thread's sums to its totals and set the sums to 0, so that long sums lose
        less precision; none when the schedule does without totals."""
        if self.tile.flush is None:
            return []
        each = [add_to(TOTALS[R][C], SUMS[R][C]), assign(SUMS[R][C], 0)]
        return [unrolled("r", self.tile.thread_m, [unrolled("c", self.tile.thread_n, each)])]

    def results(self) -> list[Statement]:
        """Statements that, for each result of this thread, compute what is fused behind the product from its
        sum, and store that."""
        tile, product = self.tile, self.product
        packed = self._packed()
        body = self._result_pack() if packed else self._result(C)
        step = VECTOR_WIDTH if packed else 1
        row: list[Statement] = [
            const(INT64, "row", Local("first_row") + _spread(R, THREAD_ROW, tile.block_m, tile.thread_m)),
            when(ROW >= self._index(product.extent(product.rows)), CONTINUE),
            *unravel("row", product.rows, self.plan.sizes[0]),
            loop("c", 0, tile.thread_n, body, step=step, unroll="all"),
        ]
        head: list[Statement] = [const(BOOL, "packed", condition(packed, self.plan))] if packed else []
        return [*head, unrolled("r", tile.thread_m, row)]

    def _packed(self) -> tuple[Index, ...]:
        """Symbolic indices that must be divisible by 4, which is tested at run time, for results to be
        written in vectors of 4. Empty if they are always written one by one."""
        if self.tile.thread_n == 1:
            return ()
        last = self.product.columns[-1]
        found: list[Index] = [last.extent]
        for store in self.kernel.stores:
            aligned = contiguous(store.buffer, store.position, last, self.plan)
            if aligned is None:
                return ()
            found += aligned
        return tuple(dict.fromkeys(found)) if divisible(found, self.plan) else ()

    def _column(self) -> Term:
        return Local("first_column") + _spread(C, THREAD_COLUMN, self.tile.block_n, self.tile.thread_n)

    def _result(self, place: Term, packed: bool = False) -> list[Statement]:
        product = self.product
        sums = TOTALS if self.tile.flush is not None else SUMS
        values = values_of(self.plan)
        found: list[Statement] = [
            const(INT64, "column", self._column() + LANE if packed else self._column()),
            when(COLUMN >= self._index(product.extent(product.columns)), CONTINUE),
            *unravel("column", product.columns, self.plan.sizes[0]),
            const(kind(self.plan.real), self.kernel.stages[0].name, sums[R][place]),
        ]
        for store in self.kernel.stores:
            if packed:
                element = Local(f"{store.buffer}_pack").field("at")[LANE]
                found.append(assign(element, stored_value(store, self.plan, values)))
            else:
                found.append(store_statement(store, self.plan, values))
        return found

    def _result_pack(self) -> list[Statement]:
        """Statements that store four neighbouring results: as one vector, or one by one where the sizes at
        run time leave them unaligned."""
        stores, packed = self.kernel.stores, Local("packed")
        kinds = [pack_type(c_type(self.plan.buffers[s.buffer].dtype), VECTOR_WIDTH) for s in stores]
        packs = [Local(f"{s.buffer}_pack") for s in stores]
        values = values_of(self.plan)
        pairs = list(zip(stores, packs, strict=True))
        single = [assign(values.place(s.buffer, s.position), pack.field("at")[LANE]) for s, pack in pairs]
        lanes = [*self._result(C + LANE, packed=True), *(when(Prefixed("!", packed), s) for s in single)]
        writes = []
        for (store, pack), type_ in zip(pairs, kinds, strict=True):
            address = self._index(row_major(store.position, self.plan.buffers[store.buffer].shape))
            to = vector_pointer(type_, Given(store.buffer) + address, const=False)
            writes.append(assign(read(to), pack))
        end = self._index(self.product.extent(self.product.columns))
        return [
            *(declare(type_, pack.name) for type_, pack in zip(kinds, packs, strict=True)),
            unrolled("lane", VECTOR_WIDTH, lanes),
            const(INT64, "column", self._column()),
            when(
                Infix("&&", packed, COLUMN < end),
                *unravel("column", self.product.columns, self.plan.sizes[0]),
                *writes,
            ),
        ]


def _copy(side: TileLoads) -> list[Statement]:
    if side.asynchronous:
        return [Do(call(side.function.name, BUFFER, FIRST))]
    return [Do(call(side.function.name, FIRST)), Do(call(f"stash_{side.name}", BUFFER))]


def _spread(place: Term, thread: Term, block: int, count: int) -> Term:
    """The row (or column) within the block's tile of a thread's result number `place` of `count`, as a C++
    expression. `thread` is the thread's number among those that share the `block` rows of the tile. A
    thread's results come in groups of four neighbours, with the groups of all other threads in between."""
    if count == 1:
        return thread
    own = thread * VECTOR_WIDTH + place % VECTOR_WIDTH
    if count <= VECTOR_WIDTH:
        return own
    return (
        place / VECTOR_WIDTH * (block * VECTOR_WIDTH // count) + thread * VECTOR_WIDTH + place % VECTOR_WIDTH
    )
