"""Tensor cores on split operands: a float32 product as three half-precision ones, at float32's error.

Each operand is a sum of two half-precision numbers, scaled by powers of two; the product of the two
lower ones is left out (packing.py, families/tensor_product.py).
"""

from collections.abc import Iterator

from kernelblaster.policies.expert.packing import packed
from kernelblaster.policies.expert.plan import Kernel, Plan, TensorTile
from kernelblaster.policies.expert.product import as_product
from kernelblaster.policies.expert.techniques.tensor_core_utilization import TILES, operand_types, worthwhile


def apply(plan: Plan) -> Iterator[Plan]:
    for tile in TILES:
        found = [kernel for kernel in plan.kernels if _fits(plan, kernel, tile)]
        changed = plan
        for kernel in found:
            changed = packed(changed, kernel, "float16", 2, tile) or changed
        if found:
            yield changed


def _fits(plan: Plan, kernel: Kernel, tile: TensorTile) -> bool:
    product = as_product(kernel, plan)
    if product is None or not worthwhile(plan, kernel, product, tile):
        return False
    found = operand_types(plan, product)
    return "float32" in found and "float64" not in found
