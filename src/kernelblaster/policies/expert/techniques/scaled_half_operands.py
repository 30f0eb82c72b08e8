"""Scaled half operands: a convolution on tensor cores whose operands are rounded to half precision after
exact scaling, which keeps as many bits as TF32, is multiplied twice as fast, and takes half as much shared
memory.

The filters of each channel are divided by a power of two when they are packed. A thread gathers the elements
of one column (the windows of one result), and divides them by a power of two of its own. As with
`tf32_operands`, results are as precise as PyTorch's own on a GPU, which rounds to TF32 there."""

from dataclasses import replace

from kernelblaster.devices.occupancy import limits_of
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.combines.arithmetic import MAX
from kernelblaster.policies.expert.contraction import Contraction, as_contraction, number
from kernelblaster.policies.expert.expression import Load, Operation, Reduced, move
from kernelblaster.policies.expert.kernel import Kernel, Stage, Store
from kernelblaster.policies.expert.plan import Buffer, Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.gathered import GatheredHalves, GatheredProduct
from kernelblaster.policies.expert.schedules.rows import BlockPerRow

APPLIES_TO = (GatheredProduct,)
LEAST_DEPTH = 16  # terms of one matrix instruction
MOST_DEPTH = 64  # terms of a tile, each in a register of the thread that gathers it
FEW = 96  # results of a thread, beside which there is room for so many
PAIR = indices.number(2)


def _halved(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> Plan | No:
    own, found = kernel.schedule, as_contraction(kernel, plan)
    assert isinstance(own, GatheredProduct) and found is not None and isinstance(found.left, Load)
    if own.threads != own.block_n:
        return No("its blocks have not a thread for each column")
    tile = GatheredHalves(own.block_m, own.block_n, _depth(own, found, plan), own.warps_m, own.warps_n)
    limits = limits_of(gpu.architecture)
    if tile.shared_bytes() > limits.shared_bytes - limits.reserved_shared_bytes:
        return No("shared memory has no room for two of its tiles")
    return _packed(plan, kernel, found, found.left, tile)


def _depth(own: GatheredProduct, found: Contraction, plan: Plan) -> int:
    """How many terms a tile has. Where the inner K axes are several, but short, it has all of their terms, if
    the results of a thread leave registers for these: what is asked about each term is then known when the
    kernel is compiled."""
    whole = -(-plan.elements(found.inner) // LEAST_DEPTH) * LEAST_DEPTH
    results = own.block_m * own.block_n // own.threads
    if len(found.inner) > 1 and whole <= MOST_DEPTH and results <= FEW:
        return whole
    return max(own.block_k, LEAST_DEPTH)


def _packed(plan: Plan, kernel: Kernel, found: Contraction, left: Load, tile: GatheredHalves) -> Plan:
    """The plan in which `kernel` reads filters that were packed as halves, and multiplies its results by the
    powers of two by which these were divided."""
    pack = next(other for other in plan.kernels if left.buffer in other.writes)
    *outer, k, row = pack.axes
    value = pack.stores[0].value
    batch = tuple(axis for axis in outer if axis in found.batch)
    steps = f"{left.buffer}_step"
    step_axes = (*batch, row)
    measured = Kernel(
        f"{steps}_kernel",
        step_axes,
        (_store(steps, step_axes, Operation("scale_for", (Reduced("largest", "real"),), "real")),),
        (
            Stage(
                "largest", MAX, Operation("abs", (value,), "real"), (*(a for a in outer if a not in batch), k)
            ),
        ),
        BlockPerRow(),
    )
    pair = Axis("pair", indices.divide(indices.round_up(k.extent, tile.block_k), PAIR))
    half = Axis("half", PAIR)
    whole = {k.name: indices.add(indices.multiply(pair.index, PAIR), half.index)}
    step = Load(steps, tuple(axis.index for axis in step_axes), "real")
    axes = (*outer, pair, row, half)
    scaled = Operation("div", (move(value, whole), step), "real")
    packed = replace(pack, axes=axes, stores=(_store(left.buffer, axes, scaled),))
    buffers = {
        left.buffer: Buffer(left.buffer, tuple(axis.extent for axis in axes), "float16", scratch=True),
        steps: Buffer(steps, tuple(axis.extent for axis in step_axes), "float32", scratch=True),
    }
    *lead, _, _ = left.position
    inner, rows = number(found.inner), number(found.rows)
    position = (*lead, indices.divide(inner, PAIR), rows, indices.remainder(inner, PAIR))
    own_step = Load(steps, (*(axis.index for axis in batch), rows), "real")
    operand = Operation("mul", (Load(left.buffer, position, "real"), own_step), "real")
    stage = replace(kernel.stages[0], body=Operation("mul", (operand, found.right), "real"))
    product = replace(kernel, stages=(stage,), schedule=tile)
    new = {pack.name: (measured, packed), kernel.name: (product,)}
    kernels = tuple(k for old in plan.kernels for k in new.get(old.name, (old,)))
    return replace(plan, buffers={**plan.buffers, **buffers}).with_kernels(kernels)


def _store(buffer: str, axes: tuple[Axis, ...], value: Operation) -> Store:
    return Store(buffer, tuple(axis.index for axis in axes), value)


PLAN_REWRITES = (_halved,)
