"""Split-K: in a matrix product with few results and long sums, several blocks share each sum.

The K (summed) axis is cut into pieces. The product writes a partial sum for each piece to scratch memory; a
second kernel adds these and does what follows the product. The number of pieces is fixed when the kernel is
written; their length follows from the sizes at run time.
"""

from dataclasses import replace
from functools import partial
from typing import get_args

from kernelblaster.devices.occupancy import limits_of
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis, Part
from kernelblaster.policies.expert.combines.arithmetic import SUM
from kernelblaster.policies.expert.expression import Load, Reduced
from kernelblaster.policies.expert.kernel import Kernel, Stage, Store
from kernelblaster.policies.expert.plan import Buffer, Plan
from kernelblaster.policies.expert.product import as_product
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.columns import ThreadPerColumn
from kernelblaster.policies.expert.schedules.products import Product, ThreadPerResult, TiledProduct
from kernelblaster.policies.expert.schedules.schedule import Schedule
from kernelblaster.policies.expert.tiling import LONG, terms
from kernelblaster.records.signature import Dtype

APPLIES_TO = get_args(Product)
GRAIN = 256  # pieces are multiples of this many terms, so that tiles of all kinds are full
LEAST = 2 * GRAIN  # terms of a piece
FILLS = (2, 4, 1)  # blocks for each SM after the split
AXIS = "piece"


def _split(kernel: Kernel, plan: Plan, gpu: GpuSpec, fill: int) -> Plan | No:
    if len(kernel.reduced) != 1 or len(kernel.stages) != 1:
        return No("it has not one sum over one K axis")
    if kernel.reduced[0].part is not None:
        return No("its K axis is cut already")
    if any(store.over for store in kernel.stores):
        return No("it stores something for each term of its sums")
    present = _blocks(kernel, plan, gpu)
    if present >= gpu.multiprocessors:
        return No("its blocks fill the GPU")
    pieces = min(fill * gpu.multiprocessors // present, terms(kernel.reduced[0], plan) // LEAST)
    return split_sums(plan, kernel, pieces) if pieces > 1 else No("its sums are too short to be cut")


def _blocks(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> int:
    """The number of blocks that the matrix product launches at the primary workload (the one that is timed);
    for a layout with one thread per result, the number of SMs that its threads fill, rounded up."""
    product, tile = as_product(kernel, plan), kernel.schedule
    assert isinstance(tile, Product)
    if product is not None and not isinstance(tile, ThreadPerResult):
        return plan.extent(product.blocks(tile.block_m, tile.block_n))
    return -(-plan.elements(kernel.axes) // limits_of(gpu.architecture).threads)


def split_sums(plan: Plan, kernel: Kernel, pieces: int) -> Plan:
    """Returns the plan with the matrix product `kernel` replaced by two kernels: one that computes each sum
    as `pieces` partial sums, and one that adds these and stores what `kernel` stored."""
    inner, stage = kernel.reduced[0], kernel.stages[0]
    length = indices.round_up(indices.tiles(inner.extent, pieces), GRAIN)
    count = Axis(AXIS, indices.number(pieces))
    sums = f"{kernel.name.removesuffix('_kernel')}_pieces"
    position = (count.index, *(axis.index for axis in kernel.axes))
    cut = replace(
        kernel,
        axes=(count, *kernel.axes),
        stores=(Store(sums, position, Reduced(stage.name, "real")),),
        schedule=_shorter(kernel.schedule, plan.extent(length)),
    ).with_loops({inner.name: (replace(inner, part=Part(AXIS, length)),)})
    total = Kernel(
        f"{kernel.name.removesuffix('_kernel')}_total_kernel",
        kernel.axes,
        kernel.stores,
        (Stage(stage.name, SUM, Load(sums, position, "real"), (count,)),),
        ThreadPerColumn(),
    )
    shape = (count.extent, *(axis.extent for axis in kernel.axes))
    dtype: Dtype = "float64" if plan.real == "double" else "float32"
    scratch = Buffer(sums, shape, dtype, scratch=True)
    kernels = [k for old in plan.kernels for k in ((cut, total) if old is kernel else (old,))]
    return replace(plan, buffers={**plan.buffers, sums: scratch}).with_kernels(tuple(kernels))


def _shorter(schedule: Schedule, length: int) -> Schedule:
    """The layout `schedule` without what it does for the precision of long sums (intermediate totals, sums in
    double) if sums of `length` terms are short enough; else unchanged."""
    if length <= LONG and isinstance(schedule, TiledProduct):
        return replace(schedule, flush=None)
    if length <= LONG and isinstance(schedule, ThreadPerResult):
        return replace(schedule, accumulate="float")
    return schedule


PLAN_REWRITES = tuple(partial(_split, fill=fill) for fill in FILLS)
