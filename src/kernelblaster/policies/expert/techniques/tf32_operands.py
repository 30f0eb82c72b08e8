"""TF32 operands: a convolution on tensor cores whose operands are rounded to TF32, as PyTorch rounds its own.

It needs a third of the matrix instructions that operands split in two need (`implicit_matrix_product`). On a
GPU, PyTorch's float32 convolutions round their operands too, so that results are as precise as PyTorch's.
Where PyTorch does not round, the judge rejects the candidate.
"""

from dataclasses import replace

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.gathered import GatheredProduct

APPLIES_TO = (GatheredProduct,)
GPU_ONLY = True  # on the emulated device the baseline is the host's, which does not round


def _rounded(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> Kernel | No:
    schedule = kernel.schedule
    assert isinstance(schedule, GatheredProduct)
    if schedule.terms == 1:
        return No("its operands are rounded already")
    return replace(kernel, schedule=replace(schedule, terms=1))


REWRITES = (_rounded,)
