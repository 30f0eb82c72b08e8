"""Two-level reduction: each reduction of a kernel is cut into parts, which different blocks reduce; a small
second kernel combines the results of the parts. It is for kernels with a few long reductions, so few that a
block for each would not fill the GPU. A block has about 4096 elements or more to reduce (SHORTEST).

What the kernel stored for every element is then done by a pointwise kernel of its own. The reductions must
not depend on each other's results; the technique `online_reduction` can remove such dependences before.
"""

from functools import partial
from typing import get_args

from kernelblaster.devices.occupancy import WARP
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.flatten import flattened
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.row_kernel import passes
from kernelblaster.policies.expert.schedules.columns import ColumnReduction, Columns
from kernelblaster.policies.expert.schedules.rows import BlockPerRow, BlockRows, WarpRows
from kernelblaster.policies.expert.splitting import PART, split
from kernelblaster.policies.expert.vector_access import column_access

APPLIES_TO = get_args(BlockPerRow | WarpRows | BlockRows | ColumnReduction)
FILLS = (8, 4, 16)  # blocks for each SM after the split
SHORTEST = 4096  # elements of a part, below which a block has too little to do
GRAIN = 8  # elements: parts of rows are multiples of this, so that vectors of any type are aligned


def _split(kernel: Kernel, plan: Plan, gpu: GpuSpec, fill: int) -> Plan | No:
    if len(passes(kernel)) != 1:
        return No("its stages need each other's results")
    flat = flattened(kernel, plan)
    cut, *rest = flat.reduced
    if any(axis.part is not None for axis in flat.reduced):
        return No("it has parts of a reduction already")
    if cut.name == PART:
        return No("it combines the parts of a reduction")
    across = isinstance(kernel.schedule, ColumnReduction)
    wide = WARP * _width(kernel, plan) if across else 1
    working = -(-plan.elements(flat.axes) // wide)
    blocks = fill * gpu.multiprocessors
    parts = min(blocks // working, plan.elements(flat.reduced) * wide // SHORTEST)
    if parts < 2:
        return No("its blocks fill the GPU, or have too little to do to be divided")
    grain = 1 if across or rest else GRAIN
    extent = plan.extent(cut.extent)
    length = -(-extent // (parts * grain)) * grain
    return (
        split(plan, kernel, flat, length) if length < extent else No("its first axis is too short to be cut")
    )


def _width(kernel: Kernel, plan: Plan) -> int:
    """The number of neighbouring columns that a thread of the column reduction processes, or would process if
    its accesses were vectorized."""
    found = column_access(kernel, plan)
    own = kernel.schedule.vector_width if isinstance(kernel.schedule, Columns) else 1
    return max(own, found.width(plan) if found.reads else 1)


PLAN_REWRITES = tuple(partial(_split, fill=fill) for fill in FILLS)
