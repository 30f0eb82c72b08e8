"""Tensor cores on split operands: a float32 product as three half-precision products, as precise as in
float32.

Each element is the sum of two half-precision numbers, a high and a low part, scaled by powers of two. A
product of two elements is the sum of four products of parts; that of the two low parts is left out
(packing.py, emission/mma_product.py).
"""

from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.products import ThreadPerResult, TiledProduct
from kernelblaster.policies.expert.techniques.tensor_core_utilization import on_tensor_cores
from kernelblaster.records.signature import Dtype

APPLIES_TO = (ThreadPerResult, TiledProduct)


def _split(found: set[Dtype]) -> tuple[Dtype, int] | No:
    single = "float32" in found and "float64" not in found
    return ("float16", 2) if single else No("its operands are not float32")


PLAN_REWRITES = on_tensor_cores(_split)
