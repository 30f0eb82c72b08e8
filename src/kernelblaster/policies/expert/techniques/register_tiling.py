"""Register tiling: each thread of a tiled matrix product computes a rectangle of results, so that a value
that it reads from shared memory is used for a whole row or column of them.

Larger rectangles need less shared-memory traffic for each multiplication. Smaller tiles waste less at the
edges of the matrix and give more blocks.
"""

from functools import partial

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.product import Product
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.products import ThreadPerResult, TiledProduct
from kernelblaster.policies.expert.tiling import LONG, retiled, terms

APPLIES_TO = (ThreadPerResult, TiledProduct)
SINGLY = False
# How fast each shape works through its results where there are enough blocks, by our own model.
SHAPES = {
    TiledProduct(128, 256, 8, 8, 16): 1.1,
    TiledProduct(128, 128, 16, 8, 8): 1.0,
    TiledProduct(64, 128, 16, 4, 8): 0.78,
    TiledProduct(128, 64, 16, 8, 4): 0.75,
    TiledProduct(64, 64, 16, 4, 4): 0.63,
    TiledProduct(64, 32, 16, 4, 4): 0.6,
    TiledProduct(32, 32, 32, 4, 4): 0.5,
}
MOST = 64  # results of a thread whose sums need more registers: in double precision, or with totals
YIELDS = 4


def _tiled(kernel: Kernel, plan: Plan, gpu: GpuSpec, rank: int) -> Kernel | No:
    def choose(product: Product, old: TiledProduct | None) -> TiledProduct | No:
        if old is not None and old.thread_m > 1:
            return No("its threads have several results already")
        return _ranked(product, plan, gpu)[rank]

    return retiled(kernel, plan, choose)


def _ranked(product: Product, plan: Plan, gpu: GpuSpec) -> list[TiledProduct]:
    """Tile shapes for the matrix product, the best first by the estimated time of that SM of `gpu` that has
    most blocks, at the sizes of the primary workload. If the best one gives fewer blocks than there are SMs,
    the shape that is fastest on a full GPU comes second, because `split_k` can then make more blocks of
    it."""
    wide = plan.real == "double" or terms(product.k_axis, plan) > LONG
    fitting = [tile for tile in SHAPES if not wide or tile.thread_m * tile.thread_n <= MOST]

    def launched(tile: TiledProduct) -> int:
        return plan.extent(product.blocks(tile.block_m, tile.block_n))

    def cost(tile: TiledProduct) -> float:
        rounds = -(-launched(tile) // gpu.multiprocessors)
        return rounds * tile.block_m * tile.block_n / SHAPES[tile]

    best, *others = sorted(fitting, key=cost)
    if launched(best) < gpu.multiprocessors:
        others.sort(key=lambda tile: tile is not fitting[0])
    return [best, *others]


REWRITES = tuple(partial(_tiled, rank=rank) for rank in range(YIELDS))
