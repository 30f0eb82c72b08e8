"""Warp-group matrix instructions: four warps multiply together, straight from shared memory, while
others fetch; only for GPUs of architecture sm_90a."""

from collections.abc import Iterator
from dataclasses import replace

from kernelblaster.policies.expert.plan import Plan, TensorTile

ARCHITECTURE = "sm_90a"
GPU_ONLY = True
SHARED = 208 << 10  # bytes of shared memory that the stages may take


def apply(plan: Plan) -> Iterator[Plan]:
    for block_n in (128, 64):
        changed = plan
        for kernel in plan.kernels:
            tile = kernel.schedule.tile
            if isinstance(tile, TensorTile) and tile.engine == "mma" and tile.block_n >= block_n:
                terms = plan.buffers[kernel.reads[0]].terms
                stage = (128 + block_n) * 64 * terms
                by_groups = TensorTile(128, block_n, min(8, SHARED // stage), "wgmma")
                schedule = replace(kernel.schedule, tile=by_groups)
                changed = changed.with_kernel(kernel, replace(kernel, schedule=schedule))
        if changed is not plan:
            yield changed
