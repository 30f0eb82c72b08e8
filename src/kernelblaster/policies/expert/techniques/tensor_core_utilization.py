"""Tensor cores: a product of half-precision operands by matrix instructions, with sums in float."""

from collections.abc import Iterator

from kernelblaster.policies.expert.expression import loads
from kernelblaster.policies.expert.packing import packed
from kernelblaster.policies.expert.plan import Kernel, Plan, TensorTile
from kernelblaster.policies.expert.product import Product, as_product
from kernelblaster.records.signature import Dtype

TILES = (TensorTile(128, 128), TensorTile(64, 64), TensorTile(128, 64), TensorTile(64, 128))
LEAST = 1 << 22  # multiplications below which packing costs more than it saves


def apply(plan: Plan) -> Iterator[Plan]:
    for tile in TILES:
        changed = plan
        for kernel in plan.kernels:
            product = as_product(kernel, plan)
            if product is None or not worthwhile(plan, kernel, product, tile):
                continue
            found = operand_types(plan, product)
            if len(found) == 1 and not found & {"float32", "float64"}:
                changed = packed(changed, kernel, found.pop(), 1, tile) or changed
        if changed is not plan:
            yield changed


def operand_types(plan: Plan, product: Product) -> set[Dtype]:
    """The floating types of everything that the operands read."""
    both = (product.left.expression, product.right.expression)
    return {plan.buffers[load.buffer].dtype for side in both for load in loads(side) if load.kind == "real"}


def worthwhile(plan: Plan, kernel: Kernel, product: Product, tile: TensorTile) -> bool:
    """Whether a product is not on tensor cores yet, and at least half of the first tile is used."""
    rows, columns = (plan.elements(axes) for axes in (product.rows, product.columns))
    depth = plan.extent(product.inner.extent)
    if kernel.schedule.tile is not None and isinstance(kernel.schedule.tile, TensorTile):
        return False
    enough = rows * 2 >= tile.block_m and columns * 2 >= tile.block_n
    return enough and rows * columns * depth * plan.elements(product.batch) >= LEAST
