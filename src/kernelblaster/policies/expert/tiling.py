"""Giving a matrix product by plain arithmetic another tile."""

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
    """The kernel, a matrix product by plain arithmetic, with the tile that is chosen for it."""
    product = as_product(kernel, plan)
    if product is None:
        return No("it is no product of two matrices over one K axis")
    tile = choose(product, kernel.schedule if isinstance(kernel.schedule, TiledProduct) else None)
    if isinstance(tile, No):
        return tile
    flush = FLUSH if terms(product.k_axis, plan) > LONG else None
    return replace(kernel, schedule=replace(tile, flush=flush))


def terms(inner: Axis, plan: Plan) -> int:
    """The length of the sum over the K axes `inner` at the primary workload's sizes."""
    return plan.extent(inner.extent if inner.part is None else inner.part.length)
