"""Shared-memory tiling: the threads of a block load tiles of both operands of a matrix product into shared
memory.

Each element is then read from global memory once per block instead of once per thread; each thread computes
one result."""

from functools import partial

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.products import ThreadPerResult, TiledProduct
from kernelblaster.policies.expert.tiling import retiled

APPLIES_TO = (ThreadPerResult,)
SINGLY = False
TILES = (TiledProduct(32, 32, 32), TiledProduct(16, 16, 16), TiledProduct(16, 32, 32))


def _tiled(kernel: Kernel, plan: Plan, gpu: GpuSpec, tile: TiledProduct) -> Kernel | No:
    return retiled(kernel, plan, lambda product, old: tile)


REWRITES = tuple(partial(_tiled, tile=tile) for tile in TILES)
