"""Double buffering: a tiled matrix product loads the next tiles while it multiplies the current ones.

The next tiles are loaded into registers and then stored to a second buffer in shared memory, so that each
tile needs one barrier instead of two.
"""

from dataclasses import replace

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.product import Product
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.products import TiledProduct
from kernelblaster.policies.expert.schedules.schedule import STATIC_SHARED_BYTES
from kernelblaster.policies.expert.tiling import retiled

APPLIES_TO = (TiledProduct,)
SINGLY = False


def _buffered(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> Kernel | No:
    element_bytes = 8 if plan.real == "double" else 4

    def choose(product: Product, old: TiledProduct | None) -> TiledProduct | No:
        assert old is not None
        if old.stages > 1:
            return No("it has several buffers already")
        tile = replace(old, stages=2)
        fits = tile.shared_bytes(element_bytes) <= STATIC_SHARED_BYTES
        return tile if fits else No("shared memory has no room for a second buffer")

    return retiled(kernel, plan, choose)


REWRITES = (_buffered,)
