"""Matrix products by tensor cores, on packed operands (packing.py), with the instructions of single warps.

The loop over tiles is one device function; a kernel calls it for its block of results and then does
what follows the product. Tensor cores cut off what does not fit when they add, always towards zero:
after every few tiles their sums are therefore taken over into sums in ordinary float arithmetic,
which rounds to nearest.
"""

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.emission.assign import assign
from kernelblaster.policies.expert.emission.emitted import Emitted
from kernelblaster.policies.expert.emission.loops import indented, unravel
from kernelblaster.policies.expert.emission.packing import SLAB_ROWS, TERM
from kernelblaster.policies.expert.emission.render import renderer
from kernelblaster.policies.expert.index import text
from kernelblaster.policies.expert.plan import TOGETHER, Buffer, Kernel, Plan
from kernelblaster.policies.expert.product import Product, as_product
from kernelblaster.policies.expert.schedule import PACKED_DEPTH, PACKED_ROWS, MmaProduct, TensorProduct
from kernelblaster.tasks.header import C_TYPES

SCHEDULES = (MmaProduct,)
WARP_M, WARP_N = 64, 32
GROUP = 8  # rows of blocks that are walked together, so that their operands stay in the L2 cache
INSTRUCTION_TYPES = {"__half": "f16", "__nv_bfloat16": "bf16"}


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    tile, product = parts(kernel, plan)
    left, right = packed_operands(kernel, plan)
    across = tile.block_n // WARP_N
    result = "sums[part / 2][e / 2][part % 2 * 2 + e % 2]"
    lines = [
        *counts(product, tile),
        "const int64_t block = blockIdx.x;",
        *block_place(product),
        "float sums[4][4][4] = {};",
        f"multiply_tiles<{shape(tile, left)}>(",
        f"    sums, {operands(product, left, right, tile)},",
        f"    {scales(product, left, right, tile)}, {tile_range(product)});",
        "const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;",
        "#pragma unroll",
        "for (int part = 0; part < 8; ++part) {",
        f"  const int64_t row = block_row * {tile.block_m} + warp / {across} * 64 + part * 8 + lane / 4;",
        *indented(row_lines(product)),
        "  #pragma unroll",
        "  for (int e = 0; e < 8; ++e) {",
        f"    const int64_t column = block_column * {tile.block_n} + warp % {across} * 32 + e / 2 * 8"
        " + lane % 4 * 2 + e % 2;",
        *indented(column_lines(kernel, plan, product, result), 2),
        "  }",
        "}",
    ]
    instructions = device_code("tensor_cores").replace("TYPE", INSTRUCTION_TYPES[C_TYPES[left.dtype]])
    threads = tile.block_m // WARP_M * across * 32
    return Emitted(
        lines,
        text(product.blocks(tile.block_m, tile.block_n)),
        threads,
        (instructions, device_code("scales"), device_code("multiply_tiles")),
        shared=tile.shared_bytes(left.terms),
    )


def parts(kernel: Kernel, plan: Plan) -> tuple[TensorProduct, Product]:
    tile, product = kernel.schedule, as_product(kernel, plan)
    assert isinstance(tile, TensorProduct) and product is not None
    return tile, product


def shape(tile: TensorProduct, operand: Buffer) -> str:
    """Template arguments of the device functions."""
    return f"{tile.block_m}, {tile.block_n}, {tile.stages}, {operand.terms}"


def counts(product: Product, tile: TensorProduct) -> list[str]:
    rows, columns = product.extent(product.rows), product.extent(product.columns)
    return [
        f"const int64_t tiles = {text(indices.tiles(product.k_axis.extent, PACKED_DEPTH))};",
        f"const int64_t block_rows = {text(indices.tiles(rows, tile.block_m))};",
        f"const int64_t block_columns = {text(indices.tiles(columns, tile.block_n))};",
        f"const int64_t all_rows = {text(indices.round_up(rows, PACKED_ROWS))};",
        f"const int64_t all_columns = {text(indices.round_up(columns, PACKED_ROWS))};",
    ]


def block_place(product: Product) -> list[str]:
    """CUDA statements that compute a block's tile of the result from its number. GROUP rows of tiles are
    walked column by column, so that blocks that run together share operands in the L2 cache."""
    lines = [
        f"const int64_t group = {GROUP} * block_columns, first_row = place / group * {GROUP};",
        f"const int64_t group_rows = block_rows - first_row < {GROUP} ? block_rows - first_row : {GROUP};",
        "const int64_t block_row = first_row + place % group % group_rows;",
        "const int64_t block_column = place % group / group_rows;",
    ]
    batch: list[str] = []
    if product.batch or product.part:
        batch.append("const int64_t batch = block / (block_rows * block_columns);")
    batch += unravel("batch", ([product.part] if product.part else []) + list(product.batch))
    place = "block % (block_rows * block_columns)" if batch else "block"
    return [*batch, f"const int64_t place = {place};", *lines, *_piece(product)]


def _piece(product: Product) -> list[str]:
    """Where the K axis is cut: the tiles of a block's piece."""
    if product.part is None:
        return []
    cut = product.k_axis.part
    assert cut is not None
    length = text(indices.divide(cut.length, indices.number(PACKED_DEPTH)))
    return [
        f"const int64_t first_tile = {product.part.name} * ({length});",
        f"const int64_t tile_count = max((int64_t)0, min(tiles - first_tile, (int64_t)({length})));",
    ]


def tile_range(product: Product) -> str:
    """How many tiles a row has, and how many of them a block takes."""
    return "(int)tiles, (int)tile_count" if product.part else "(int)tiles, (int)tiles"


def packed_operands(kernel: Kernel, plan: Plan) -> tuple[Buffer, Buffer]:
    left, right = (plan.buffers[name] for name in kernel.reads if plan.buffers[name].terms)
    return left, right


def operands(product: Product, left: Buffer, right: Buffer, tile: TensorProduct) -> str:
    """CUDA statements for pointers to the first packed rows of both operands that a block reads."""

    def start(buffer: Buffer, block: str, size: int, rows: str) -> str:
        first = f"{block} * {size // SLAB_ROWS}" if size > SLAB_ROWS else block
        if len(buffer.shape) > 2:
            first = f"({_batch(product)} * {rows} / {SLAB_ROWS} + {first})"
        tiles = f"({first} * tiles + first_tile)" if product.part else f"{first} * tiles"
        return f"{buffer.name} + {tiles} * {buffer.terms * TERM}"

    return (
        f"{start(left, 'block_row', tile.block_m, 'all_rows')}, "
        f"{start(right, 'block_column', tile.block_n, 'all_columns')}"
    )


def scales(product: Product, left: Buffer, right: Buffer, tile: TensorProduct) -> str:
    """Where the scales of a block's rows and columns begin, if there are any."""
    if left.terms == 1:
        return "Scales{}"

    def start(buffer: Buffer, block: str, size: int, rows: str) -> str:
        first = f"{block} * {size}"
        if len(buffer.shape) > 2:
            first = f"{_batch(product)} * ((tiles + {TOGETHER - 1}) / {TOGETHER}) * {rows} + {first}"
        if product.part:
            first += f" + first_tile / {TOGETHER} * {rows}"
        return f"{buffer.name.removesuffix('_packed')}_scale + {first}"

    rows = start(left, "block_row", tile.block_m, "all_rows")
    columns = start(right, "block_column", tile.block_n, "all_columns")
    return f"Scales{{{rows}, {columns}, all_rows, all_columns}}"


def _batch(product: Product) -> str:
    """A block's number within the batch."""
    return f"(batch % ({text(product.extent(product.batch))}))" if product.part else "batch"


def row_lines(product: Product) -> list[str]:
    return [f"if (row >= {text(product.extent(product.rows))}) continue;", *unravel("row", product.rows)]


def column_lines(kernel: Kernel, plan: Plan, product: Product, result: str) -> list[str]:
    return [
        f"if (column >= {text(product.extent(product.columns))}) continue;",
        *unravel("column", product.columns),
        f"const float {kernel.stages[0].name} = {result};",
        *(assign(store, plan, renderer(plan)) for store in kernel.stores),
    ]
