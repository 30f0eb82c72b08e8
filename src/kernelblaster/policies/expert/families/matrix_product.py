"""Matrix products: by which kernel depends on how they are tiled."""

from kernelblaster.policies.expert import emit as emitting
from kernelblaster.policies.expert.families import reduction
from kernelblaster.policies.expert.plan import Kernel, Plan

FAMILIES = ("matrix_product",)


def emit(kernel: Kernel, plan: Plan) -> emitting.Emitted:
    return reduction.emit(kernel, plan)
