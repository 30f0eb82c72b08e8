"""Shared-memory tiling: the threads of a block share tiles of both operands of a matrix product.

Every element then comes from further away once a block instead of once a thread; each thread has one
result.
"""

from collections.abc import Iterator

from kernelblaster.policies.expert.plan import Plan, Tile
from kernelblaster.policies.expert.product import Product
from kernelblaster.policies.expert.tiling import retiled

TILES = (Tile(32, 32, 32), Tile(16, 16, 16), Tile(16, 32, 32))


def apply(plan: Plan) -> Iterator[Plan]:
    for tile in TILES:

        def choose(product: Product, old: Tile | None, tile: Tile = tile) -> Tile | None:
            return tile if old is None else None

        tiled = retiled(plan, choose)
        if tiled is not None:
            yield tiled
