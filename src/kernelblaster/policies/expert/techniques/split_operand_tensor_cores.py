"""Tensor cores on split operands: a float32 product as three half-precision ones, at float32's error.

Each operand is a sum of two half-precision numbers, scaled by powers of two; the product of the two
lower ones is left out (packing.py, families/tensor_product.py).
"""

from collections.abc import Iterator

from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.techniques.tensor_core_utilization import on_tensor_cores
from kernelblaster.records.signature import Dtype


def apply(plan: Plan) -> Iterator[Plan]:
    return on_tensor_cores(plan, _split)


def _split(found: set[Dtype]) -> tuple[Dtype, int] | None:
    return ("float16", 2) if "float32" in found and "float64" not in found else None
