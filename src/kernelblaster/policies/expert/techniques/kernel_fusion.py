"""Kernel fusion: what one kernel stores for another is handed over in registers instead.

Two rewrites. A pointwise producer disappears into the kernels that read it, whatever their family.
And a reduction takes in a kernel that reads its results: a pointwise one as its last step, or
another reduction over the same elements as further stages. Scratch that no one reads any more is
gone, and its traffic with it.
"""

from collections.abc import Iterator
from dataclasses import replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.expression import (
    Expression,
    Gather,
    Load,
    Operation,
    Reduced,
    move,
    rebuild,
    walk,
)
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.plan import Axis, Kernel, Plan, Stage, Store

REPEATS = 1  # how often a fused expression may be computed for each element that it replaces
CHEAP = 4  # expressions of no more parts than this may be computed more often, if they are plain
PLAIN = {"add", "sub", "mul", "neg", "abs", "max", "min", "to_real", "where"}
PLAIN |= {"eq", "ne", "lt", "le", "gt", "ge"}
RESULTS = 64  # with fewer results than this, a reduction has too few threads to write whole rows


def apply(plan: Plan) -> Iterator[Plan]:
    for producer in plan.kernels:
        fused = into_consumers(plan, producer)
        if fused is not None:
            yield fused
        for consumer in plan.kernels:
            fused = into_producer(plan, producer, consumer)
            if fused is not None:
                yield fused


def into_consumers(plan: Plan, producer: Kernel) -> Plan | None:
    """The plan without a pointwise producer, computed where its result is read instead."""
    if producer.family != "pointwise" or len(producer.stores) != 1:
        return None
    store = producer.stores[0]
    consumers = plan.consumers(store.buffer)
    if not plan.buffers[store.buffer].scratch or not consumers:
        return None
    if any(_gathers(kernel, {store.buffer}) for kernel in consumers):
        return None
    often = any(_repeats(plan, kernel, producer) > REPEATS for kernel in consumers)
    if often and not _cheap(store.value):
        return None
    inlined = [_inlined(kernel, store) if kernel in consumers else kernel for kernel in plan.kernels]
    return plan.with_kernels(tuple(kernel for kernel in inlined if kernel is not producer))


def into_producer(plan: Plan, producer: Kernel, consumer: Kernel) -> Plan | None:
    """The plan in which a reduction also does what a reader of its results does."""
    written = {store.buffer: store for store in producer.stores}
    if producer.family == "pointwise" or consumer is producer or not set(written) & set(consumer.reads):
        return None
    if _gathers(consumer, set(written)) or not _ready(plan, producer, consumer):
        return None
    moved = _meeting(plan, producer, consumer)
    if moved is None:
        return None
    each = _covers(moved, consumer, producer.axes + producer.reduced) and bool(producer.reduced)
    if consumer.stages:
        if producer.family == "matrix_product" or consumer.family == "matrix_product":
            return None
    elif each and (producer.family == "matrix_product" or plan.elements(producer.axes) < RESULTS):
        return None
    stages, stores = _moved_parts(producer, consumer, moved, each)
    others = {name for k in plan.kernels if k not in (producer, consumer) for name in k.reads}
    kept = tuple(s for s in producer.stores if s.buffer in others or not plan.buffers[s.buffer].scratch)
    fused = replace(producer, stages=producer.stages + stages, stores=kept + stores)
    kernels = tuple(fused if k is producer else k for k in plan.kernels if k is not consumer)
    return plan.with_kernels(kernels)


def _cheap(value: Expression) -> bool:
    parts = list(walk(value))
    plain = all(part.name in PLAIN for part in parts if isinstance(part, Operation))
    return plain and len(parts) <= CHEAP


def _repeats(plan: Plan, consumer: Kernel, producer: Kernel) -> int:
    """How often the consumer would compute each element of the producer."""
    points = plan.elements(consumer.axes) * plan.elements(consumer.reduced)
    return -(-points // max(1, plan.elements(producer.axes)))


def _gathers(kernel: Kernel, buffers: set[str]) -> bool:
    return any(isinstance(load, Gather) and load.buffer in buffers for load in kernel.loads())


def _inlined(kernel: Kernel, store: Store) -> Kernel:
    def change(part: Expression) -> Expression:
        if isinstance(part, Load) and part.buffer == store.buffer:
            pairs = zip(store.position, part.position, strict=True)
            return move(store.value, {own.name: other for own, other in pairs if own.name})
        return part

    stages = tuple(replace(stage, body=rebuild(stage.body, change)) for stage in kernel.stages)
    stores = tuple(replace(s, value=rebuild(s.value, change)) for s in kernel.stores)
    return replace(kernel, stages=stages, stores=stores)


def _ready(plan: Plan, producer: Kernel, consumer: Kernel) -> bool:
    """Whether all else that the consumer reads is there when the producer starts."""
    before = {name for k in plan.kernels[: plan.kernels.index(producer)] for name in k.writes}
    later = {name for k in plan.kernels for name in k.writes} - before - set(producer.writes)
    return not later & set(consumer.reads)


def _meeting(plan: Plan, producer: Kernel, consumer: Kernel) -> dict[str, Index] | None:
    """The consumer's loop variables in terms of the producer's, where the consumer reads each result
    at the very point that stores it."""
    written = {store.buffer: store for store in producer.stores}
    found = [load for load in consumer.loads() if load.buffer in written]
    moved: dict[str, Index] = {}
    for own, other in zip(found[0].position, written[found[0].buffer].position, strict=True):
        if own.operator == "name" and own.name not in moved:
            moved[own.name] = other
    axes = [axis for axis in consumer.axes + consumer.reduced if not axis.once]
    missing = [axis for axis in axes if axis.name not in moved]
    inner = [axis for axis in producer.reduced if not axis.once and axis.index not in moved.values()]
    if missing:
        if len(missing) != len(inner):
            return None
        moved |= {a.name: b.index for a, b in zip(missing, inner, strict=True)}
    extents = {axis.index: axis.extent for axis in producer.axes + producer.reduced}
    for axis in axes:  # half of the elements would be another loop
        there = extents.get(moved[axis.name])
        if there is None or not plan.same(axis.extent, there):
            return None
    for load in found:
        place = tuple(indices.replace(index, moved) for index in load.position)
        if place != written[load.buffer].position:
            return None
    if consumer.stages:
        outer = _covers(moved, replace(consumer, reduced=()), producer.axes)
        return moved if outer and _covers(moved, replace(consumer, axes=()), producer.reduced) else None
    points = producer.axes + producer.reduced
    each = any(written[load.buffer].each for load in found)
    whole = _covers(moved, consumer, points)
    return moved if whole or (not each and _covers(moved, consumer, producer.axes)) else None


def _covers(moved: dict[str, Index], consumer: Kernel, axes: tuple[Axis, ...]) -> bool:
    """Whether the consumer's loops are exactly these axes of the producer."""
    images = [moved[axis.name] for axis in consumer.axes + consumer.reduced if not axis.once]
    wanted = {axis.index for axis in axes if not axis.once}
    return len(images) == len(wanted) and set(images) == wanted


def _moved_parts(
    producer: Kernel, consumer: Kernel, moved: dict[str, Index], each: bool
) -> tuple[tuple[Stage, ...], tuple[Store, ...]]:
    """The consumer's stages and stores in the producer's variables, its loads replaced."""
    values = {store.buffer: store.value for store in producer.stores}
    taken = {stage.name for stage in producer.stages}
    names = {}
    for stage in consumer.stages:
        names[stage.name] = stage.name
        while names[stage.name] in taken:
            names[stage.name] += "_after"

    def change(part: Expression) -> Expression:
        if isinstance(part, Load) and part.buffer in values:
            return values[part.buffer]
        return replace(part, stage=names[part.stage]) if isinstance(part, Reduced) else part

    def placed(expression: Expression) -> Expression:
        return rebuild(move(expression, moved), change)

    stages = tuple(Stage(names[s.name], s.combine, placed(s.body)) for s in consumer.stages)
    stores = []
    for store in consumer.stores:
        position = tuple(indices.replace(index, moved) for index in store.position)
        inner = store.each if consumer.stages else each
        stores.append(Store(store.buffer, position, placed(store.value), inner))
    return stages, tuple(stores)
