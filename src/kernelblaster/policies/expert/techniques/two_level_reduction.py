"""Two-level reduction: many blocks reduce parts of a few long reductions, a small kernel their results.

What was stored for every element becomes a pointwise kernel of its own. Stages must not need each
other; `online_reduction` makes them so.
"""

from collections.abc import Iterator

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert.families.columns import columns_of
from kernelblaster.policies.expert.families.reduction import FAMILIES
from kernelblaster.policies.expert.families.row_kernel import passes
from kernelblaster.policies.expert.flatten import flattened
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.splitting import split

BLOCKS = (1056, 528, 2112)  # in all: a few for each processor of a large GPU
SHORTEST = 4096  # elements of a part, below which a block has too little to do
GRAIN = 8  # elements: parts of rows are multiples of this, so that packs of any type are aligned


def apply(plan: Plan) -> Iterator[Plan]:
    for blocks in BLOCKS:
        changed = plan
        for kernel in plan.kernels:
            changed = _split(changed, kernel, blocks) or changed
        if changed is not plan:
            yield changed


def _split(plan: Plan, kernel: Kernel, blocks: int) -> Plan | None:
    if kernel.family not in FAMILIES or len(passes(kernel)) != 1 or kernel.schedule.cluster > 1:
        return None
    flat = flattened(kernel, plan)
    cut, *rest = flat.reduced
    if any(axis.part is not None for axis in flat.reduced):
        return None
    across = flat.family == "column_reduction"
    wide = WARP * _width(kernel, plan) if across else 1
    working = -(-plan.elements(flat.axes) // wide)
    parts = min(blocks // working, plan.elements(flat.reduced) * wide // SHORTEST)
    if parts < 2:
        return None
    grain = 1 if across or rest else GRAIN
    extent = plan.extent(cut.extent)
    length = -(-extent // (parts * grain)) * grain
    return split(plan, kernel, flat, length) if length < extent else None


def _width(kernel: Kernel, plan: Plan) -> int:
    """Neighbouring columns that a thread has, or will have when access is vectorized."""
    found = columns_of(kernel, plan).near
    return max(kernel.schedule.vector_width, found.width(plan) if found.reads else 1)
