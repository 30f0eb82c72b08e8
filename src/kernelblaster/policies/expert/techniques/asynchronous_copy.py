"""Asynchronous copy: tiles of a matrix product go to shared memory past the registers, several ahead.

For float32 operands that are only read; one that is computed on the way is fetched as before.
"""

from collections.abc import Iterator
from dataclasses import replace

from kernelblaster.policies.expert.emit import STATIC_SHARED, real_type
from kernelblaster.policies.expert.families.tiled_product import shared_bytes
from kernelblaster.policies.expert.plan import Plan, Tile
from kernelblaster.policies.expert.product import Product
from kernelblaster.policies.expert.tiling import retiled

STAGES = (3, 2, 4)
LEAST_K = 8


def apply(plan: Plan) -> Iterator[Plan]:
    if real_type(plan) != "float":
        return
    for stages in STAGES:

        def choose(product: Product, old: Tile | None, stages: int = stages) -> Tile | None:
            if old is None or old.asynchronous or not _copies(product, plan):
                return None
            return _fitting(replace(old, stages=stages, asynchronous=True))

        copied = retiled(plan, choose)
        if copied is not None:
            yield copied


def _copies(product: Product, plan: Plan) -> bool:
    """Whether an operand can be copied as it is."""
    plain = [operand.plain for operand in (product.left, product.right) if operand.plain is not None]
    return any(plan.buffers[load.buffer].dtype == "float32" for load in plain)


def _fitting(tile: Tile) -> Tile | None:
    """The tile, with fewer terms at a time where all stages would not fit in shared memory."""
    while shared_bytes(tile, 4) > STATIC_SHARED:
        if tile.block_k <= LEAST_K:
            return None
        tile = replace(tile, block_k=tile.block_k // 2)
    return tile
