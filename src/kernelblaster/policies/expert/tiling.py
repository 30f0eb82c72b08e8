"""Changes the tile of a matrix product without tensor cores: the part of the results that a block
computes."""

from collections.abc import Callable
from dataclasses import replace

from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.product import Product, as_product
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.products import TiledProduct

LONG, FLUSH = 8192, 1024  # longer sums by one thread are made of pieces of so many terms
Choose = Callable[[Product, TiledProduct | None], TiledProduct | No]


def retiled(kernel: Kernel, plan: Plan, choose: Choose) -> Kernel | No:
    """Returns the matrix product `kernel` with another tile (the part of the results that a block computes):
    the tile that `choose(product, tile)` returns. That function gets the description of the product, and the
    present tile, None if the kernel is not tiled yet. Returns `No`, with the reason, if the kernel is no
    matrix product or `choose` finds no tile. Sums of more than 8192 terms (LONG) are accumulated in pieces of
    1024 (FLUSH), for precision."""
    product = as_product(kernel, plan)
    if product is None:
        return No("it is no product of two matrices over one K axis")
    tile = choose(product, kernel.schedule if isinstance(kernel.schedule, TiledProduct) else None)
    if isinstance(tile, No):
        return tile
    flush = FLUSH if terms(product.k_axis, plan) > LONG else None
    return replace(kernel, schedule=replace(tile, flush=flush))


def terms(inner: Axis, plan: Plan) -> int:
    """Returns how many terms a thread sums along the K axis `inner` in the primary workload: the axis's
    extent or, if it is cut into pieces (split-K), the length of a piece."""
    return plan.extent(inner.extent if inner.part is None else inner.part.length)
