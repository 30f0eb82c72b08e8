"""Tensor cores: a product of half-precision operands by matrix instructions, with sums in float."""

from collections.abc import Callable, Iterator

from kernelblaster.policies.expert.expression import loads
from kernelblaster.policies.expert.packing import packed
from kernelblaster.policies.expert.plan import Kernel, Plan, TensorTile
from kernelblaster.policies.expert.product import Product, as_product
from kernelblaster.records.signature import Dtype

TILES = (TensorTile(128, 128), TensorTile(64, 64), TensorTile(128, 64), TensorTile(64, 128))
LEAST = 1 << 22  # multiplications below which packing costs more than it saves
Packing = Callable[[set[Dtype]], tuple[Dtype, int] | None]


def apply(plan: Plan) -> Iterator[Plan]:
    return on_tensor_cores(plan, _as_they_are)


def on_tensor_cores(plan: Plan, packing: Packing) -> Iterator[Plan]:
    """For each tile, the plan with all products on tensor cores whose operands can be packed: `packing`
    says of their types in which one, and as how many terms."""
    for tile in TILES:
        changed = plan
        for kernel in plan.kernels:
            product = as_product(kernel, plan)
            if product is None or not _worthwhile(plan, kernel, product, tile):
                continue
            form = packing(_operand_types(plan, product))
            if form is not None:
                changed = packed(changed, kernel, *form, tile) or changed
        if changed is not plan:
            yield changed


def _as_they_are(found: set[Dtype]) -> tuple[Dtype, int] | None:
    one_half = len(found) == 1 and not found & {"float32", "float64"}
    return (next(iter(found)), 1) if one_half else None


def _operand_types(plan: Plan, product: Product) -> set[Dtype]:
    """The floating types of everything that the operands read."""
    both = (product.left.expression, product.right.expression)
    return {plan.buffers[load.buffer].dtype for side in both for load in loads(side) if load.kind == "real"}


def _worthwhile(plan: Plan, kernel: Kernel, product: Product, tile: TensorTile) -> bool:
    """Whether a product is not on tensor cores yet, and at least half of the first tile is used."""
    if isinstance(kernel.schedule.tile, TensorTile):
        return False
    rows, columns = (plan.elements(axes) for axes in (product.rows, product.columns))
    depth = plan.extent(product.inner.extent)
    enough = rows * 2 >= tile.block_m and columns * 2 >= tile.block_n
    return enough and rows * columns * depth * plan.elements(product.batch) >= LEAST
