"""Rewrites that join two kernels of a plan. Techniques decide which of them to use, and when.

into_consumers    removes a pointwise kernel: the kernels that read its result compute it themselves
into_products     removes a pointwise kernel in the same way, if a matrix product reads its result; the
                  product may then compute each value several times
into_producer     a reduction, matrix product or scan also does the work of a kernel that reads its results: a
                  pointwise kernel becomes its last step, a reduction over the same elements a further stage
picked            a kernel stores only those elements of its rows that another kernel looks up
side_by_side      joins two kernels with equal loops that read the same tensor
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.expression import (
    Counted,
    Expression,
    Gather,
    Load,
    Number,
    Operation,
    Reduced,
    loads,
    move,
    rebuild,
    walk,
)
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel, Stage, Store
from kernelblaster.policies.expert.loop_matching import LoopMatch, match_loops, placed
from kernelblaster.policies.expert.plan import Buffer, Plan
from kernelblaster.policies.expert.schedules.columns import ColumnReduction
from kernelblaster.policies.expert.schedules.pointwise import Pointwise
from kernelblaster.policies.expert.schedules.products import Product
from kernelblaster.policies.expert.schedules.reductions import Accumulating, Reduction
from kernelblaster.policies.expert.schedules.rows import RowReduction
from kernelblaster.policies.expert.schedules.scans import Scan
from kernelblaster.policies.expert.schedules.schedule import Schedule

JOINED = (Pointwise, RowReduction, ColumnReduction, Scan)  # kinds of which two kernels can be one
CHEAP = 4  # expressions of no more parts than this may be computed more often, if they are plain
CHEAP_POSITIONS = 12  # the same for those that read nothing, like masks made of positions
PLAIN = {"add", "sub", "mul", "neg", "abs", "max", "min", "to_real", "where", "and", "or", "not"}
PLAIN |= {"eq", "ne", "lt", "le", "gt", "ge"}
RESULTS = 64  # with fewer results than this, a reduction has too few threads to write whole rows


def into_consumers(plan: Plan, producer: Kernel) -> Plan | None:
    """Returns the plan without the pointwise kernel `producer`: all kernels that read its result compute the
    values themselves, where they need them. None if `producer` is not pointwise or has several results, or if
    its result is read by a gather. Also None if a reader would compute a value several times, unless the
    value is cheap. Cheap means plain arithmetic and comparisons only (PLAIN), in an expression of at most 4
    nodes (CHEAP), or 12 nodes (CHEAP_POSITIONS) if it reads no tensor."""
    return _pushed(plan, producer, _computes_once)


def into_products(plan: Plan, producer: Kernel) -> Plan | None:
    """Returns the plan without the pointwise kernel `producer`: all kernels that read its result compute the
    values themselves. A matrix product among these may compute a value several times, where
    `prologue_is_free` allows that. Any other kernel may do so only if the value is cheap (a short expression
    of plain arithmetic). None if this is not possible."""

    def allowed(plan: Plan, producer: Kernel, consumer: Kernel) -> bool:
        return prologue_is_free(producer, consumer) or _computes_once(plan, producer, consumer)

    return _pushed(plan, producer, allowed)


def _pushed(plan: Plan, producer: Kernel, allowed: Callable[[Plan, Kernel, Kernel], bool]) -> Plan | None:
    """The plan without the pointwise kernel `producer`, whose values are computed by the kernels that read
    them, if `allowed(plan, producer, reader)` holds for all of these; None otherwise. Where its result is an
    output of the task, a reader that visits each of its elements stores it too; None if there is no such
    reader."""
    if not isinstance(producer.schedule, Pointwise) or len(producer.stores) != 1:
        return None
    store = producer.stores[0]
    consumers = plan.consumers(store.buffer)
    if not consumers or any(_gathers(kernel, {store.buffer}) for kernel in consumers):
        return None
    if any(kernel.steps for kernel in consumers):  # every step would compute it again
        return None
    if not all(allowed(plan, producer, kernel) for kernel in consumers):
        return None
    inlined = {kernel.name: _inlined(kernel, store) for kernel in consumers}
    if not plan.buffers[store.buffer].scratch:
        keeper = next((k for k in consumers if _passes_all(plan, k, producer)), None)
        if keeper is None:
            return None
        inlined[keeper.name] = _also_storing(inlined[keeper.name], keeper, store)
    kernels = [inlined.get(kernel.name, kernel) for kernel in plan.kernels if kernel is not producer]
    return plan.with_kernels(tuple(kernels))


def into_producer(plan: Plan, producer: Kernel, consumer: Kernel) -> Plan | None:
    """Returns the plan in which `producer`, a reduction, matrix product or scan, also does the work of
    `consumer`, a kernel that reads its results, which is then removed. None if the loops of the two do not
    match, or if their schedules (layouts on the GPU) do not allow it."""
    written = set(producer.writes)
    if not producer.stages or consumer is producer or not written & set(consumer.reads):
        return None
    if any(axis.part for axis in producer.reduced) or _gathers(consumer, written):
        return None
    if producer.steps or consumer.steps:
        return None
    place, found = _place(plan, producer, consumer), match_loops(plan, producer, consumer)
    if place is None or found is None or not _takes_in(plan, producer, consumer, found):
        return None
    values = {store.buffer: store for store in producer.stores}

    def change(part: Expression) -> Expression:
        if not isinstance(part, Load) or part.buffer not in values:
            return part
        store = values[part.buffer]
        pairs = zip(store.position, placed(plan, producer, part, {}), strict=True)
        return move(store.value, {there.name: own for there, own in pairs if own != there})

    others = {name for k in plan.kernels if k not in (producer, consumer) for name in k.reads}
    kept = tuple(s for s in producer.stores if s.buffer in others or not plan.buffers[s.buffer].scratch)
    joined = _joined(replace(producer, stores=kept), consumer, found.moved, found.each, change)
    return _replaced(plan, producer, consumer, place, joined)


def _takes_in(plan: Plan, producer: Kernel, consumer: Kernel, found: LoopMatch) -> bool:
    """Whether the schedule of `producer` (a reduction, product or scan) allows it to also do the work of
    `consumer`, which reads its results, in its own loops; `found` says how the loops of the two
    correspond."""
    if isinstance(producer.schedule, Scan):  # what it finds is known at each element, and there only
        alike = isinstance(consumer.schedule, Scan)
        scanned = {load.buffer for stage in consumer.stages for load in loads(stage.body)}
        return found.each and (alike or not consumer.stages) and not scanned & set(producer.writes)
    if not isinstance(consumer.schedule, Reduction | Pointwise):
        return False
    if isinstance(producer.schedule, Product):
        return not found.each and not consumer.stages
    return not found.each or bool(consumer.stages) or plan.elements(producer.axes) >= RESULTS


def is_sole_reader(plan: Plan, producer: Kernel, consumer: Kernel) -> bool:
    """True if what `consumer` reads of the results of `producer` is read by no other kernel of `plan` and is
    not an output of the task. Results of `producer` that `consumer` does not read do not matter."""
    read = [name for name in producer.writes if name in consumer.reads]
    return all(plan.buffers[name].scratch and plan.consumers(name) == [consumer] for name in read)


def picked(plan: Plan, producer: Kernel, consumer: Kernel) -> Plan | None:
    """Handles two kernels of this form: `producer` stores every element of its rows (as log_softmax does),
    and `consumer` looks up only one element of each row, by a gather (a read at an index that is itself read
    from memory). Returns the plan in which `producer` stores only the elements that are looked up, and
    `consumer` reads them from there; None if the two kernels are not of this form."""
    if consumer is producer or len(producer.reduced) != 1:
        return None
    for store in producer.stores:
        readers = plan.consumers(store.buffer)
        if not store.over or readers != [consumer] or not plan.buffers[store.buffer].scratch:
            continue
        found = {load for load in consumer.loads if load.buffer == store.buffer}
        gather = next(iter(found))
        if len(found) == 1 and isinstance(gather, Gather):
            return _picked(plan, producer, consumer, store, gather)
    return None


def side_by_side(plan: Plan, first: Kernel, second: Kernel) -> Plan | None:
    """Returns the plan with the kernels `first` and `second` joined into one. Both must be pointwise, both
    row reductions, both column reductions or both scans (JOINED). Their loops must have equal extents, and
    they must read at least one element in common; `second` must not read what `first` writes. None if that is
    not so, or if `first` is launched after `second`."""
    alike = any(all(isinstance(k.schedule, kind) for k in (first, second)) for kind in JOINED)
    if plan.kernels.index(first) >= plan.kernels.index(second) or not alike:
        return None
    if set(first.writes) & set(second.reads):
        return None
    loops = [(first.axes, second.axes), (first.reduced, second.reduced)]
    place = _place(plan, first, second)
    if not all(len(a) == len(b) for a, b in loops) or place is None:
        return None
    pairs = [pair for a, b in loops for pair in zip(a, b, strict=True)]
    if not all(plan.same(one.extent, two.extent) for one, two in pairs):
        return None
    moved = {two.name: one.index for one, two in pairs}
    if not set(first.loads) & {load for e in second.expressions for load in loads(move(e, moved))}:
        return None
    joined = _joined(first, second, moved, False, lambda part: part)
    return _replaced(plan, first, second, place, joined)


def prologue_is_free(producer: Kernel, product: Kernel) -> bool:
    """True if `producer`, a pointwise kernel that computes an operand of the matrix product `product`, may be
    fused into it, so that the product computes the operand's values itself. The operand's values are then
    computed several times, once for each tile of the other operand (only once if operands are packed first);
    that is accepted however expensive they are. The operand may occur only once in the product's expression.
    A convolution would compute values again for every window; for it, `producer` may only do plain arithmetic
    and comparisons (PLAIN), no exp or division."""
    if not isinstance(product.schedule, Product) or len(product.stages) != 1:
        return False
    windows = sum(not axis.once for axis in product.reduced) > 1
    if windows and not _plain(producer.stores[0].value):
        return False
    body = product.stages[0].body
    if not isinstance(body, Operation) or body.name != "mul":
        return False
    buffer = producer.stores[0].buffer
    reads = [sum(load.buffer == buffer for load in loads(factor)) for factor in body.operands]
    return sorted(reads) == [0, 1] and not any(
        load.buffer == buffer for store in product.stores for load in loads(store.value)
    )


def _computes_once(plan: Plan, producer: Kernel, consumer: Kernel) -> bool:
    """Whether `consumer`, if it computed the values of the pointwise `producer` itself instead of reading
    them, would compute each at most once per expression that reads it. Cheap values may be computed more
    often, but not in a matrix product's inner loop."""
    store = producer.stores[0]
    computed = max(plan.elements(producer.axes), 1)
    outer = plan.elements(consumer.axes)
    every = outer * plan.elements(consumer.reduced)
    bodies = [(stage.body, every) for stage in consumer.stages]
    values = [(other.value, every if other.over else outer) for other in consumer.stores]
    for expression, points in (*bodies, *values):
        inner = isinstance(consumer.schedule, Product) and (expression, points) in bodies
        if _cheap(store.value) and not inner:
            continue
        if points * _share(plan, consumer, expression, store.buffer) > computed:
            return False
    return True


def _share(plan: Plan, consumer: Kernel, expression: Expression, buffer: str) -> float:
    """Estimate of the fraction (0 to 1) of the iterations of the consumer's loops in which `expression`
    really reads the tensor `buffer`: of concatenated tensors, each is read in its own range only."""
    if isinstance(expression, Load | Gather) and expression.buffer == buffer:
        return 1.0
    if not isinstance(expression, Operation):
        return 0.0
    if expression.name != "where":
        return max((_share(plan, consumer, part, buffer) for part in expression.operands), default=0.0)
    test, yes, no = expression.operands
    part = _fraction(plan, consumer, test)
    shares = [_share(plan, consumer, branch, buffer) for branch in (yes, no)]
    chosen = max(shares) if part is None else part * shares[0] + (1 - part) * shares[1]
    return max(_share(plan, consumer, test, buffer), chosen)


def _fraction(plan: Plan, consumer: Kernel, test: Expression) -> float | None:
    """Fraction (0 to 1) of the iterations of the consumer's loops in which `test`, of the form `loop variable
    < extent`, holds, at the sizes of the primary workload; None for tests of another form."""
    if not isinstance(test, Operation) or test.name != "lt":
        return None
    left, right = test.operands
    extents = {axis.index: axis.extent for axis in consumer.axes + consumer.reduced}
    if not isinstance(left, Counted) or not isinstance(right, Counted | Number) or left.index not in extents:
        return None
    end = plan.extent(right.index) if isinstance(right, Counted) else int(right.value)
    return min(1.0, end / plan.extent(extents[left.index]))


def _cheap(value: Expression) -> bool:
    parts = len(list(walk(value)))
    return _plain(value) and parts <= (CHEAP if loads(value) else CHEAP_POSITIONS)


def _plain(value: Expression) -> bool:
    return all(part.name in PLAIN for part in walk(value) if isinstance(part, Operation))


def _gathers(kernel: Kernel, buffers: set[str]) -> bool:
    return any(isinstance(load, Gather) and load.buffer in buffers for load in kernel.loads)


def _place(plan: Plan, first: Kernel, second: Kernel) -> Kernel | None:
    """Which position in the launch order the kernel has that replaces `first` and `second`: that of `first`,
    if all else that `second` reads is written before; otherwise that of `second`, if no kernel between the
    two reads what `first` writes. None if neither is possible."""
    start, end = (plan.kernels.index(kernel) for kernel in (first, second))
    before = {name for k in plan.kernels[:start] for name in k.writes}
    later = {name for k in plan.kernels for name in k.writes} - before - set(first.writes)
    if not later & set(second.reads):
        return first
    between = {name for k in plan.kernels[start:end] for name in k.reads}
    return second if end > start and not between & set(first.writes) else None


def _replaced(plan: Plan, first: Kernel, second: Kernel, place: Kernel, joined: Kernel) -> Plan:
    """The plan with the kernel `joined`, made of `first` and `second`, in the launch order at the position of
    `place`, which is one of these two; both are removed."""
    other = second if place is first else first
    return plan.with_kernels(tuple(joined if k is place else k for k in plan.kernels if k is not other))


def _inlined(kernel: Kernel, store: Store) -> Kernel:
    def change(part: Expression) -> Expression:
        if isinstance(part, Load) and part.buffer == store.buffer:
            pairs = zip(store.position, part.position, strict=True)
            return move(store.value, {own.name: other for own, other in pairs if own.name})
        return part

    return kernel.changed(lambda expression: rebuild(expression, change))


def _passes_all(plan: Plan, consumer: Kernel, producer: Kernel) -> bool:
    """Whether `consumer` is a reduction or pointwise kernel that reads every element of the producer's result
    in an iteration of its own, so that it could store them too, and has enough results (at least RESULTS) to
    keep enough threads busy."""
    if not isinstance(consumer.schedule, Reduction | Pointwise) or plan.elements(consumer.axes) < RESULTS:
        return False
    points = {axis.index for axis in consumer.axes + consumer.reduced if not axis.once}
    counts = (
        indices.product(axis.extent for axis in axes)
        for axes in (consumer.axes + consumer.reduced, producer.axes)
    )
    reads = [load for load in consumer.loads if load.buffer in producer.writes]
    return plan.same(*counts) and any({i for i in load.position if i.name} == points for load in reads)


def _also_storing(inlined: Kernel, consumer: Kernel, store: Store) -> Kernel:
    """The kernel `inlined`, which is `consumer` computing a producer's values itself, with one more store: it
    also writes these values, as the producer did by `store`."""
    points = {axis.index for axis in consumer.axes + consumer.reduced if not axis.once}
    reads = [load for load in consumer.loads if load.buffer == store.buffer]
    load = next(load for load in reads if {i for i in load.position if i.name} == points)
    pairs = zip(store.position, load.position, strict=True)
    value = move(store.value, {own.name: other for own, other in pairs if own.name})
    kept = Store(store.buffer, load.position, value, consumer.reduced)
    return replace(inlined, stores=(kept, *inlined.stores))


def _joined(
    first: Kernel,
    second: Kernel,
    moved: Mapping[str, Index],
    each: bool,
    change: Callable[[Expression], Expression],
) -> Kernel:
    """The fused kernel: `first` with the reductions and stores of `second` appended, each reduction once.
    `moved` maps the loop variables of `second` to indices of `first`; `change` rewrites each node of its
    expressions. If `second` has no reductions, its stores are for each element of the first one's reduced
    axes with `each`, else for each result."""
    names: dict[str, str] = {}

    def placed_in_first(expression: Expression) -> Expression:
        return rebuild(rebuild(move(expression, moved), renamed), change)

    def renamed(part: Expression) -> Expression:
        return replace(part, stage=names[part.stage]) if isinstance(part, Reduced) else part

    stages = list(first.stages)
    for stage in second.stages:
        body = placed_in_first(stage.body)
        known = next((s for s in stages if (s.combine, s.body) == (stage.combine, body)), None)
        names[stage.name] = known.name if known else _free_name(stage.name, stages)
        if known is None:
            stages.append(Stage(names[stage.name], stage.combine, body, first.reduced))
    stores = list(first.stores)
    for store in second.stores:
        position = tuple(indices.replace(index, moved) for index in store.position)
        inner = first.reduced if (store.over if second.stages else each) else ()
        stores.append(Store(store.buffer, position, placed_in_first(store.value), inner))
    schedule = _wider(first.schedule, second.schedule)
    return replace(first, stages=tuple(stages), stores=tuple(stores), schedule=schedule)


def _free_name(name: str, stages: list[Stage]) -> str:
    while any(stage.name == name for stage in stages):
        name += "_after"
    return name


def _wider(first: Schedule, second: Schedule) -> Schedule:
    """The schedule of two joined kernels: `first`, but with sums accumulated in double if `second` does so,
    and both are of a type that can choose."""
    if isinstance(first, Accumulating) and isinstance(second, Accumulating) and second.accumulate == "double":
        return replace(first, accumulate="double")
    return first


def _picked(plan: Plan, producer: Kernel, consumer: Kernel, store: Store, gather: Gather) -> Plan | None:
    """The plan in which `producer` stores only what `consumer` looks up in it (see `picked`). `store` is the
    producer's store in question, and `gather` the only load of what it writes. None if these have another
    form."""
    axis = gather.axis
    inner = producer.reduced[0]
    own = (*gather.position[:axis], *gather.position[axis + 1 :])
    there = (*store.position[:axis], *store.position[axis + 1 :])
    moved = {index.name: other for index, other in zip(own, there, strict=True) if index.name}
    where = move(gather.where, moved)
    known = {axis.name for axis in producer.axes} | set(plan.sizes[0])
    value = _looked_up(store.value, inner.name, where)
    fits = store.position[axis] == inner.index and all(index.operator == "name" for index in own)
    if not fits or value is None or len(moved) != len(own) or not _mentions(where) <= known:
        return None
    if any(load.buffer in k.writes for load in loads(where) for k in plan.kernels):
        return None
    whole = plan.buffers[store.buffer]
    name = f"{store.buffer}_picked"
    shape = (*whole.shape[:axis], *whole.shape[axis + 1 :])
    stores = tuple(Store(name, there, value) if s is store else s for s in producer.stores)

    def change(part: Expression) -> Expression:
        return Load(name, own, gather.kind) if part == gather else part

    read = consumer.changed(lambda expression: rebuild(expression, change))
    new = {producer.name: replace(producer, stores=stores), consumer.name: read}
    buffers = {**plan.buffers, name: Buffer(name, shape, whole.dtype, scratch=True)}
    kernels = tuple(new.get(kernel.name, kernel) for kernel in plan.kernels)
    return replace(plan, buffers=buffers).with_kernels(kernels)


def _mentions(expression: Expression) -> set[str]:
    parts = list(walk(expression))
    found = [index for part in parts if isinstance(part, Load | Gather) for index in part.position]
    found += [part.index for part in parts if isinstance(part, Counted)]
    return set().union(*(indices.names(index) for index in found))


def _looked_up(value: Expression, name: str, where: Expression) -> Expression | None:
    """The expression `value` with the loop variable `name` replaced by the computed index `where`, so that
    loads along it become gathers (loads at a computed index). None where the variable is only a part of an
    index, as in i + 1."""
    failed = False

    def change(part: Expression) -> Expression:
        nonlocal failed
        if isinstance(part, Counted) and name in indices.names(part.index):
            failed |= part.index.operator != "name"
            return where
        if not isinstance(part, Load | Gather):
            return part
        places = [i for i, index in enumerate(part.position) if name in indices.names(index)]
        if not places:
            return part
        place = places[0]
        if isinstance(part, Gather) or len(places) > 1 or part.position[place].operator != "name":
            failed = True
            return part
        start = (*part.position[:place], indices.ZERO, *part.position[place + 1 :])
        return Gather(part.buffer, start, place, where, part.kind)

    found = rebuild(value, change)
    return None if failed else found
