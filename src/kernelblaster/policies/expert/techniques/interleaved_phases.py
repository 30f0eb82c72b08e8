"""Interleaved phases: a transposed convolution with a stride on tensor cores, in which a block computes all
results that read the same elements of the operand.

With stride s, every s-th result along a dimension is computed with the same elements of the filters; these
sets of results are the phases. If each phase were a convolution of its own, each would gather the operand
again, and write single elements that lie s apart. Here phases are further rows of one matrix product, whose
results are written as whole lines. Operands are rounded to half precision after exact scaling, which is as
precise as TF32. The filters of each output channel are divided by a power of two when they are packed. The
operand is divided by a power of two for each line (along the last dimension) that a block reads; it is
increased when an element would overflow.
"""

from dataclasses import replace
from functools import partial

from kernelblaster.devices.occupancy import limits_of
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.combines.arithmetic import MAX
from kernelblaster.policies.expert.contraction import extent, number
from kernelblaster.policies.expert.expression import Load, Operation, Reduced, loads, move, operation, real
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel, Stage, Store
from kernelblaster.policies.expert.phases import Phases, as_phases
from kernelblaster.policies.expert.plan import Buffer, Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.phases import (
    FRAGMENT_ROWS,
    FRAGMENT_TERMS,
    LINE_PADDING,
    InterleavedPhases,
)
from kernelblaster.policies.expert.schedules.products import ThreadPerResult
from kernelblaster.policies.expert.schedules.rows import BlockPerRow
from kernelblaster.policies.expert.techniques.implicit_matrix_product import LEAST, below, digits

APPLIES_TO = (ThreadPerResult,)
RANKS = 4  # tiles that are offered
MOST_SUMS = 128  # of a thread, beside which registers are left for what it gathers
MOST_PHASES = 32  # each a bit of a word
# fragments of channels and of cells that a warp has for each phase, warps_m, warps_n
SHAPES = tuple(
    (m, n, warps_m, warps_n)
    for m in (8, 4, 3, 2, 1)
    for n in (4, 2)
    for warps_m, warps_n in ((1, 4), (1, 8), (2, 4), (2, 2))
)


def _interleaved(kernel: Kernel, plan: Plan, gpu: GpuSpec, rank: int) -> Plan | No:
    found = as_phases(kernel, plan)
    if isinstance(found, str):
        return No(found)
    refusal = _refusal(found, plan)
    if refusal is not None:
        return No(refusal)
    tiles = _ranked(found, plan, gpu)
    if rank >= len(tiles):
        return No("no further tile fits it" if tiles else "shared memory has no room for two of its tiles")
    return _packed(plan, kernel, found, tiles[rank])


def _refusal(found: Phases, plan: Plan) -> str | None:
    read = [found.source, *loads(found.filters)]
    if {plan.buffers[load.buffer].dtype for load in read} != {"float32"}:
        return "its operands are not float32"
    if not found.live or len(found.live) > MOST_PHASES:
        return "it has too many phases"
    if found.last.reach > LINE_PADDING:
        return "its windows reach too far back along memory"
    cells = [dimension.cells for dimension in found.dimensions]
    columns = plan.elements(found.images) * plan.extent(indices.product(cells))
    work = columns * plan.elements((*found.rows, found.channel)) * len(found.taken)
    return "packing its filters would cost more than tensor cores save" if work < LEAST else None


def _ranked(found: Phases, plan: Plan, gpu: GpuSpec) -> list[InterleavedPhases]:
    """Tiles that fit registers and shared memory, the fastest first by an estimate."""
    live, last = len(found.live), found.last
    rows, channels = plan.elements(found.rows), plan.extent(found.channel.extent)
    cells = plan.elements(found.images)
    for dimension in found.dimensions:
        further = last.reach if dimension is last else 0
        cells *= plan.extent(dimension.cells) + further
    block_k = FRAGMENT_TERMS if channels % 32 in range(1, 17) else 32
    limits = limits_of(gpu.architecture)
    room = limits.shared_bytes - limits.reserved_shared_bytes

    def cost(tile: InterleavedPhases) -> float:
        """Cycles of an SM for all columns: matrix instructions, lines of shared memory that fragments are
        read from, and instructions of threads that gather, for each term and point of the outer taps."""
        _, n = tile.fragments
        blocks = -(-rows // tile.block_m) * -(-cells // (tile.block_n - last.reach))
        points = max(1, len({at[:-1] for _, at in found.taken}))
        products = len(found.taken) / points
        multiplied = products * tile.block_m * tile.block_n / 2048
        fragments = multiplied * (4 / n) + last.reads * tile.block_n / 64 * tile.warps_m
        gathered = tile.block_n * 8 / 32 / 4
        rounds = -(-blocks // (gpu.multiprocessors * max(1, 256 // tile.threads)))
        busy = rounds * gpu.multiprocessors * max(1, 256 // tile.threads) / blocks
        return blocks * (multiplied + fragments + gathered) * (1 + 0.1 * (busy - 1))

    def fits(tile: InterleavedPhases) -> bool:
        m, n = tile.fragments
        resident = max(1, 256 // tile.threads)
        shared = tile.shared_bytes(live, last.reads, last.stride) + limits.reserved_shared_bytes
        own = tile.block_k * tile.block_n // tile.threads
        wanted = -(-rows // FRAGMENT_ROWS) * FRAGMENT_ROWS
        return (
            live * m * n * 4 <= MOST_SUMS
            and own >= 2
            and tile.block_n % 32 == 0
            and tile.threads % tile.block_n == 0
            and tile.block_m <= wanted
            and shared * resident <= room
        )

    tiles = [
        InterleavedPhases(m * warps_m * 16, n * warps_n * 8, block_k, warps_m, warps_n)
        for m, n, warps_m, warps_n in SHAPES
    ]
    return sorted(filter(fits, tiles), key=cost)


def _packed(plan: Plan, kernel: Kernel, found: Phases, tile: InterleavedPhases) -> Plan:
    """The plan with `kernel` replaced by three: one that finds the power of two of each output channel, one
    that packs the filters in the order in which matrix instructions read them, and the product."""
    stem = kernel.name.removesuffix("_kernel")
    name, steps = f"{stem}_filters", f"{stem}_filters_step"
    taps = tuple(dimension.taps for dimension in found.dimensions if not dimension.taps.once)
    phase = Axis("phase", indices.product(indices.number(d.stride) for d in found.dimensions))
    channels, rows = found.channel.extent, extent(found.rows)
    line = Axis("filter", indices.round_up(rows, tile.block_m))

    largest = Operation("abs", (_filter(found, phase.index, line.index, found.channel.index),), "real")
    measured = Kernel(
        f"{steps}_kernel",
        (line,),
        (Store(steps, (line.index,), Operation("scale_for", (Reduced("largest", "real"),), "real")),),
        (Stage("largest", MAX, largest, (phase, *taps, found.channel)),),
        BlockPerRow(),
    )

    fragments = indices.number(tile.block_m // 16)
    axes = (
        Axis("block", indices.tiles(rows, tile.block_m)),
        Axis("chunk", indices.tiles(channels, tile.block_k)),
        *taps,
        phase,
        Axis("depth", indices.number(tile.block_k // 16)),
        Axis("fragment", fragments),
        Axis("lane", indices.number(32)),
        Axis("word", indices.number(4)),
        Axis("half", indices.number(2)),
    )
    place = {axis.name: axis.index for axis in axes}
    row = _sum(
        _times(place["block"], tile.block_m),
        _times(place["fragment"], 16),
        _times(indices.remainder(place["word"], indices.number(2)), 8),
        indices.divide(place["lane"], indices.number(4)),
    )
    term = _sum(
        _times(place["chunk"], tile.block_k),
        _times(place["depth"], 16),
        _times(indices.divide(place["word"], indices.number(2)), 8),
        _times(indices.remainder(place["lane"], indices.number(4)), 2),
        place["half"],
    )
    value = Operation("div", (_filter(found, phase.index, row, term), Load(steps, (row,), "real")), "real")
    pack = Kernel(f"{name}_kernel", axes, (Store(name, tuple(axis.index for axis in axes), value),))

    packed = Load(name, _position(found, tile, tuple(axis.index for axis in taps)), "real")
    own = Operation("mul", (packed, Load(steps, (number(found.rows),), "real")), "real")
    stage = replace(kernel.stages[0], body=Operation("mul", (own, found.element), "real"))
    product = replace(kernel, stages=(stage,), schedule=tile)
    buffers = {
        name: Buffer(name, tuple(axis.extent for axis in axes), "float16", scratch=True),
        steps: Buffer(steps, (line.extent,), "float32", scratch=True),
    }
    new = (measured, pack, product)
    kernels = tuple(k for old in plan.kernels for k in (new if old is kernel else (old,)))
    return replace(plan, buffers={**plan.buffers, **buffers}).with_kernels(kernels)


def _filter(found: Phases, phase: Index, row: Index, term: Index) -> Operation:
    """The filters' element of a phase, an output channel `row` and an input channel `term`; 0 beyond them."""
    axes = tuple(Axis(d.axis.name, indices.number(d.stride)) for d in found.dimensions)
    numbers = digits(axes, phase)
    values = {
        dimension.axis.name: indices.subtract(numbers[dimension.axis.name], indices.number(dimension.ahead))
        for dimension in found.dimensions
    }
    values |= digits(found.rows, row) | {found.channel.name: term}
    inside = operation("and", below(row, extent(found.rows)), below(term, found.channel.extent), kind="truth")
    return Operation("where", (inside, move(found.filters, values), real(0)), "real")


def _position(found: Phases, tile: InterleavedPhases, taps: tuple[Index, ...]) -> tuple[Index, ...]:
    """Where the packed filters' element is that belongs to a result and a point of the summed axes."""
    row, term = number(found.rows), found.channel.index
    within, depth = (
        indices.remainder(row, indices.number(tile.block_m)),
        indices.remainder(term, indices.number(tile.block_k)),
    )
    low_row, low_term = (indices.remainder(index, indices.number(16)) for index in (within, depth))
    two, eight = indices.number(2), indices.number(8)
    lane = _sum(
        _times(indices.remainder(low_row, eight), 4),
        indices.divide(indices.remainder(low_term, eight), two),
    )
    word = _sum(_times(indices.divide(low_term, eight), 2), indices.divide(low_row, eight))
    phase = indices.row_major(
        (
            indices.remainder(indices.add(d.axis.index, indices.number(d.ahead)), indices.number(d.stride))
            for d in found.dimensions
        ),
        (indices.number(d.stride) for d in found.dimensions),
    )
    return (
        indices.divide(row, indices.number(tile.block_m)),
        indices.divide(term, indices.number(tile.block_k)),
        *taps,
        phase,
        indices.divide(depth, indices.number(16)),
        indices.divide(within, indices.number(16)),
        lane,
        word,
        indices.remainder(low_term, two),
    )


def _sum(*parts: Index) -> Index:
    found = indices.ZERO
    for part in parts:
        found = indices.add(found, part)
    return found


def _times(index: Index, by: int) -> Index:
    return indices.multiply(index, indices.number(by))


PLAN_REWRITES = tuple(partial(_interleaved, rank=rank) for rank in range(RANKS))
