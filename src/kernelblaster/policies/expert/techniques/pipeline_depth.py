"""Pipeline depth: changes how many tiles are loaded ahead in the loop over the K axis of a convolution that
was made a matrix product (`implicit_matrix_product`).

More tiles hide more memory latency; fewer leave shared memory for more blocks per SM.
"""

from dataclasses import replace
from functools import partial

from kernelblaster.devices.occupancy import limits_of
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.gathered import GatheredProduct

APPLIES_TO = (GatheredProduct,)
FEWEST = 2  # one tile is in use while another one is fetched
CHANGES = (1, -1, 2)


def _deeper(kernel: Kernel, plan: Plan, gpu: GpuSpec, by: int) -> Kernel | No:
    schedule = kernel.schedule
    assert isinstance(schedule, GatheredProduct)
    changed = replace(schedule, stages=schedule.stages + by)
    if changed.stages < FEWEST:
        return No("it has no tile in flight to spare")
    limits = limits_of(gpu.architecture)
    if changed.shared_bytes() > limits.shared_bytes - limits.reserved_shared_bytes:
        return No("shared memory has no room for a further tile")
    return replace(kernel, schedule=changed)


REWRITES = tuple(partial(_deeper, by=by) for by in CHANGES)
