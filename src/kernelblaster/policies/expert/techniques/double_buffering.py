"""Double buffering: a tiled matrix product fetches the next tiles while it works on the current ones.

They wait in registers and go to a second buffer, which also saves one of two barriers.
"""

from collections.abc import Iterator
from dataclasses import replace

from kernelblaster.policies.expert.emit import STATIC_SHARED, real_type
from kernelblaster.policies.expert.families.tiled_product import shared_bytes
from kernelblaster.policies.expert.plan import Plan, Tile
from kernelblaster.policies.expert.product import Product
from kernelblaster.policies.expert.tiling import retiled


def apply(plan: Plan) -> Iterator[Plan]:
    element_bytes = 8 if real_type(plan) == "double" else 4

    def choose(product: Product, old: Tile | None) -> Tile | None:
        if old is None or old.stages > 1:
            return None
        tile = replace(old, stages=2)
        return tile if shared_bytes(tile, element_bytes) <= STATIC_SHARED else None

    buffered = retiled(plan, choose)
    if buffered is not None:
        yield buffered
