"""Register tiling: each thread of a tiled matrix product has a rectangle of results.

What it reads from shared memory serves a whole row or column of them. Larger rectangles need less
memory traffic for each term; smaller tiles waste less at the edges and give more blocks.
"""

from collections.abc import Iterator

from kernelblaster.policies.expert.plan import Plan, Tile
from kernelblaster.policies.expert.product import Product
from kernelblaster.policies.expert.tiling import LONG, PROCESSORS, launched, retiled, terms

# How fast each shape works through its results where there are enough blocks, by our own model.
SHAPES = {
    Tile(128, 256, 8, 8, 16): 1.1,
    Tile(128, 128, 16, 8, 8): 1.0,
    Tile(64, 128, 16, 4, 8): 0.78,
    Tile(128, 64, 16, 8, 4): 0.75,
    Tile(64, 64, 16, 4, 4): 0.63,
    Tile(64, 32, 16, 4, 4): 0.6,
    Tile(32, 32, 32, 4, 4): 0.5,
}
MOST = 64  # results of a thread whose sums need more registers: in double precision, or with totals
YIELDS = 4


def apply(plan: Plan) -> Iterator[Plan]:
    for rank in range(YIELDS):

        def choose(product: Product, old: Tile | None, rank: int = rank) -> Tile | None:
            return None if old is not None and old.thread_m > 1 else _ranked(product, plan)[rank]

        tiled = retiled(plan, choose)
        if tiled is not None:
            yield tiled


def _ranked(product: Product, plan: Plan) -> list[Tile]:
    """Shapes by the time that the busiest processor needs, the best first. Where processors stay idle
    even so, the fastest shape comes second: split_k can give them work."""
    wide = plan.signature.outputs[0].dtype == "float64" or terms(product.inner, plan) > LONG
    fitting = [tile for tile in SHAPES if not wide or tile.thread_m * tile.thread_n <= MOST]

    def cost(tile: Tile) -> float:
        rounds = -(-launched(product, tile, plan) // PROCESSORS)
        return rounds * tile.block_m * tile.block_n / SHAPES[tile]

    best, *others = sorted(fitting, key=cost)
    if launched(product, best, plan) < PROCESSORS:
        others.sort(key=lambda tile: tile is not fitting[0])
    return [best, *others]
