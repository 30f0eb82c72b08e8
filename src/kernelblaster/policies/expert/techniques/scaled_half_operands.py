"""Scaled half operands: a convolution on tensor cores whose operands are rounded to half precision after
exact scaling. That keeps as many bits as TF32, multiplies twice as fast, and takes half as much shared
memory.

The filters of each output channel are divided by a power of two when they are packed. A thread gathers the
elements of one column (the window of one result) and divides them by a power of two of that column. As with
the technique `tf32_operands`, results are as precise as those of PyTorch on a GPU, which rounds to TF32
there.
"""

from dataclasses import replace

from kernelblaster.devices.occupancy import limits_of
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.combines.arithmetic import MAX
from kernelblaster.policies.expert.contraction import SHORTEST, Contraction, as_contraction, extent, number
from kernelblaster.policies.expert.expression import Load, Operation, Reduced, move, real
from kernelblaster.policies.expert.kernel import Kernel, Stage, Store
from kernelblaster.policies.expert.plan import Buffer, Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.gathered import GatheredHalves, GatheredProduct
from kernelblaster.policies.expert.schedules.rows import BlockPerRow
from kernelblaster.policies.expert.techniques.implicit_matrix_product import below, digits

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
    terms, depth = _inner(own, found, plan)
    tile = GatheredHalves(own.block_m, own.block_n, depth, own.warps_m, own.warps_n, terms)
    limits = limits_of(gpu.architecture)
    if tile.shared_bytes() > limits.shared_bytes - limits.reserved_shared_bytes:
        return No("shared memory has no room for two of its tiles")
    return _packed(plan, kernel, found, found.left, tile)


def _inner(own: GatheredProduct, found: Contraction, plan: Plan) -> tuple[int, int]:
    """Returns (how many terms the inner K axes must have together at least, how many terms a tile has). If
    the axes are short and the results of a thread leave enough registers, a tile has all of their terms, a
    further axis included where that fits: which element a term reads is then known when the kernel is
    compiled."""
    terms = plan.elements(found.inner)
    wider = plan.elements((*found.outer[-1:], *found.inner))
    few = own.block_m * own.block_n <= FEW * own.threads
    if few and found.outer and wider <= MOST_DEPTH:
        return terms + 1, _rounded(wider)
    if few and len(found.inner) > 1 and terms <= MOST_DEPTH:
        return SHORTEST, _rounded(terms)
    return SHORTEST, max(own.block_k, LEAST_DEPTH)


def _rounded(terms: int) -> int:
    return -(-terms // LEAST_DEPTH) * LEAST_DEPTH


def _packed(plan: Plan, kernel: Kernel, found: Contraction, left: Load, tile: GatheredHalves) -> Plan:
    """The plan in which `kernel` reads filters that were packed as halves, and multiplies its results by the
    powers of two by which these were divided."""
    pack = next(other for other in plan.kernels if left.buffer in other.writes)
    *outer, k, row = pack.axes
    value = pack.stores[0].value
    batch = tuple(axis for axis in outer if axis in found.batch)
    steps = f"{left.buffer}_step"
    line = Axis("filter", row.extent)  # kernels of rows have a variable `row` of their own
    step_axes = (*batch, line)
    largest = Operation("abs", (move(value, {row.name: line.index}),), "real")
    measured = Kernel(
        f"{steps}_kernel",
        step_axes,
        (_store(steps, step_axes, Operation("scale_for", (Reduced("largest", "real"),), "real")),),
        (Stage("largest", MAX, largest, (*(a for a in outer if a not in batch), k)),),
        BlockPerRow(),
    )
    product = replace(kernel, schedule=tile)
    new = as_contraction(product, plan)
    assert new is not None
    pair = Axis("pair", indices.divide(indices.round_up(extent(new.inner), tile.block_k), PAIR))
    half = Axis("half", PAIR)
    term = indices.add(indices.multiply(pair.index, PAIR), half.index)
    further = new.inner[: len(new.inner) - len(found.inner)]
    whole = digits((*further, replace(k, extent=extent(found.inner))), term)
    value = Operation("where", (below(term, extent(new.inner)), move(value, whole), real(0)), "real")
    step = Load(steps, tuple(axis.index for axis in (*batch, row)), "real")
    axes = (*(axis for axis in outer if axis not in further), pair, row, half)
    scaled = Operation("div", (value, step), "real")
    packed = replace(pack, axes=axes, stores=(_store(left.buffer, axes, scaled),))
    buffers = {
        left.buffer: Buffer(left.buffer, tuple(axis.extent for axis in axes), "float16", scratch=True),
        steps: Buffer(steps, tuple(axis.extent for axis in step_axes), "float32", scratch=True),
    }
    lead = (axis.index for axis in (*batch, *new.outer))
    inner, rows = number(new.inner), number(found.rows)
    position = (*lead, indices.divide(inner, PAIR), rows, indices.remainder(inner, PAIR))
    own_step = Load(steps, (*(axis.index for axis in batch), rows), "real")
    operand = Operation("mul", (Load(left.buffer, position, "real"), own_step), "real")
    stage = replace(kernel.stages[0], body=Operation("mul", (operand, found.right), "real"))
    changed = {pack.name: (measured, packed), kernel.name: (replace(product, stages=(stage,)),)}
    kernels = tuple(k for old in plan.kernels for k in changed.get(old.name, (old,)))
    return replace(plan, buffers={**plan.buffers, **buffers}).with_kernels(kernels)


def _store(buffer: str, axes: tuple[Axis, ...], value: Operation) -> Store:
    return Store(buffer, tuple(axis.index for axis in axes), value)


PLAN_REWRITES = (_halved,)
