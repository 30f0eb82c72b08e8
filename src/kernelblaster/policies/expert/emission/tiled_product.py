"""Matrix products by plain arithmetic, on tiles in shared memory (tile_loads.py).

The sums of a thread stay in registers over the whole loop; what follows the product is computed from
them and written in vectors where the result's layout allows it.
"""

from dataclasses import dataclass

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.emission.assign import assign, stored
from kernelblaster.policies.expert.emission.emitted import Emitted
from kernelblaster.policies.expert.emission.loops import indented, unravel
from kernelblaster.policies.expert.emission.render import renderer
from kernelblaster.policies.expert.emission.tile_loads import VECTOR_WIDTH, TileLoads, condition, divisible
from kernelblaster.policies.expert.index import Index, row_major, text
from kernelblaster.policies.expert.plan import Kernel, Plan, Store
from kernelblaster.policies.expert.product import Product, as_product, contiguous
from kernelblaster.policies.expert.schedule import TiledProduct
from kernelblaster.tasks.header import C_TYPES

SCHEDULES = (TiledProduct,)
PIPELINE = "#include <cuda_pipeline.h>"


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    tile, product = kernel.schedule, as_product(kernel, plan)
    assert isinstance(tile, TiledProduct) and product is not None
    parts = _Parts(kernel, plan, tile, product)
    lines = [
        *parts.block_place(),
        *parts.thread_place(),
        *parts.memory(),
        *(line for side in parts.sides for line in (*side.prepare(), *side.functions())),
        *parts.loop(),
        *parts.results(),
    ]
    singly = "" if tile.thread_m > 1 else "_singly"
    helpers = [device_code("pack"), device_code(f"multiply_tile{singly}")]
    if any(side.asynchronous for side in parts.sides):
        helpers.insert(0, PIPELINE)
    return Emitted(lines, text(product.blocks(tile.block_m, tile.block_n)), tile.threads, tuple(helpers))


@dataclass(frozen=True)
class _Parts:
    """The parts of an emitted kernel's source, in the order in which they are written."""

    kernel: Kernel
    plan: Plan
    tile: TiledProduct
    product: Product

    @property
    def real(self) -> str:
        return self.plan.real

    @property
    def sides(self) -> tuple[TileLoads, TileLoads]:
        product, tile = self.product, self.tile
        left = TileLoads("left", "row", tile.block_m, product.left, product.k_axis, tile, self.plan)
        right = TileLoads("right", "column", tile.block_n, product.right, product.k_axis, tile, self.plan)
        return left, right

    def block_place(self) -> list[str]:
        """Which results a block has."""
        product, tile = self.product, self.tile
        down = indices.tiles(product.extent(product.rows), tile.block_m)
        across = indices.tiles(product.extent(product.columns), tile.block_n)
        lines = [
            f"// {tile.block_m} x {tile.block_n} results for a block, {tile.thread_m} x {tile.thread_n} for a"
            f" thread, {tile.block_k} terms at a time.",
            f"const int64_t blocks_across = {text(across)}, blocks_down = {text(down)};",
            f"const int64_t first_column = blockIdx.x % blocks_across * {tile.block_n};",
            f"const int64_t first_row = blockIdx.x / blocks_across % blocks_down * {tile.block_m};",
        ]
        outer = ((product.part,) if product.part is not None else ()) + product.batch
        if outer:
            lines.append("const int64_t batch = blockIdx.x / (blocks_across * blocks_down);")
        return [*lines, *unravel("batch", outer)]

    def thread_place(self) -> list[str]:
        """A warp has a rectangle of four by eight threads, so that it reads little of both tiles."""
        down = self.tile.block_m // self.tile.thread_m
        across = self.tile.block_n // self.tile.thread_n
        if self.tile.thread_m == 1 or across % 8 or down % 4:
            return [f"const int thread_row = threadIdx.x / {across}, thread_column = threadIdx.x % {across};"]
        warps = across // 8
        return [
            "const int warp = threadIdx.x / 32, in_warp = threadIdx.x % 32;",
            f"const int thread_row = warp / {warps} * 4 + in_warp / 8;",
            f"const int thread_column = warp % {warps} * 8 + in_warp % 8;",
        ]

    def memory(self) -> list[str]:
        tile = self.tile
        lines = [
            f"__shared__ __align__(32) {self.real} {side.name}_tile[{tile.stages}][{tile.block_k}]"
            f"[{side.block + side.pad}];"
            for side in self.sides
        ]
        lines.append(f"{self.real} sums[{tile.thread_m}][{tile.thread_n}] = {{}};")
        if tile.flush is not None:
            lines.append(f"{self.real} totals[{tile.thread_m}][{tile.thread_n}] = {{}};")
        inner = self.product.k_axis
        return [*lines, f"const int64_t begin = {text(inner.begin)}, end = {text(inner.end)};"]

    def loop(self) -> list[str]:
        if self.tile.asynchronous:
            lines = self._pipelined()
        else:
            lines = self._buffered() if self.tile.stages > 1 else self._single()
        return [*lines, *self._flush()]

    def _head(self) -> str:
        return f"for (int64_t first = begin; first < end; first += {self.tile.block_k}) {{"

    def _single(self) -> list[str]:
        return [
            self._head(),
            "  fetch_left(first);",
            "  fetch_right(first);",
            "  stash_left(0);",
            "  stash_right(0);",
            "  __syncthreads();",
            f"  {self._multiply('0')}",
            "  __syncthreads();",
            *self._flush_now(),
            "}",
        ]

    def _buffered(self) -> list[str]:
        """The next tiles wait in registers while one is in use, then go to the other buffer."""
        return [
            "fetch_left(begin);",
            "fetch_right(begin);",
            "stash_left(0);",
            "stash_right(0);",
            "__syncthreads();",
            "int buffer = 0;",
            self._head(),
            f"  const bool more = first + {self.tile.block_k} < end;",
            "  if (more) {",
            f"    fetch_left(first + {self.tile.block_k});",
            f"    fetch_right(first + {self.tile.block_k});",
            "  }",
            f"  {self._multiply('buffer')}",
            "  buffer ^= 1;",
            "  if (more) {",
            "    stash_left(buffer);",
            "    stash_right(buffer);",
            "  }",
            "  __syncthreads();",
            *self._flush_now(),
            "}",
        ]

    def _pipelined(self) -> list[str]:
        """Several tiles are on their way at once; beyond the end only zeros are written."""
        ahead, step = self.tile.stages - 1, self.tile.block_k
        return [
            "auto copy = [&](int buffer, int64_t first) {",
            *indented(line for side in self.sides for line in _copy(side)),
            "  __pipeline_commit();",
            "};",
            f"for (int stage = 0; stage < {ahead}; ++stage) copy(stage, begin + stage * {step});",
            "int buffer = 0;",
            self._head(),
            f"  __pipeline_wait_prior({ahead - 1});",
            "  __syncthreads();",
            f"  copy((buffer + {ahead}) % {self.tile.stages}, first + {ahead * step});",
            f"  {self._multiply('buffer')}",
            f"  buffer = (buffer + 1) % {self.tile.stages};",
            *self._flush_now(),
            "}",
        ]

    def _multiply(self, buffer: str) -> str:
        blocks = f"<{self.tile.block_m}, {self.tile.block_n}>" if self.tile.thread_m > 1 else ""
        tiles = f"left_tile[{buffer}], right_tile[{buffer}]"
        return f"multiply_tile{blocks}(sums, {tiles}, thread_row, thread_column);"

    def _flush_now(self) -> list[str]:
        if self.tile.flush is None:
            return []
        last = self.tile.flush - self.tile.block_k
        return [
            f"  if ((first - begin) % {self.tile.flush} == {last}) {{",
            *indented(self._flush(), 2),
            "  }",
        ]

    def _flush(self) -> list[str]:
        """Sums of a limited number of terms are added to the totals."""
        if self.tile.flush is None:
            return []
        return [
            "#pragma unroll",
            f"for (int r = 0; r < {self.tile.thread_m}; ++r) {{",
            "  #pragma unroll",
            f"  for (int c = 0; c < {self.tile.thread_n}; ++c) {{",
            "    totals[r][c] += sums[r][c];",
            "    sums[r][c] = 0;",
            "  }",
            "}",
        ]

    def results(self) -> list[str]:
        """What follows the product, for each of a thread's results."""
        tile, product = self.tile, self.product
        packed = self._packed()
        head = [f"const bool packed = {condition(packed)};"] if packed else []
        body = self._result_pack() if packed else self._result("c")
        step = f"c += {VECTOR_WIDTH}" if packed else "++c"
        return [
            *head,
            "#pragma unroll",
            f"for (int r = 0; r < {tile.thread_m}; ++r) {{",
            f"  const int64_t row = first_row + {_spread('r', 'thread_row', tile.block_m, tile.thread_m)};",
            f"  if (row >= {text(product.extent(product.rows))}) continue;",
            *indented(unravel("row", product.rows)),
            "  #pragma unroll",
            f"  for (int c = 0; c < {tile.thread_n}; {step}) {{",
            *indented(body, 2),
            "  }",
            "}",
        ]

    def _packed(self) -> tuple[Index, ...]:
        """What must be divisible for results to be written in vectors; nothing where they are not."""
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

    def _result(self, place: str, packed: bool = False) -> list[str]:
        product = self.product
        spread = _spread("c", "thread_column", self.tile.block_n, self.tile.thread_n)
        sums = "totals" if self.tile.flush is not None else "sums"
        render = renderer(self.plan)
        lines = [
            f"const int64_t column = first_column + {spread}{' + lane' if packed else ''};",
            f"if (column >= {text(product.extent(product.columns))}) continue;",
            *unravel("column", product.columns),
            f"const {self.real} {self.kernel.stages[0].name} = {sums}[r][{place}];",
        ]
        if not packed:
            return [*lines, *(assign(store, self.plan, render) for store in self.kernel.stores)]
        for store in self.kernel.stores:
            lines.append(f"{store.buffer}_pack.at[lane] = {stored(store, self.plan, render)};")
        return lines

    def _result_pack(self) -> list[str]:
        """CUDA statements that store four neighbouring results: as one vector, or one by one where the sizes
        leave them unaligned."""
        stores = self.kernel.stores
        kinds = [f"Pack<{C_TYPES[self.plan.buffers[s.buffer].dtype]}, {VECTOR_WIDTH}>" for s in stores]
        spread = _spread("c", "thread_column", self.tile.block_n, self.tile.thread_n)
        render = renderer(self.plan)
        single = [
            f"if (!packed) {render.place(s.buffer, s.position)} = {s.buffer}_pack.at[lane];" for s in stores
        ]
        return [
            *(f"{kind} {s.buffer}_pack;" for kind, s in zip(kinds, stores, strict=True)),
            "#pragma unroll",
            f"for (int lane = 0; lane < {VECTOR_WIDTH}; ++lane) {{",
            *indented([*self._result("c + lane", packed=True), *single]),
            "}",
            f"const int64_t column = first_column + {spread};",
            f"if (packed && column < {text(self.product.extent(self.product.columns))}) {{",
            *indented(unravel("column", self.product.columns)),
            *("  " + self._write(kind, s) for kind, s in zip(kinds, stores, strict=True)),
            "}",
        ]

    def _write(self, kind: str, store: Store) -> str:
        address = text(row_major(store.position, self.plan.buffers[store.buffer].shape))
        return f"*reinterpret_cast<{kind}*>({store.buffer} + {address}) = {store.buffer}_pack;"


def _copy(side: TileLoads) -> list[str]:
    if side.asynchronous:
        return [f"copy_{side.name}(buffer, first);"]
    return [f"fetch_{side.name}(first);", f"stash_{side.name}(buffer);"]


def _spread(place: str, thread: str, block: int, count: int) -> str:
    """Where a thread's result number `place` lies: in groups of four, a whole block of threads apart."""
    if count == 1:
        return thread
    group = f"{place} / {VECTOR_WIDTH} * {block * VECTOR_WIDTH // count} + " if count > VECTOR_WIDTH else ""
    return f"{group}{thread} * {VECTOR_WIDTH} + {place} % {VECTOR_WIDTH}"
