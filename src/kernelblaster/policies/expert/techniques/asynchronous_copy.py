"""Asynchronous copy: tiles of a matrix product are copied from global to shared memory without passing
through registers (`cp.async`), several tiles ahead of their use.

This is only done for float32 operands that are read as they are in memory. An operand that is computed from
other values is still loaded through registers.
"""

from dataclasses import replace
from functools import partial

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.product import Product
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.products import TiledProduct
from kernelblaster.policies.expert.schedules.schedule import STATIC_SHARED_BYTES
from kernelblaster.policies.expert.tiling import retiled

APPLIES_TO = (TiledProduct,)
SINGLY = False
STAGES = (3, 2, 4)
LEAST_K = 8


def _copied(kernel: Kernel, plan: Plan, gpu: GpuSpec, stages: int) -> Kernel | No:
    if plan.real != "float":
        return No("it computes in double precision, and copies are of float32 numbers")

    def choose(product: Product, old: TiledProduct | None) -> TiledProduct | No:
        assert old is not None
        if old.asynchronous:
            return No("its tiles are copied asynchronously already")
        if not _copies(product, plan):
            return No("both operands are computed on the way, or are not float32")
        return _fitting(replace(old, stages=stages, asynchronous=True))

    return retiled(kernel, plan, choose)


def _copies(product: Product, plan: Plan) -> bool:
    """Whether at least one operand of the product is float32 and read as it is in memory, so that it can be
    copied asynchronously."""
    plain = [operand.plain for operand in (product.left, product.right) if operand.plain is not None]
    return any(plan.buffers[load.buffer].dtype == "float32" for load in plain)


def _fitting(tile: TiledProduct) -> TiledProduct | No:
    """The tile with `block_k`, the terms of a sum that are multiplied per step, halved until all of its
    `stages` fit in static shared memory at once; `No` if they do not fit even with LEAST_K terms."""
    while tile.shared_bytes(4) > STATIC_SHARED_BYTES:
        if tile.block_k <= LEAST_K:
            return No("shared memory has no room for so many tiles")
        tile = replace(tile, block_k=tile.block_k // 2)
    return tile


REWRITES = tuple(partial(_copied, stages=stages) for stages in STAGES)
