"""Matrix products by tensor cores with the instructions of warpgroups (sm_90a).

Blocks are persistent and take one block of results after another. The last warpgroup only fetches tiles,
ahead of the others, which wait for nothing but them. Otherwise as mma_product.py.
"""

from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.emission import mma_product as tensor
from kernelblaster.policies.expert.emission.emitted import Emitted
from kernelblaster.policies.expert.emission.loops import indented
from kernelblaster.policies.expert.index import text
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.schedule import WgmmaProduct
from kernelblaster.tasks.header import C_TYPES

SCHEDULES = (WgmmaProduct,)
GROUP_ROWS, GROUP_THREADS = 64, 128


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    tile, product = tensor.parts(kernel, plan)
    left, right = tensor.packed_operands(kernel, plan)
    groups = tile.block_m // GROUP_ROWS
    computing = groups * GROUP_THREADS
    result = "sums[e / 2 * 4 + part * 2 + e % 2]"
    each = [
        "for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {",
        *indented(tensor.block_place(product)),
    ]
    lines = [
        "extern __shared__ __align__(1024) unsigned char memory[];",
        f"__shared__ Pipeline<{tile.stages}> pipeline;",
        f"prepare(pipeline, {groups});",
        "const uint32_t base = shared_address(memory);",
        *tensor.counts(product, tile),
        f"const int64_t blocks = {text(product.blocks(tile.block_m, tile.block_n))};",
        "uint32_t step = 0;",
        f"if (threadIdx.x >= {computing}) {{",
        '  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");',
        f"  if (threadIdx.x == {computing}) {{",
        *indented(each, 2),
        f"      produce_tiles<{tensor.shape(tile, left)}>(",
        f"          pipeline, base, {tensor.operands(product, left, right, tile)},",
        f"          {tensor.tile_range(product)}, step);",
        "    }",
        "  }",
        "} else {",
        '  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");',
        "  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;",
        *indented(each),
        f"    float sums[{tile.block_n // 2}] = {{}};",
        f"    consume_tiles<{tensor.shape(tile, left)}>(",
        f"        sums, pipeline, base, {tensor.scales(product, left, right, tile)},",
        f"        {tensor.tile_range(product)}, step);",
        "    #pragma unroll",
        "    for (int part = 0; part < 2; ++part) {",
        f"      const int64_t row = block_row * {tile.block_m} + warp * 16 + part * 8 + lane / 4;",
        *indented(tensor.row_lines(product), 3),
        "      #pragma unroll",
        f"      for (int e = 0; e < {tile.block_n // 4}; ++e) {{",
        f"        const int64_t column = block_column * {tile.block_n} + e / 2 * 8 + lane % 4 * 2 + e % 2;",
        *indented(tensor.column_lines(kernel, plan, product, result), 4),
        "      }",
        "    }",
        "  }",
        "}",
    ]
    return Emitted(
        lines,
        f"min((int64_t)processors(), {text(product.blocks(tile.block_m, tile.block_n))})",
        computing + GROUP_THREADS,
        (
            device_code("processors"),
            device_code("pipeline"),
            _instruction(C_TYPES[left.dtype], tile.block_n),
            device_code("scales"),
            device_code("group_tiles"),
        ),
        shared=tile.shared_bytes(left.terms),
        blocks_per_sm=1,
    )


def _instruction(kind: str, columns: int) -> str:
    """sums (64 x columns) = a * b, or += where `add` says so; all operands by their places."""
    count = columns // 2
    kinds = tensor.INSTRUCTION_TYPES[kind]
    places = [", ".join(f"%{i}" for i in range(start, start + 16)) for start in range(0, count, 16)]
    bound = [", ".join(f'"+f"(sums[{i}])' for i in range(start, start + 4)) for start in range(0, count, 4)]
    registers = ',"\n      "'.join(places)
    outputs = ",\n        ".join(bound)
    return f"""\
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
