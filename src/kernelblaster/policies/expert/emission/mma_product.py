"""Emits matrix products on tensor cores with packed operands (packing.py), by the `mma` instructions of
single warps.

The loop over tiles is a hand-written device function (multiply_tiles.cuh). A kernel calls it for its block of
results, and then computes and stores what was fused behind the product. Tensor cores truncate towards zero
when they add. Therefore their sums are added, after every tile, to sums in ordinary float arithmetic, which
rounds to nearest.
"""

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.cuda.headers import header
from kernelblaster.policies.expert.cuda.source import Emitted
from kernelblaster.policies.expert.cuda.statements import (
    CONTINUE,
    Do,
    Statement,
    const,
    consts,
    declare,
    unrolled,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    BLOCK,
    FLOAT,
    INT,
    INT64,
    THREAD,
    Braces,
    DeviceFunction,
    Given,
    Local,
    Term,
    call,
    cast,
)
from kernelblaster.policies.expert.emission.functions import SCALES_TYPE
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.packing import TERM
from kernelblaster.policies.expert.emission.places import grouped_tiles, local, unravel
from kernelblaster.policies.expert.emission.stores import store_statement
from kernelblaster.policies.expert.emission.values import index_term, values_of
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.nest import Nest
from kernelblaster.policies.expert.plan import Buffer, Plan
from kernelblaster.policies.expert.product import Product, as_product
from kernelblaster.policies.expert.schedules.packing import SLAB_ROWS, TOGETHER
from kernelblaster.policies.expert.schedules.products import (
    MMA_N,
    PACKED_DEPTH,
    PACKED_ROWS,
    MmaProduct,
    TensorProduct,
)

SCHEDULES = (MmaProduct,)
MULTIPLY_TILES = DeviceFunction("multiply_tiles", header("multiply_tiles"))
WARP, LANE, PART, E, SUMS = local("warp", "lane", "part", "e", "sums")
BLOCK_NUMBER, BLOCK_ROW, BLOCK_COLUMN = local("block", "block_row", "block_column")
BLOCK_ROWS, BLOCK_COLUMNS = local("block_rows", "block_columns")
TILES, FIRST_TILE, BATCH = local("tiles", "first_tile", "batch")


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    found = TensorKernel(kernel, plan)
    tile = found.tile
    across = tile.block_n // MMA_N
    body: list[Statement] = [
        *found.counts(),
        const(INT64, "block", BLOCK),
        *found.block_place(),
        declare(FLOAT, "sums", Braces(), 4, 4, 4),
        Do(
            MULTIPLY_TILES.of(*found.shape())(
                SUMS, *found.operand_starts(), found.scales(), *found.tile_range()
            )
        ),
        consts(INT, warp=THREAD / 32, lane=THREAD % 32),
        found.results(
            parts=8,
            row=BLOCK_ROW * tile.block_m + WARP / across * 64 + PART * 8 + LANE / 4,
            elements=8,
            column=BLOCK_COLUMN * tile.block_n + WARP % across * 32 + E / 2 * 8 + LANE % 4 * 2 + E % 2,
            result=SUMS[PART / 2][E / 2][PART % 2 * 2 + E % 2],
        ),
    ]
    return launched(found.nest(), found.sizes, body, shared=tile.shared_bytes(found.left.terms))


class TensorKernel:
    """Writes, as C++, what matrix products on tensor cores have in common, whether they use `mma` or `wgmma`
    instructions. `kernel` is such a product, a kernel of `plan`. Its operands are packed: each element is
    stored as one or several half-precision numbers, in the order in which tiles are read."""

    def __init__(self, kernel: Kernel, plan: Plan) -> None:
        tile, product = kernel.schedule, as_product(kernel, plan)
        assert isinstance(tile, TensorProduct) and product is not None
        self.kernel, self.plan = kernel, plan
        self.tile: TensorProduct = tile
        self.product: Product = product
        self.sizes = plan.sizes[0]
        self.left, self.right = (plan.buffers[name] for name in kernel.reads if plan.buffers[name].terms)

    def _index(self, index: indices.Index) -> Term:
        return index_term(index, self.sizes)

    def nest(self) -> Nest:
        product = self.product
        outer = (product.part,) if product.part is not None else ()
        return self.tile.nest((*outer, *product.batch), product.rows, product.columns, (product.k_axis,))

    def blocks(self) -> Term:
        return self._index(self.nest().blocks())

    def shape(self) -> tuple[int, ...]:
        """Returns the template arguments of the device functions that multiply tiles, as four numbers: the
        rows of the results of a block; their columns; how many tiles along the K axis are in shared memory at
        once; and the number of half-precision numbers into which each element is split."""
        return self.tile.block_m, self.tile.block_n, self.tile.stages, self.left.terms

    def counts(self) -> list[Statement]:
        product, tile = self.product, self.tile
        rows, columns = product.extent(product.rows), product.extent(product.columns)
        found = {
            "tiles": indices.tiles(product.k_axis.extent, PACKED_DEPTH),
            "block_rows": indices.tiles(rows, tile.block_m),
            "block_columns": indices.tiles(columns, tile.block_n),
            "all_rows": indices.round_up(rows, PACKED_ROWS),
            "all_columns": indices.round_up(columns, PACKED_ROWS),
        }
        return [const(INT64, name, self._index(value)) for name, value in found.items()]

    def block_place(self) -> list[Statement]:
        """Returns C++ statements that compute which tile of the results a block computes, and declare it as
        variables: its `block_row` and `block_column`, and the number `batch` of the matrix if there are
        several. The tile follows from the block's number."""
        product = self.product
        outer = ([product.part] if product.part else []) + list(product.batch)
        found: list[Statement] = []
        if outer:
            found.append(const(INT64, "batch", BLOCK_NUMBER / (BLOCK_ROWS * BLOCK_COLUMNS)))
        found += unravel("batch", outer, self.sizes)
        whole = BLOCK_NUMBER % (BLOCK_ROWS * BLOCK_COLUMNS) if outer else BLOCK_NUMBER
        return [
            *found,
            *grouped_tiles(whole, BLOCK_ROWS, BLOCK_COLUMNS, self.tile.raster),
            *self._piece(),
        ]

    def _piece(self) -> list[Statement]:
        """If the K axis is cut into pieces (split-K), of which each block has one: statements that compute
        the first tile and the number of tiles of this block's piece. Empty if it is not cut."""
        if self.product.part is None:
            return []
        cut = self.product.k_axis.part
        assert cut is not None
        length = self._index(indices.divide(cut.length, indices.number(PACKED_DEPTH)))
        left = call("min", TILES - FIRST_TILE, cast(INT64, length))
        return [
            const(INT64, "first_tile", Local(self.product.part.name) * length),
            const(INT64, "tile_count", call("max", cast(INT64, 0), left)),
        ]

    def tile_range(self) -> tuple[Term, Term]:
        """Returns two C++ expressions: (the number of tiles along the whole K axis, the number of tiles along
        it that this block multiplies). The second is smaller if the K axis is cut into pieces (split-K),
        since a block then has only one piece."""
        return cast(INT, TILES), cast(INT, Local("tile_count") if self.product.part else TILES)

    def operand_starts(self) -> tuple[Term, Term]:
        """Returns two C++ addresses in packed operands: of the first tile that a block reads of (the left
        operand, the right operand)."""

        def start(buffer: Buffer, block: Term, size: int, rows: Term) -> Term:
            first = block * (size // SLAB_ROWS) if size > SLAB_ROWS else block
            if len(buffer.shape) > 2:
                first = self._batch() * rows / SLAB_ROWS + first
            tiles = first * TILES + FIRST_TILE if self.product.part else first * TILES
            return Given(buffer.name) + tiles * (buffer.terms * TERM)

        all_rows, all_columns = local("all_rows", "all_columns")
        return (
            start(self.left, BLOCK_ROW, self.tile.block_m, all_rows),
            start(self.right, BLOCK_COLUMN, self.tile.block_n, all_columns),
        )

    def scales(self) -> Term:
        """Returns the C++ value of type `Scales`: pointers to the scale factors of the block's rows and
        columns, and the strides of both. It is empty if the operands are half-precision tensors, which are
        neither split nor scaled."""
        if self.left.terms == 1:
            return Braces((), SCALES_TYPE)

        def start(buffer: Buffer, block: Term, size: int, rows: Term) -> Term:
            first = block * size
            if len(buffer.shape) > 2:
                first = self._batch() * ((TILES + (TOGETHER - 1)) / TOGETHER) * rows + first
            if self.product.part:
                first = first + FIRST_TILE / TOGETHER * rows
            return Given(f"{buffer.name.removesuffix('_packed')}_scale") + first

        all_rows, all_columns = local("all_rows", "all_columns")
        rows = start(self.left, BLOCK_ROW, self.tile.block_m, all_rows)
        columns = start(self.right, BLOCK_COLUMN, self.tile.block_n, all_columns)
        return Braces((rows, columns, all_rows, all_columns), SCALES_TYPE)

    def _batch(self) -> Term:
        """The number of the block's matrix within the batch, as a C++ expression; where the K axis is cut,
        without the number of the piece that the same variable counts."""
        return BATCH % self._index(self.product.extent(self.product.batch)) if self.product.part else BATCH

    def results(self, *, parts: int, row: Term, elements: int, column: Term, result: Term) -> Statement:
        """Returns the C++ loops over the results that a thread has in registers: a loop over `parts` rows
        with the variable `part`, and in it one over the `elements` results of a row with the variable `e`.
        In the inner loop, what is fused behind the product is computed from the result, and stored. Three
        C++ expressions describe a result: `row` and `column`, its row and column in the whole matrix, and
        `result`, its sum. `row` may use the variable `part`, the other two `part` and `e`."""
        product = self.product
        inner: list[Statement] = [
            const(INT64, "column", column),
            when(Local("column") >= self._index(product.extent(product.columns)), CONTINUE),
            *unravel("column", product.columns, self.sizes),
            const(FLOAT, self.kernel.stages[0].name, result),
            *(store_statement(store, self.plan, values_of(self.plan)) for store in self.kernel.stores),
        ]
        outer: list[Statement] = [
            const(INT64, "row", row),
            when(Local("row") >= self._index(product.extent(product.rows)), CONTINUE),
            *unravel("row", product.rows, self.sizes),
            unrolled("e", elements, inner),
        ]
        return unrolled("part", parts, outer)
