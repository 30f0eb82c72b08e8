"""Emits matrix products on tensor cores with packed operands, by the `wgmma` instructions of warpgroups
(sm_90a).

Blocks are persistent and compute one tile of the results after another. The last warpgroup of each block only
fetches tiles of the operands, ahead of the other warpgroups, which multiply them. As in mma_product.py, the
operands are packed, and the tensor cores' sums are added up in ordinary float arithmetic.
"""

from functools import cache

from kernelblaster.policies.expert.cuda.headers import Header, header
from kernelblaster.policies.expert.cuda.source import Emitted
from kernelblaster.policies.expert.cuda.statements import (
    Assembly,
    Do,
    If,
    Statement,
    const,
    consts,
    declare,
    loop,
    shared,
    shared_memory,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    BLOCK,
    FLOAT,
    GRID,
    INT,
    INT64,
    THREAD,
    Braces,
    CudaType,
    DeviceFunction,
    Local,
    call,
    cast,
    kind,
)
from kernelblaster.policies.expert.emission.functions import PIPELINE, prepare, processors, shared_address
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.mma_product import (
    BLOCK_COLUMN,
    BLOCK_ROW,
    LANE,
    PART,
    SUMS,
    WARP,
    E,
    TensorKernel,
)
from kernelblaster.policies.expert.emission.places import local
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.products import WARPGROUP, WGMMA_M, WgmmaProduct
from kernelblaster.records.signature import Dtype

SCHEDULES = (WgmmaProduct,)
INSTRUCTION_TYPES: dict[Dtype, str] = {"float16": "f16", "bfloat16": "bf16"}


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    found = TensorKernel(kernel, plan)
    tile = found.tile
    groups = tile.block_m // WGMMA_M
    computing = groups * WARPGROUP
    code = _tiles_code(found.left.dtype, tile.block_n)
    produce, consume = (DeviceFunction(name, code) for name in ("produce_tiles", "consume_tiles"))
    pipeline, base, step, memory = local("pipeline", "base", "step", "memory")

    def over_blocks(*body: Statement) -> Statement:
        place = found.block_place()
        return loop("block", BLOCK, Local("blocks"), [*place, *body], step=GRID, type_=INT64)

    fetch = produce.of(*found.shape())(pipeline, base, *found.operand_starts(), *found.tile_range(), step)
    multiply = consume.of(*found.shape())(SUMS, pipeline, base, found.scales(), *found.tile_range(), step)
    results = found.results(
        parts=2,
        row=BLOCK_ROW * tile.block_m + WARP * 16 + PART * 8 + LANE / 4,
        elements=tile.block_n // 4,
        column=BLOCK_COLUMN * tile.block_n + E / 2 * 8 + LANE % 4 * 2 + E % 2,
        result=SUMS[E / 2 * 4 + PART * 2 + E % 2],
    )
    fetching: tuple[Statement, ...] = (
        Assembly("setmaxnreg.dec.sync.aligned.u32 40"),
        when(THREAD.equals(computing), over_blocks(Do(fetch))),
    )
    multiplying: tuple[Statement, ...] = (
        Assembly("setmaxnreg.inc.sync.aligned.u32 232"),
        consts(INT, warp=THREAD / 32, lane=THREAD % 32),
        over_blocks(declare(FLOAT, "sums", Braces(), tile.block_n // 2), Do(multiply), results),
    )
    body: list[Statement] = [
        shared_memory(kind("unsigned char"), "memory", 1024),
        shared(CudaType(f"Pipeline<{tile.stages}>", PIPELINE), "pipeline"),
        Do(prepare(pipeline, groups)),
        const(kind("uint32_t"), "base", shared_address(memory)),
        *found.counts(),
        const(INT64, "blocks", found.blocks()),
        declare(kind("uint32_t"), "step", 0),
        If(THREAD >= computing, fetching, multiplying),
    ]
    return launched(
        found.nest(),
        found.sizes,
        body,
        blocks=call("min", cast(INT64, processors()), found.blocks()),
        shared=tile.shared_bytes(found.left.terms),
        blocks_per_sm=1,
    )


@cache
def _tiles_code(dtype: Dtype, columns: int) -> Header:
    """The device functions that fetch and multiply tiles, with the `wgmma` instruction for operands of the
    half precision `dtype` and tiles that are `columns` results wide."""
    tiles = header("group_tiles")
    return Header(tiles.name, tiles.text, (_instruction(dtype, columns), *tiles.includes))


@cache
def _instruction(dtype: Dtype, columns: int) -> Header:
    """A header with the device function `multiply_group`, one `wgmma` instruction on operands of `dtype` in
    shared memory, given by descriptors: sums (64 x `columns`) = a * b, or += when its `add` is not 0."""
    count = columns // 2
    kinds = INSTRUCTION_TYPES[dtype]
    places = [", ".join(f"%{i}" for i in range(start, start + 16)) for start in range(0, count, 16)]
    bound = [", ".join(f'"+f"(sums[{i}])' for i in range(start, start + 4)) for start in range(0, count, 4)]
    registers = ',"\n      "'.join(places)
    outputs = ",\n        ".join(bound)
    text = f"""\
// sums (64 x {columns}) = a (64 x 16) * b (16 x {columns}), added to what they were where `add` is not 0.
__device__ void multiply_group(float (&sums)[{count}], uint64_t a, uint64_t b, int add) {{
  asm volatile(
      "{{\\n.reg .pred more;\\nsetp.ne.b32 more, %{count + 2}, 0;\\n"
      "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kinds}.{kinds} {{"
      "{registers}"
      "}}, %{count}, %{count + 1}, more, 1, 1, 0, 0;\\n}}"
      : {outputs}
      : "l"(a), "l"(b), "r"(add));
}}"""
    return Header(f"multiply_group_{kinds}_{columns}", text)
