"""Persistent recurrence: all time steps of a recurrent layer in one cooperative launch, instead of a launch
for each.

Each block keeps the weights of some features, for all gates, in registers during the whole sequence. The
sequences of a batch are divided into groups, with groups of their own for each direction of a layer; only the
blocks of a group wait for each other, once in each step. A block stores its part of the new state twice: in
the result, and in scratch memory, from where the other blocks read it in aligned vectors. Scratch memory has
two states, which are written in turn. After each step, a block stores there how many steps it has done; the
other blocks wait for that number.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from kernelblaster.devices.occupancy import WARP, limits_of
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.expression import Counted, Load, Number, move, substituted
from kernelblaster.policies.expert.index import Index, number
from kernelblaster.policies.expert.kernel import Kernel, Store
from kernelblaster.policies.expert.plan import Buffer, Plan
from kernelblaster.policies.expert.recurrent_layer import (
    in_both_directions,
    own_state,
    state_before,
    why_not_persistent,
    with_state,
)
from kernelblaster.policies.expert.rewriting import No, PlanRewrite
from kernelblaster.policies.expert.schedules.pointwise import ElementPerThread
from kernelblaster.policies.expert.schedules.recurrences import (
    VECTOR,
    PersistentSteps,
    StepByWarps,
    StepPerLaunch,
)

APPLIES_TO = (StepPerLaunch, StepByWarps)
CHOICES = 3  # plans
MOST_WEIGHTS = {1: 144, 2: 128}  # of a thread, in registers, by the number of directions
MOST_REGISTERS = 154  # of a thread, for weights and what it reads early
MOST_ELEMENTS = 3  # of the new state, of a thread
# Estimates in cycles of an SM: a step's barrier with the way of the states through the L2 cache, and what
# each further block that is waited for adds; then multiply-adds of an SM in a cycle, how much longer these
# take with all that is around them, and the bytes of states that an SM reads in a cycle.
BARRIER, EACH_BLOCK = 3000, 4
MULTIPLY_ADDS, AROUND, STATE_BYTES = 128, 1.3, 32


@dataclass(frozen=True)
class Layer:
    """The numbers on which the layout of a recurrent layer depends: its `directions` (1 or 2), the sequences
    of a batch, the features of its state, and its gates."""

    directions: int
    batch: int
    features: int
    gates: int


def _persistent(kernel: Kernel, plan: Plan, gpu: GpuSpec, choice: int) -> Plan | No:
    if not any(found is kernel for found in plan.kernels):
        return No("it is a part of the launch for the other direction")
    why = why_not_persistent(kernel, plan)
    if why is not None:
        return No(why)
    both, alone = in_both_directions(kernel, plan), (plan, kernel)
    plan, kernel = both if both is not None and _layouts(both[1], plan, gpu) else alone
    found = _layouts(kernel, plan, gpu)
    if not found:
        return No("its weights do not fit into the registers of all SMs together")
    if choice >= len(found):
        return No("there is no other way to divide it among the SMs")
    return _with_shared_states(kernel, plan, found[choice])


def _layouts(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> list[PersistentSteps]:
    *directions, batch, features = kernel.axes
    both, rows, width = map(plan.elements, (tuple(directions), (batch,), (features,)))
    return schedules(Layer(both, rows, width, len(kernel.stages)), gpu)


def schedules(layer: Layer, gpu: GpuSpec) -> list[PersistentSteps]:
    """Returns at most three (CHOICES) layouts of a recurrent layer on a GPU, first the one with the shortest
    estimated time. In each, all blocks are resident, one on an SM, and keep the weights in registers. Empty
    if the weights do not fit in the registers of the whole GPU."""
    return sorted(_possible(layer, gpu), key=lambda found: _cycles(layer, found))[:CHOICES]


def _possible(layer: Layer, gpu: GpuSpec) -> Iterator[PersistentSteps]:
    limits = limits_of(gpu.architecture)
    room = limits.shared_bytes - limits.reserved_shared_bytes
    vectors = -(-layer.features // (WARP * VECTOR))
    most = min(MOST_WEIGHTS[layer.directions] // (layer.gates * vectors * VECTOR), WARP // layer.gates)
    for units in range(1, most + 1):
        shape = PersistentSteps(1, units, vectors, 1)
        groups = gpu.multiprocessors // -(-layer.features // shape.features)
        if not groups:
            continue
        rows = -(-layer.batch // max(1, groups // layer.directions))
        rows = min(rows, MOST_ELEMENTS * shape.threads // shape.features)
        shape = replace(shape, rows=rows, groups=groups)
        while shape.rows > 1 and not _fits(layer, shape, room):
            shape = replace(shape, rows=shape.rows - 1)
        yield shape


def _fits(layer: Layer, schedule: PersistentSteps, room: int) -> bool:
    """Whether a block needs at most `room` bytes of shared memory, and a thread no more registers than there
    are. For each element of the new state, it reads two numbers for each gate early, and the states of the
    element itself."""
    weights = layer.gates * schedule.units * schedule.vectors * VECTOR
    early = schedule.elements * (2 * layer.gates + 2)
    return schedule.shared_bytes(layer.gates) <= room and weights + early <= MOST_REGISTERS


def _cycles(layer: Layer, schedule: PersistentSteps) -> float:
    """An estimate of the clock cycles of a time step, times how often a block goes over all steps."""
    rows, blocks = schedule.rows, -(-layer.features // schedule.features)
    rounds = -(-layer.directions * -(-layer.batch // rows) // schedule.groups)
    columns = schedule.features * layer.gates
    products = schedule.padded_rows(layer.gates) * columns * schedule.width * AROUND / MULTIPLY_ADDS
    states = rows * layer.features * 4 / STATE_BYTES
    return rounds * (BARRIER + EACH_BLOCK * blocks + products + states)


def _with_shared_states(kernel: Kernel, plan: Plan, schedule: PersistentSteps) -> Plan:
    """The plan with the schedule for `kernel`, whose blocks get each other's states from scratch memory, and
    with a kernel before it that says that no steps are done."""
    states, done = _scratch(kernel, schedule)
    *_, batch, features = kernel.axes
    (k,) = kernel.reduced
    assert kernel.steps is not None
    step = indices.variable(kernel.steps.name)
    following = indices.add(step, indices.ONE)
    outer = tuple(axis.index for axis in kernel.axes[:-2])

    def place(after: Index, feature: Index) -> tuple[Index, ...]:
        return (indices.remainder(after, number(2)), *outer, batch.index, feature)

    before = state_before(kernel)
    start, first, earlier = before.operands
    assert isinstance(earlier, Load)
    given = replace(before, operands=(start, first, Load(states.name, place(step, k.index), "real")))
    own = {own_state(kernel): move(given, {k.name: features.index})}
    results = [replace(store, value=substituted(store.value, own)) for store in kernel.stores]
    new = next(store.value for store in results if store.buffer == earlier.buffer)
    parts = ((batch.index, schedule.rows), (features.index, schedule.features))
    tile = (indices.divide(index, number(size)) for index, size in parts)
    told = Store(done.name, (*outer, *tile), Counted(following))
    stores = (*results, Store(states.name, place(following, features.index), new), told)
    stages = tuple(with_state(stage, given) for stage in kernel.stages)
    persistent = replace(kernel, stages=stages, stores=stores, schedule=schedule)
    kernels = list(plan.kernels)
    at = next(at for at, found in enumerate(kernels) if found is kernel)
    kernels[at : at + 1] = [_none_done(done), persistent]
    buffers = {**plan.buffers, states.name: states, done.name: done}
    return replace(plan, buffers=buffers).with_kernels(tuple(kernels))


def _scratch(kernel: Kernel, schedule: PersistentSteps) -> tuple[Buffer, Buffer]:
    """Two buffers: the states before and after a step, with rows of a multiple of four elements; and how many
    steps each block has done for each group."""
    *directions, batch, features = kernel.axes
    stem, outer = kernel.name.removesuffix("_kernel"), tuple(axis.extent for axis in directions)
    pitch = indices.round_up(features.extent, VECTOR)
    tiles = indices.tiles(batch.extent, schedule.rows), indices.tiles(features.extent, schedule.features)
    return (
        Buffer(f"{stem}_states", (number(2), *outer, batch.extent, pitch), "float32", scratch=True),
        Buffer(f"{stem}_done", (*outer, *tiles), "int32", scratch=True),
    )


def _none_done(done: Buffer) -> Kernel:
    axes = tuple(Axis(f"i{place}", extent) for place, extent in enumerate(done.shape))
    store = Store(done.name, tuple(axis.index for axis in axes), Number(0, "whole"))
    return Kernel(f"{done.name}_kernel", axes, (store,), schedule=ElementPerThread())


PLAN_REWRITES: tuple[PlanRewrite, ...] = tuple(partial(_persistent, choice=n) for n in range(CHOICES))
