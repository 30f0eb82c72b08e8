"""Split-K: a matrix product with few results and long sums divides each sum among several blocks.

The product gets an axis that counts pieces of the inner axis and writes a sum for each of them to
scratch memory; a second kernel adds these and does what follows the product. Pieces are as long as the
sizes at run time demand, so that their number is fixed.
"""

from collections.abc import Iterator
from dataclasses import replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.emit import real_type
from kernelblaster.policies.expert.expression import Load, Reduced
from kernelblaster.policies.expert.plan import (
    Axis,
    Buffer,
    Kernel,
    Part,
    Plan,
    Schedule,
    Stage,
    Store,
    Tile,
)
from kernelblaster.policies.expert.product import as_product
from kernelblaster.policies.expert.tiling import LONG, PROCESSORS, launched, terms
from kernelblaster.records.signature import Dtype

GRAIN = 256  # pieces are multiples of this many terms, so that tiles of all kinds are full
LEAST = 2 * GRAIN  # terms of a piece
FILLS = (2, 4, 1)  # blocks for each processor after the split
RESIDENT = 2048  # threads of a processor, which single results need to fill it
AXIS = "piece"


def apply(plan: Plan) -> Iterator[Plan]:
    for fill in FILLS:
        pieces = {kernel.name: _pieces(kernel, plan, fill) for kernel in plan.kernels}
        split = plan
        for kernel in plan.kernels:
            if pieces[kernel.name] > 1:
                split = split_sums(split, kernel, pieces[kernel.name])
        if split is not plan:
            yield split


def _pieces(kernel: Kernel, plan: Plan, fill: int) -> int:
    """Into how many pieces a sum should be cut; one where it should not."""
    if kernel.family != "matrix_product" or kernel.schedule.workers != "thread":
        return 1
    if len(kernel.reduced) != 1 or kernel.reduced[0].part is not None or len(kernel.stages) != 1:
        return 1
    if any(store.each for store in kernel.stores):
        return 1
    present = _blocks(kernel, plan)
    if present >= PROCESSORS:
        return 1
    return min(fill * PROCESSORS // present, terms(kernel.reduced[0], plan) // LEAST)


def _blocks(kernel: Kernel, plan: Plan) -> int:
    """What goes to processors one by one: blocks, or as many single results as fill one."""
    product, tile = as_product(kernel, plan), kernel.schedule.tile
    if product is not None and tile is not None:
        return launched(product, tile, plan)
    return -(-plan.elements(kernel.axes) // RESIDENT)


def split_sums(plan: Plan, kernel: Kernel, pieces: int) -> Plan:
    """The plan with a product's sums cut into so many pieces."""
    inner, stage = kernel.reduced[0], kernel.stages[0]
    length = indices.round_up(indices.tiles(inner.extent, pieces), GRAIN)
    count = Axis(AXIS, indices.number(pieces))
    sums = f"{kernel.name.removesuffix('_kernel')}_pieces"
    position = (count.index, *(axis.index for axis in kernel.axes))
    cut = replace(
        kernel,
        axes=(count, *kernel.axes),
        reduced=(replace(inner, part=Part(AXIS, length)),),
        stores=(Store(sums, position, Reduced(stage.name, "real")),),
        schedule=_shorter(kernel.schedule, plan.extent(length)),
    )
    total = Kernel(
        f"{kernel.name.removesuffix('_kernel')}_total_kernel",
        "column_reduction",
        kernel.axes,
        kernel.stores,
        (count,),
        (Stage(stage.name, "sum", Load(sums, position, "real")),),
    )
    shape = (count.extent, *(axis.extent for axis in kernel.axes))
    dtype: Dtype = "float64" if real_type(plan) == "double" else "float32"
    scratch = Buffer(sums, shape, dtype, scratch=True)
    kernels = [k for old in plan.kernels for k in ((cut, total) if old is kernel else (old,))]
    return replace(plan, buffers={**plan.buffers, sums: scratch}).with_kernels(tuple(kernels))


def _shorter(schedule: Schedule, length: int) -> Schedule:
    """Shorter sums need less care."""
    if length > LONG:
        return schedule
    tile = schedule.tile
    if isinstance(tile, Tile):
        tile = replace(tile, flush=None)
    return replace(schedule, tile=tile, accumulate="float")
