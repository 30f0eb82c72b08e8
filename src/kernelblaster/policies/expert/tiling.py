"""Giving the matrix products of a plan another tile."""

from collections.abc import Callable
from dataclasses import replace

from kernelblaster.policies.expert.families.tiled_product import blocks
from kernelblaster.policies.expert.plan import Axis, Kernel, Plan, TensorTile, Tile
from kernelblaster.policies.expert.product import Product, as_product

PROCESSORS = 132  # of a large GPU, which a launch should fill
LONG, FLUSH = 8192, 1024  # longer sums by one thread are made of pieces of so many terms
Choose = Callable[[Product, Tile | None], Tile | None]


def retiled(plan: Plan, choose: Choose) -> Plan | None:
    """The plan with the tile that is chosen for each of its products by plain arithmetic; None where
    nothing is chosen for any."""
    changed = tuple(_changed(kernel, plan, choose) for kernel in plan.kernels)
    return plan.with_kernels(changed) if changed != plan.kernels else None


def _changed(kernel: Kernel, plan: Plan, choose: Choose) -> Kernel:
    product, old = as_product(kernel, plan), kernel.schedule.tile
    if product is None or isinstance(old, TensorTile):
        return kernel
    tile = choose(product, old)
    if tile is None:
        return kernel
    tile = replace(tile, flush=FLUSH if terms(product.inner, plan) > LONG else None)
    return replace(kernel, schedule=replace(kernel.schedule, tile=tile, accumulate="float"))


def terms(inner: Axis, plan: Plan) -> int:
    """The length of the sum over the K axes `inner` at the primary workload's sizes."""
    return plan.extent(inner.extent if inner.part is None else inner.part.length)


def launched(product: Product, tile: Tile | TensorTile, plan: Plan) -> int:
    """Blocks of a launch in the primary workload."""
    return plan.extent(blocks(product, tile))
