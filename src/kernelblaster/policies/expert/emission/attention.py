"""Emits attention as one CUDA kernel that reads packed operands (device_code/online_attention.cuh). A block
goes over the keys, tile by tile; scores are never written to memory.

The loop over keys is generated for each kernel, unlike the device code that it calls, because it contains
what is applied to a score before the softmax: a scale, a mask, a bias. Tiles of keys that a mask hides from
all queries of a block are skipped.
"""

from dataclasses import dataclass

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.attention import (
    LARGEST,
    RESULT,
    SCORE,
    WEIGHT,
    Attention,
    as_attention,
    band,
)
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.contraction import extent
from kernelblaster.policies.expert.cuda.headers import header
from kernelblaster.policies.expert.cuda.source import Emitted
from kernelblaster.policies.expert.cuda.statements import (
    CONTINUE,
    Do,
    Statement,
    assign,
    const,
    consts,
    declare,
    loop,
    shared_memory,
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
    Choice,
    CudaType,
    Given,
    LiteralTerm,
    Local,
    Term,
    call,
    cast,
    kind,
    term,
)
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.packing import TERM
from kernelblaster.policies.expert.emission.places import local, unravel, unravel_term
from kernelblaster.policies.expert.emission.stores import store_statement
from kernelblaster.policies.expert.emission.values import c_type, index_term, values_of
from kernelblaster.policies.expert.expression import Expression, Load, loads, used_names
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.attention import OnlineAttention
from kernelblaster.policies.expert.schedules.packing import SLAB_ROWS, TOGETHER
from kernelblaster.policies.expert.schedules.products import PACKED_DEPTH, PACKED_ROWS
from kernelblaster.policies.expert.vector_access import fits

SCHEDULES = (OnlineAttention,)
DEVICE_CODE = header("online_attention")
ATTENTION, SCORES, TILE, PART, E, LANE, ROW, COLUMN = local(
    "attention", "scores", "tile", "part", "e", "lane", "row", "column"
)
BLOCK_ROWS, BLOCK_COLUMNS, FIRST_TILE, END_TILE = local(
    "block_rows", "block_columns", "first_tile", "end_tile"
)
FIRST_QUERY, FIRST_COLUMN, FIRST_ROW = local("first_query", "first_column", "first_row")


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    found, schedule = as_attention(kernel, plan), kernel.schedule
    assert found is not None and isinstance(schedule, OnlineAttention)
    return AttentionKernel(kernel, plan, schedule, found).emitted()


@dataclass(frozen=True)
class AttentionKernel:
    """Writes the body of one attention kernel as C++ statements; each method writes one part of it. `kernel`
    is that kernel within `plan`, `tile` its layout on the GPU, and `attention` the formula that it
    computes."""

    kernel: Kernel
    plan: Plan
    tile: OnlineAttention
    attention: Attention

    def index(self, index: Index) -> Term:
        return index_term(index, self.plan.sizes[0])

    def emitted(self) -> Emitted:
        found = self.attention
        nest = self.tile.nest(found.batch, found.queries, found.columns, (found.keys,), (found.depth,))
        body = [*self._block(), *self._tiles(), *self._operands(), self._loop(), *self._results()]
        return launched(nest, self.plan.sizes[0], body, shared=self.tile.shared_bytes(*self._terms))

    @property
    def _terms(self) -> tuple[int, int]:
        """Returns how many half-precision numbers an element is stored as: (for queries and keys, for
        values)."""
        query, value = (self._packed(side)[0] for side in (self.attention.query, self.attention.value))
        return self.plan.buffers[query].terms, self.plan.buffers[value].terms

    def _packed(self, side: Expression) -> list[str]:
        """The buffers of an operand: its terms and, where these have one, its scales."""
        return list(dict.fromkeys(load.buffer for load in loads(side) if isinstance(load, Load)))

    def _block(self) -> list[Statement]:
        """Statements that compute which queries and which columns of the result the block has. Where later
        queries see more keys, blocks with many keys come first."""
        found, tile = self.attention, self.tile
        place = BLOCK / BLOCK_COLUMNS % BLOCK_ROWS
        if band(found).last is not None:
            place = BLOCK_ROWS - 1 - place
        body: list[Statement] = [
            const(INT64, "block_rows", self.index(indices.tiles(extent(found.queries), tile.block))),
            const(INT64, "block_columns", self.index(indices.tiles(extent(found.columns), tile.width))),
            const(INT, "first_query", place * tile.block),
            const(INT, "first_column", BLOCK % BLOCK_COLUMNS * tile.width),
        ]
        if found.batch:
            body.append(const(INT64, "batch", BLOCK / BLOCK_COLUMNS / BLOCK_ROWS))
            body += unravel("batch", found.batch, self.plan.sizes[0], self._used())
        return body

    def _used(self) -> set[str]:
        stores = self.kernel.stores
        positions = [index for store in stores for index in store.position]
        return used_names([self.attention.score, *(store.value for store in stores)], positions)

    def _tiles(self) -> list[Statement]:
        """Statements that compute which tiles of keys the block's queries may see, from `first_tile` to below
        `end_tile`."""
        found, keys, seen = self.attention, self.tile.keys, band(self.attention)
        end: Term = Local("key_count")
        first: Term = term(0)
        if seen.last is not None:
            last = self.index(indices.add(indices.variable("first_query"), seen.last))
            end = call("max", term(0), call("min", end, cast(INT, last + self.tile.block)))
        if seen.first is not None:
            start = self.index(indices.add(indices.variable("first_query"), seen.first))
            first = call("max", term(0), cast(INT, start)) / keys
        return [
            const(INT, "key_count", cast(INT, self.index(found.keys.extent))),
            const(INT, "first_tile", first),
            const(INT, "end_tile", (end + (keys - 1)) / keys),
        ]

    def _operands(self) -> list[Statement]:
        found, tile = self.attention, self.tile
        types = [
            c_type(self.plan.buffers[self._packed(side)[0]].dtype) for side in (found.query, found.value)
        ]
        formats = [part for pair in zip(types, self._terms, strict=True) for part in pair]
        shape = (*formats, tile.fragments, tile.warps, tile.keys, tile.depth_tiles, tile.width)
        kind_ = CudaType(f"OnlineAttention<{', '.join(map(str, shape))}>", DEVICE_CODE)
        sides = {
            "query_matrix": (types[0], self._matrix(found.query, found.queries, found.depth)),
            "key_matrix": (types[0], self._matrix(found.key, (found.keys,), found.depth)),
            "value_matrix": (types[1], self._matrix(found.value, found.columns, found.keys)),
        }
        start = ATTENTION.call("start", Local("memory"), FIRST_TILE, END_TILE)
        given = Braces((*local(*sides), FIRST_QUERY, FIRST_COLUMN))
        lane, warp = THREAD % 32, THREAD / 32
        return [
            shared_memory(kind("unsigned char"), "memory", 128),
            *(
                const(CudaType(f"PackedMatrix<{half}>", DEVICE_CODE), name, value)
                for name, (half, value) in sides.items()
            ),
            declare(kind_, "attention", given),
            Do(start),
            consts(INT, lane=lane, first_row=FIRST_QUERY + warp * (tile.fragments * 16) + lane / 4),
        ]

    def _matrix(self, side: Expression, rows: tuple[Axis, ...], inner: Axis) -> Term:
        """The C++ value of type `PackedMatrix` for this block's matrix of an operand."""
        name, *scales = self._packed(side)
        buffer = self.plan.buffers[name]
        count = indices.round_up(extent(rows), PACKED_ROWS)
        tiles = indices.tiles(inner.extent, PACKED_DEPTH)
        terms: Term = Given(name)
        scaled: Term = LiteralTerm("nullptr")
        batch = indices.variable("batch")
        if scales:
            scaled = Given(scales[0])
        if self.attention.batch:
            each = indices.product([count, tiles, indices.number(TERM // SLAB_ROWS * buffer.terms)])
            terms = terms + self.index(indices.multiply(batch, each))
            if scales:
                parts = indices.tiles(inner.extent, TOGETHER * PACKED_DEPTH)
                scaled = scaled + self.index(indices.product([batch, parts, count]))
        return Braces((terms, scaled, cast(INT, self.index(count)), cast(INT, self.index(tiles))))

    def _loop(self) -> Statement:
        """The C++ loop over tiles of keys. In each iteration it computes the scores of the tile, turns them
        into weights, and adds the weighted values to the results."""
        found, tile = self.attention, self.tile
        key, rows = found.keys.name, self.index(extent(found.queries))
        used = used_names([found.score], [])
        place = SCORES[PART / 2][E / 2][PART % 2 * 2 + E % 2]
        value = values_of(self.plan).expression(found.score)
        inside = Local(key) < Local("key_count")
        each: list[Statement] = [
            const(self._number(), key, TILE * tile.keys + E / 2 * 8 + LANE % 4 * 2 + E % 2),
            const(FLOAT, SCORE, place),
            assign(place, Choice(inside, value, LiteralTerm("-INFINITY"))),
        ]
        row = FIRST_ROW + PART * 8
        queries: list[Statement] = []
        if used & {axis.name for axis in found.queries}:
            queries = self._queries(call("min", row, cast(INT, rows - 1)), used)
        return loop(
            "tile",
            FIRST_TILE,
            END_TILE,
            [
                declare(FLOAT, "scores", None, tile.fragments, tile.keys // 8, 4),
                Do(ATTENTION.call("multiply", SCORES, TILE, END_TILE)),
                unrolled("part", tile.fragments * 2, [*queries, unrolled("e", tile.keys // 4, each)]),
                Do(ATTENTION.call("take", SCORES, TILE)),
            ],
        )

    def _number(self) -> CudaType:
        """Returns the C++ type of the variables that count queries and keys in the expression of a score: a
        32-bit integer if 32 bits hold both numbers and all addresses of tensors that the score reads, else 64
        bits."""
        found = self.attention
        counts = [extent(found.queries), found.keys.extent]
        counts += [indices.product(self.plan.buffers[load.buffer].shape) for load in loads(found.score)]
        return INT if all(fits(self.plan, count) for count in counts) else INT64

    def _queries(self, number: Term, wanted: set[str]) -> list[Statement]:
        """Returns C++ statements that compute the variables of the queries' axes, those in `wanted` only,
        from the linear `number` of a query."""
        axes = self.attention.queries
        if len(axes) == 1:
            return [const(self._number(), axes[0].name, number)] if axes[0].name in wanted else []
        declared: list[Statement] = [const(INT64, "row", number)]
        return [*declared, *unravel_term(ROW, axes, wanted, self.plan.sizes[0], narrow=False)]

    def _results(self) -> list[Statement]:
        """Statements that compute what is fused behind the attention, and store it."""
        found, tile, values = self.attention, self.tile, values_of(self.plan)
        used, sizes = self._used(), self.plan.sizes[0]
        columns = self.index(extent(found.columns))
        rows = self.index(extent(found.queries))
        inner: list[Statement] = [
            const(INT64, "column", FIRST_COLUMN + E / 2 * 8 + LANE % 4 * 2 + E % 2),
            when(COLUMN >= columns, CONTINUE),
            *unravel_term(COLUMN, found.columns, used, sizes, narrow=False),
            const(FLOAT, RESULT, ATTENTION.field("sums")[PART / 2][E / 2][PART % 2 * 2 + E % 2]),
            *(store_statement(store, self.plan, values) for store in self.kernel.stores),
        ]
        outer: list[Statement] = [
            const(INT64, "row", FIRST_ROW + PART * 8),
            when(ROW >= rows, CONTINUE),
            *unravel_term(ROW, found.queries, used, sizes, narrow=False),
            const(FLOAT, LARGEST, ATTENTION.field("largest")[PART / 2][PART % 2]),
            const(FLOAT, WEIGHT, ATTENTION.field("total")[PART / 2][PART % 2]),
            unrolled("e", tile.width // 4, inner),
        ]
        return [Do(ATTENTION.call("finish")), unrolled("part", tile.fragments * 2, outer)]
