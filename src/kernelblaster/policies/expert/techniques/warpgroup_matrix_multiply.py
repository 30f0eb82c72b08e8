"""Warpgroup matrix instructions (wgmma): the four warps of a warpgroup multiply tiles of both operands
together, directly from shared memory, while other warps load the next tiles. Only for GPUs of architecture
sm_90a."""

from dataclasses import replace
from functools import partial

from kernelblaster.devices.occupancy import limits_of
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.products import MmaProduct, WgmmaProduct

APPLIES_TO = (MmaProduct,)
ARCHITECTURE = "sm_90a"
GPU_ONLY = True
SINGLY = False
BLOCK_M, BLOCKS_N = 128, (128, 64)
MOST_STAGES = 8
SPARE_BYTES = 20 << 10  # of an SM's shared memory, which the stages leave free


def _by_warpgroups(kernel: Kernel, plan: Plan, gpu: GpuSpec, block_n: int) -> Kernel | No:
    assert isinstance(kernel.schedule, MmaProduct)
    if kernel.schedule.block_n < block_n:
        return No("its tiles are narrower than those of a warpgroup")
    terms = plan.buffers[kernel.reads[0]].terms
    room = limits_of(gpu.architecture).shared_bytes - SPARE_BYTES
    stages = min(MOST_STAGES, room // WgmmaProduct(BLOCK_M, block_n, 1).shared_bytes(terms))
    return replace(kernel, schedule=WgmmaProduct(BLOCK_M, block_n, stages, kernel.schedule.raster))


REWRITES = tuple(partial(_by_warpgroups, block_n=block_n) for block_n in BLOCKS_N)
