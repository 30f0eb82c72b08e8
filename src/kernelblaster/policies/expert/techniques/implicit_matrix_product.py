"""Implicit matrix product: a convolution on tensor cores, as a matrix product. The second operand, the
windows of the input, is gathered into shared memory instead of being written to memory as a matrix before.

A separate kernel, launched first, packs the filters in the order in which they are used, padded with zeros.
Each float32 element is the sum of two TF32 numbers, so that results are as precise as in float32; the
technique `tf32_operands` leaves out the second number."""

from dataclasses import replace
from functools import partial

from kernelblaster.devices.occupancy import limits_of
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.contraction import Contraction, as_contraction, extent, number
from kernelblaster.policies.expert.divided_axis import divided, divisor
from kernelblaster.policies.expert.expression import (
    Counted,
    Expression,
    Load,
    Operation,
    address,
    loads,
    move,
    operation,
    real,
    used_names,
)
from kernelblaster.policies.expert.gathered_element import gathered_element
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel, Store
from kernelblaster.policies.expert.plan import Buffer, Plan
from kernelblaster.policies.expert.proofs import alignment
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.gathered import GatheredProduct
from kernelblaster.policies.expert.schedules.products import ThreadPerResult

APPLIES_TO = (ThreadPerResult,)
LEAST = 1 << 22  # multiplications below which packing costs more than it saves
# block_m, block_n, warps_m, warps_n: wide tiles first
SHAPES = (
    (128, 256, 2, 4),
    (96, 256, 1, 8),
    (96, 128, 1, 4),
    (64, 256, 1, 8),
    (128, 128, 2, 2),
    (32, 256, 1, 8),
    (64, 128, 1, 4),
    (32, 128, 1, 4),
)
TERMS = 2
RANKS = 4  # tiles that are offered
SPARE_BYTES = 4 << 10


def _implicit(kernel: Kernel, plan: Plan, gpu: GpuSpec, rank: int) -> Plan | No:
    divided_kernel = _with_shared_axes(kernel, plan)
    found = as_contraction(divided_kernel, plan)
    if found is None:
        return No("it is no sum of products of two factors with axes of their own")
    if len(found.k_axes) < 2 and not _spread_columns(found, plan):
        return No("it has one K axis, and is a matrix product as it is")
    refusal = _refusal(found, plan)
    if refusal is not None:
        return No(refusal)
    schedules = _ranked(found, plan, gpu)
    if not schedules:
        return No("its results fill less than half of a tile")
    if rank >= len(schedules):
        return No("no further tile fits it")
    return packed(plan.with_kernel(kernel, divided_kernel), divided_kernel, found, schedules[rank])


def _with_shared_axes(kernel: Kernel, plan: Plan) -> Kernel:
    """The kernel with those axes split in two that index both factors of its product, such as channels in a
    grouped convolution, or rows of a transposed convolution with stride: the groups (or phases) become an
    axis of their own, over which the matrix products are independent. Unchanged if there are none."""
    body = kernel.stages[0].body if len(kernel.stages) == 1 else None
    if not isinstance(body, Operation) or len(body.operands) != 2:
        return kernel
    here, there = (used_names([operand], []) for operand in body.operands)
    for axis in kernel.axes:
        by = divisor(kernel, axis, plan) if axis.name in here & there else None
        kernel = kernel if by is None else divided(kernel, axis, by)
    return kernel


def _spread_columns(found: Contraction, plan: Plan) -> bool:
    """Whether the columns are runs of memory along the last of several axes, as the pixels of several images
    are, so that neighbouring lanes gather neighbours."""
    element = gathered_element(found.right)
    if element is None or len(found.columns) < 2:
        return False
    place = address(element.load, plan.buffers[element.load.buffer].shape)
    return alignment(place, found.columns[-1].name, plan.sizes[0]) is not None


def _refusal(found: Contraction, plan: Plan) -> str | None:
    element = gathered_element(found.right)
    if element is None:
        return "its operand is computed on the way, and only elements as they are can be gathered"
    types = {plan.buffers[load.buffer].dtype for side in (found.left, found.right) for load in loads(side)}
    if types != {"float32"}:
        return "its operands are not float32"
    work = plan.elements(found.batch + found.rows + found.columns) * plan.elements(found.k_axes)
    return "packing its filters would cost more than tensor cores save" if work < LEAST else None


def _ranked(found: Contraction, plan: Plan, gpu: GpuSpec) -> list[GatheredProduct]:
    """Tile shapes that fit the product and shared memory, the fastest first by an estimate: rounds of blocks
    over the SMs times the work and the shared-memory traffic of a tile. Empty if the results fill less than
    half of every tile."""
    rows, columns, batch = (plan.elements(axes) for axes in (found.rows, found.columns, found.batch))
    inner = plan.elements(found.inner)
    block_k = min((8, 16, 32), key=lambda k: (-(-inner // k) * k, -k))
    room = limits_of(gpu.architecture).shared_bytes - SPARE_BYTES

    def schedule(shape: tuple[int, int, int, int]) -> GatheredProduct:
        deep = GatheredProduct(shape[0], shape[1], block_k, shape[2], shape[3], 4, TERMS)
        while deep.shared_bytes() > room // 2 and deep.stages > 2:
            deep = replace(deep, stages=deep.stages - 1)
        return deep

    def cost(tile: GatheredProduct) -> float:
        blocks = batch * -(-rows // tile.block_m) * -(-columns // tile.block_n)
        rounds = -(-blocks // gpu.multiprocessors)
        traffic = 1 / tile.block_m + 1 / tile.block_n  # of shared memory, for each product
        alone = 1 + tile.threads / 512  # of larger blocks fewer share an SM, and wait for memory in turn
        return rounds * tile.block_m * tile.block_n * (1 + 32 * traffic) * alone

    fitting = [schedule(shape) for shape in SHAPES]
    fitting = [tile for tile in fitting if rows * 2 >= tile.block_m and columns * 2 >= tile.block_n]
    fitting = [tile for tile in fitting if tile.shared_bytes() <= room]
    return sorted(fitting, key=cost)


def packed(plan: Plan, kernel: Kernel, found: Contraction, schedule: GatheredProduct) -> Plan:
    """Returns the plan with `kernel` replaced by two kernels: one that packs the filters into a scratch
    buffer, padded with zeros to whole tiles, and the product with this `schedule`, which reads them from
    there. `found` says which axes of the kernel are rows, columns and K."""
    stem = kernel.name.removesuffix("_kernel")
    name = f"{stem}_filters"
    k, row = (
        Axis("k", indices.round_up(extent(found.inner), schedule.block_k)),
        Axis("row", indices.round_up(extent(found.rows), schedule.block_m)),
    )
    outer = (*found.batch, *found.outer)
    place_of = digits(found.inner, k.index) | digits(found.rows, row.index)
    inside = operation(
        "and",
        below(k.index, extent(found.inner)),
        below(row.index, extent(found.rows)),
        kind="truth",
    )
    value = Operation("where", (inside, move(found.left, place_of), real(0)), "real")
    axes = (*outer, k, row)
    store = Store(name, tuple(axis.index for axis in axes), value)
    pack = Kernel(f"{stem}_filters_kernel", axes, (store,))
    buffer = Buffer(name, tuple(axis.extent for axis in axes), "float32", scratch=True)
    place = (*(axis.index for axis in outer), number(found.inner), number(found.rows))
    body = Operation("mul", (Load(name, place, "real"), found.right), "real")
    stage = replace(kernel.stages[0], body=body, axes=found.k_axes)
    product = replace(kernel, stages=(stage,), schedule=schedule)
    kernels = [new for old in plan.kernels for new in ((pack, product) if old is kernel else (old,))]
    return replace(plan, buffers={**plan.buffers, name: buffer}).with_kernels(tuple(kernels))


def digits(axes: tuple[Axis, ...], linear: Index) -> dict[str, Index]:
    """Returns the index of each axis, by its name, computed from `linear`, the row-major linear index over
    all `axes` (the last axis varies fastest)."""
    found: dict[str, Index] = {}
    for axis in reversed(axes[1:]):
        found[axis.name] = indices.remainder(linear, axis.extent)
        linear = indices.divide(linear, axis.extent)
    return found | {axes[0].name: linear}


def below(index: Index, end: Index) -> Expression:
    return Operation("lt", (Counted(index), Counted(end)), "truth")


PLAN_REWRITES = tuple(partial(_implicit, rank=rank) for rank in range(RANKS))
