"""Emits the kernels that pack an operand of a matrix product for tensor cores: they rearrange the operand,
pad it with zeros, and store each element as one to three half-precision numbers (terms) whose sum is the
element.

A packed operand is a sequence of slabs of 64 rows. A slab is a sequence of tiles of 32 elements of the K
axis. A tile has its first terms first, then its second terms, and so on, each as 64 rows of 32 numbers.
Within a row, the four groups of 8 numbers are permuted depending on the number of the row (a swizzle), so
that reading 8 rows at once touches every bank of shared memory. The product's kernel can therefore copy tiles
to shared memory as they are.

Elements that are split into two terms (float16) are scaled before, by one power of two for every four tiles
of a row. Elements that are split into three are not: these are bfloat16, which has the range of float32.
"""

from dataclasses import replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.cuda.source import Emitted
from kernelblaster.policies.expert.cuda.statements import (
    BREAK,
    Declaration,
    Declarator,
    Do,
    Statement,
    assign,
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
    Choice,
    CudaType,
    Given,
    LiteralTerm,
    Local,
    call,
    cast,
    kind,
    read,
    term,
    vector_pointer,
)
from kernelblaster.policies.expert.emission.functions import largest_of_row, read_near, scale_for
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.places import local, unravel
from kernelblaster.policies.expert.emission.values import c_type, index_term, values_of
from kernelblaster.policies.expert.expression import Gather, Load, loads
from kernelblaster.policies.expert.index import Index, row_major
from kernelblaster.policies.expert.kernel import Kernel, Store
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.packing import SLAB_ROWS, TOGETHER, Packing
from kernelblaster.policies.expert.schedules.products import PACKED_DEPTH, PACKED_ROWS

SCHEDULES = (Packing,)
TERM = SLAB_ROWS * PACKED_DEPTH
ROW, GROUP, LINE, PART, TILE, E = local("row", "group", "line", "part", "tile", "e")
SLAB, SLABS, PARTS, TILES, FIRST = local("slab", "slabs", "parts", "tiles", "first")
VALUE, INVERSE, TO, OPERAND_TERM = local("value", "inverse", "to", "term")
ZERO_FLOAT = LiteralTerm("0.0f")


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    """Returns the CUDA of `kernel`, a kernel of `plan`, which packs one operand of a matrix product. A block
    packs four neighbouring tiles of one slab (64 rows); a thread packs 8 neighbouring elements of one row in
    each of these tiles."""
    schedule = kernel.schedule
    assert isinstance(schedule, Packing)
    store = kernel.stores[0]
    buffer = plan.buffers[store.buffer]
    *outer, inner = kernel.axes
    rows = buffer.shape[-2]
    sizes = plan.sizes[0]
    parts = indices.tiles(inner.extent, TOGETHER * PACKED_DEPTH)
    slabs = indices.divide(indices.round_up(rows, PACKED_ROWS), indices.number(SLAB_ROWS))
    batch = indices.product(buffer.shape[:-2])
    reads = _contiguous_reads(kernel, plan)
    along = bool(reads) or any(_contiguous(load, inner.name) for load in loads(store.value))
    row, group = THREAD / 4, THREAD % 4
    if not along:
        row, group = THREAD % 8 + THREAD / 32 * 8, THREAD / 8 % 4
    body: list[Statement] = [
        consts(INT, row=row, group=group),
        const(INT64, "tiles", index_term(indices.tiles(inner.extent, PACKED_DEPTH), sizes)),
        consts(INT64, parts=index_term(parts, sizes), slabs=index_term(slabs, sizes)),
        consts(INT64, part=BLOCK % PARTS, slab=BLOCK / PARTS),
        const(INT64, "line", SLAB % SLABS * SLAB_ROWS + ROW),
        declare(FLOAT, "value", Braces(), TOGETHER, 8),
        when(
            LINE < index_term(rows, sizes),
            *_outer(outer, rows, batch, plan),
            _values(kernel, plan, store, reads),
        ),
        *(_scaling(kernel.stores[1], 1 if along else 8) if len(kernel.stores) > 1 else []),
        _stores(store.buffer, c_type(buffer.dtype), buffer.terms),
    ]
    dims = len(buffer.shape) - 2
    nest = schedule.nest(kernel.axes[:dims], kernel.axes[dims:-1], (inner,))
    blocks = index_term(indices.product([batch, slabs, parts]), sizes)
    return launched(nest, sizes, body, blocks=blocks)


def _outer(axes: list[Axis], rows: Index, batch: Index, plan: Plan) -> list[Statement]:
    """Declares the variables of `axes`, those of the batch and of the row, from the block's slab and the
    thread's row `line`; `rows` is the number of rows of a matrix, `batch` that of matrices."""
    sizes = plan.sizes[0]
    if indices.is_number(batch, 1):
        return unravel("line", axes, sizes)
    place = indices.add(indices.multiply(indices.variable("batch"), rows), indices.variable("line"))
    numbered = [const(INT64, "batch", SLAB / SLABS), const(INT64, "i", index_term(place, sizes))]
    return [*numbered, *unravel("i", axes, sizes)]


def _values(kernel: Kernel, plan: Plan, store: Store, reads: list[Load]) -> Statement:
    inner = kernel.axes[-1]
    extent = index_term(inner.extent, plan.sizes[0])
    values = values_of(plan)
    body: list[Statement] = [
        const(INT64, "first", (PART * TOGETHER + TILE) * PACKED_DEPTH + GROUP * 8),
    ]
    if reads:
        values = replace(
            values, whole=reads[0].position, whole_element=lambda buffer: Local(f"{buffer}_near")[E]
        )
        start = {inner.name: indices.variable("first")}
        for load in reads:
            found = plan.buffers[load.buffer]
            place = row_major((indices.replace(i, start) for i in load.position), found.shape)
            near = Local(f"{found.name}_near")
            from_ = Given(found.name) + values.index(place)
            body.append(declare(c_type(found.dtype), near.name, None, 8))
            body.append(Do(read_near(near, from_, extent - FIRST)))
    element: list[Statement] = [
        const(INT64, inner.name, FIRST + E),
        when(Local(inner.name) < extent, assign(VALUE[TILE][E], values.expression(store.value))),
    ]
    return unrolled("tile", TOGETHER, [*body, unrolled("e", 8, element)])


def _scaling(store: Store, lanes: int) -> list[Statement]:
    largest, i = local("largest", "i")
    most = call("fmaxf", largest, call("fabsf", VALUE[i / 8][i % 8]))
    place = (SLAB / SLABS * PARTS + PART) * SLABS * SLAB_ROWS + LINE
    return [
        declare(FLOAT, "largest", 0),
        unrolled("i", TOGETHER * 8, [assign(largest, most)]),
        const(FLOAT, "row_scale", scale_for(largest_of_row(largest, lanes))),
        const(FLOAT, "inverse", LiteralTerm("1.0f") / Local("row_scale")),
        when(GROUP.equals(0), assign(Given(store.buffer)[place], Local("row_scale"))),
    ]


def _stores(name: str, half: CudaType, terms: int) -> Statement:
    """The loop over a thread's tiles that splits its 8 elements into terms and writes each term to the buffer
    `name` with one store of 16 bytes; `half` is the type of the terms."""
    to = Given(name) + (SLAB * TILES + Local("place")) * (terms * TERM)
    to = to + ROW * PACKED_DEPTH + (GROUP ^ (ROW / 2 % 4)) * 8
    body: list[Statement] = [
        const(INT64, "place", PART * TOGETHER + TILE),
        when(Local("place") >= TILES, BREAK),
        Declaration(half, (Declarator("term", None, (term(terms), term(8))),), "alignas(16)"),
        unrolled("e", 8, _terms(half, terms)),
        declare(CudaType(f"{half}*"), "to", to),
    ]
    vector = kind("uint4")
    for number in range(terms):
        place = vector_pointer(vector, TO + number * TERM if number else TO, const=False)
        body.append(assign(read(place), read(vector_pointer(vector, OPERAND_TERM[number]))))
    return unrolled("tile", TOGETHER, body)


def _terms(half: CudaType, terms: int) -> list[Statement]:
    """Statements that split a float into `terms` (1 to 3) numbers of the half precision `half`: the rounded
    value, and then what is left of the value, rounded again (0 where it is infinite). Where there are 2, the
    value is scaled first."""
    if terms == 1:
        return [assign(OPERAND_TERM[0][E], cast(half, VALUE[TILE][E]))]
    if terms == 3:
        rest = Local("rest")
        taken = [rest - cast(FLOAT, OPERAND_TERM[number][E]) for number in range(2)]
        finite = Choice(call("isinf", rest), ZERO_FLOAT, taken[0])
        return [
            declare(FLOAT, "rest", VALUE[TILE][E]),
            assign(OPERAND_TERM[0][E], cast(half, rest)),
            assign(rest, finite),
            assign(OPERAND_TERM[1][E], cast(half, rest)),
            assign(OPERAND_TERM[2][E], cast(half, taken[1])),
        ]
    scaled = Local("scaled")
    error = scaled - cast(FLOAT, OPERAND_TERM[0][E])
    return [
        const(FLOAT, "scaled", VALUE[TILE][E] * INVERSE),
        assign(OPERAND_TERM[0][E], cast(half, scaled)),
        assign(OPERAND_TERM[1][E], Choice(call("isinf", scaled), cast(half, ZERO_FLOAT), cast(half, error))),
    ]


def _contiguous_reads(kernel: Kernel, plan: Plan) -> list[Load]:
    """The loads of the packed value that are contiguous along the K axis, to be read 8 elements at once.
    Empty unless all of them have the same position, are floating-point, and have lines as long as the K
    axis."""
    inner = kernel.axes[-1]
    found = [load for load in dict.fromkeys(loads(kernel.stores[0].value)) if _contiguous(load, inner.name)]
    plain = [load for load in found if isinstance(load, Load)]
    same = len({load.position for load in plain}) == 1
    floating = all(plan.buffers[load.buffer].dtype in ("float32", "float16", "bfloat16") for load in plain)
    whole = all(plan.same(plan.buffers[load.buffer].shape[-1], inner.extent) for load in plain)
    return plain if same and floating and whole else []


def _contiguous(load: Load | Gather, inner: str) -> bool:
    if isinstance(load, Gather) or not load.position or load.position[-1].name != inner:
        return False
    return not any(inner in indices.names(index) for index in load.position[:-1])
