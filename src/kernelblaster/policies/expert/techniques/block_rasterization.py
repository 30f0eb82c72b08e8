"""Block rasterization: the blocks of a tiled matrix product are numbered in groups of several rows of tiles,
so that blocks that run at the same time read the same tiles of both operands from the L2 cache.

If blocks are numbered row by row, those that run at the same time need a few rows of the left operand and all
columns of the right one. In groups, their tiles form a rectangle about as high as it is wide, and they read
less in all.
"""

from dataclasses import replace
from functools import partial

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.expression import loads
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.product import Operand, Product, as_product
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.products import MmaProduct, TiledProduct, WgmmaProduct
from kernelblaster.records.signature import DTYPE_BYTES

APPLIES_TO = (TiledProduct, MmaProduct, WgmmaProduct)
RASTERS = (4, 8, 16, 32)  # rows of tiles in a group
YIELDS = 2
LEAST = 0.95  # of what is read now; an order that reads more than that is not worth trying


def _grouped(kernel: Kernel, plan: Plan, gpu: GpuSpec, rank: int) -> Kernel | No:
    product, tile = as_product(kernel, plan), kernel.schedule
    if product is None or not isinstance(tile, APPLIES_TO):
        return No("it is no product of two matrices over one K axis")
    if plan.extent(product.blocks(tile.block_m, tile.block_n)) <= gpu.multiprocessors:
        return No("all of its blocks run at once")
    if _operand_bytes(product, plan) <= gpu.l2_mb * 1e6:
        return No("both operands fit in the L2 cache")

    def read(raster: int) -> int:
        return _read_together(product, plan, gpu, replace(tile, raster=raster))

    better = [raster for raster in RASTERS if read(raster) < LEAST * read(tile.raster)]
    if rank >= len(better):
        return No("no larger or smaller groups of its blocks share more of the operands")
    return replace(kernel, schedule=replace(tile, raster=sorted(better, key=read)[rank]))


def _read_together(
    product: Product, plan: Plan, gpu: GpuSpec, tile: TiledProduct | MmaProduct | WgmmaProduct
) -> int:
    """How much of the operands is in use at one time, if one block runs on each SM, at the primary workload
    (the timed sizes): the number of distinct rows of the left operand plus that of distinct columns of the
    right one."""
    down = -(-plan.elements(product.rows) // tile.block_m)
    across = -(-plan.elements(product.columns) // tile.block_n)
    raster = min(tile.raster, down)
    wide = min(across, -(-gpu.multiprocessors // raster))
    high = min(down, raster * -(-gpu.multiprocessors // (raster * across)))
    return high * tile.block_m + wide * tile.block_n


def _operand_bytes(product: Product, plan: Plan) -> int:
    """Bytes of both operands of one matrix product (of a batch, which is walked one after the other) at the
    primary workload, as they are in memory."""
    rows, columns = plan.elements(product.rows), plan.elements(product.columns)
    both = rows * _element_bytes(product.left, plan) + columns * _element_bytes(product.right, plan)
    return both * plan.extent(product.k_axis.extent)


def _element_bytes(operand: Operand, plan: Plan) -> int:
    """Bytes of the widest tensor that the operand is read or computed from, for one element; of packed ones,
    all their terms."""
    buffers = [plan.buffers[load.buffer] for load in loads(operand.expression)]
    return max((DTYPE_BYTES[found.dtype] * max(1, found.terms) for found in buffers), default=0)


REWRITES = tuple(partial(_grouped, rank=rank) for rank in range(YIELDS))
