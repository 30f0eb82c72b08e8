"""Tensor cores: a product of half-precision operands by matrix instructions (mma), with sums in float.
Kernels before it pack the operands in the order in which these instructions read them."""

from collections.abc import Callable
from functools import partial

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.expression import loads
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.packing import packed
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.product import Product, as_product
from kernelblaster.policies.expert.rewriting import No, PlanRewrite
from kernelblaster.policies.expert.schedules.products import MmaProduct, ThreadPerResult, TiledProduct
from kernelblaster.records.signature import Dtype

APPLIES_TO = (ThreadPerResult, TiledProduct)
TILES = (MmaProduct(128, 128), MmaProduct(64, 64), MmaProduct(128, 64), MmaProduct(64, 128))
LEAST = 1 << 22  # multiplications below which packing costs more than it saves
PackedForm = Callable[[set[Dtype]], tuple[Dtype, int] | No]


def on_tensor_cores(form: PackedForm) -> tuple[PlanRewrite, ...]:
    """Returns one rewrite for each tile shape in TILES, which turns a matrix product into a product of packed
    operands (stored in tiles, each element as one or several numbers of a type that tensor cores multiply).
    `form` decides how to pack: it gets the types of the operands' tensors, and returns (the type to pack in,
    how many numbers of it store each element), or `No` with the reason why the product cannot be packed."""
    return tuple(partial(_packed, form=form, tile=tile) for tile in TILES)


def _packed(kernel: Kernel, plan: Plan, gpu: GpuSpec, form: PackedForm, tile: MmaProduct) -> Plan | No:
    product = as_product(kernel, plan)
    if product is None:
        return No("it is no product of two matrices over one K axis")
    rows, columns = (plan.elements(axes) for axes in (product.rows, product.columns))
    if rows * 2 < tile.block_m or columns * 2 < tile.block_n:
        return No("its results fill less than half of a tile")
    if rows * columns * plan.extent(product.k_axis.extent) * plan.elements(product.batch) < LEAST:
        return No("packing its operands would cost more than tensor cores save")
    chosen = form(_operand_types(plan, product))
    return chosen if isinstance(chosen, No) else packed(plan, kernel, product, *chosen, tile)


def _as_they_are(found: set[Dtype]) -> tuple[Dtype, int] | No:
    one_half = len(found) == 1 and not found & {"float32", "float64"}
    return (next(iter(found)), 1) if one_half else No("its operands are not of one half precision")


def _operand_types(plan: Plan, product: Product) -> set[Dtype]:
    """The types of all floating-point tensors from which the two operands of the matrix product are read or
    computed."""
    both = (product.left.expression, product.right.expression)
    return {plan.buffers[load.buffer].dtype for side in both for load in loads(side) if load.kind == "real"}


PLAN_REWRITES = on_tensor_cores(_as_they_are)
