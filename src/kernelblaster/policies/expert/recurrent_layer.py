"""Recurrent layers in a plan, for the technique `persistent_recurrence`: whether one launch can do all time
steps of a layer's kernel, where the kernel reads and stores its states, and the forward and the backward
kernel of a layer as one."""

from collections.abc import Callable
from dataclasses import replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.combines.arithmetic import SUM
from kernelblaster.policies.expert.expression import (
    Counted,
    Expression,
    Gather,
    Load,
    Operation,
    children,
    move,
    operation,
    rebuild,
)
from kernelblaster.policies.expert.index import ZERO, Index
from kernelblaster.policies.expert.kernel import Kernel, Stage, Store
from kernelblaster.policies.expert.plan import Plan

DIRECTION = Axis("direction", indices.number(2))
Position = tuple[Index, ...]


def why_not_persistent(kernel: Kernel, plan: Plan) -> str | None:
    """Returns why a single launch cannot do all time steps of `kernel`, a kernel of `plan`, as the end of a
    sentence that begins with "because"; None if it can. The kernel must be that of a recurrent layer: each of
    its sums adds products of weights and elements of the state before the step, and nothing else connects
    elements of different steps but each with itself. States must be float32, and the number of features the
    same in all calls."""
    if kernel.steps is None or len(kernel.axes) < 2 or len(kernel.reduced) != 1:
        return "it is not a layer with steps, a batch and features"
    if not _is_layer(kernel):
        return "its gates are not sums of products of weights with one state"
    if any(kept_state(kernel, load) is None for load in _of_steps_before(kernel)):
        return "what it computes of an element depends on what it computed of others before"
    output = plan.buffers[state_before(kernel).operands[2].buffer]  # type: ignore[union-attr]
    if plan.real != "float" or output.dtype != "float32":
        return "its states are not float32"
    extent = kernel.axes[-1].extent
    fixed = {size.name for size in plan.signature.sizes if size.kind == "fixed"}
    most = max(indices.evaluate(extent, sizes) for sizes in plan.sizes)
    if not indices.names(extent) <= fixed or most > plan.extent(extent):
        return "other calls may have more features, and a block keeps the weights of a certain number"
    return None


def _is_layer(kernel: Kernel) -> bool:
    """Whether all stages of the kernel are sums of state * weight over the same state, which before the first
    step is another one than before later steps."""
    bodies = [stage.body for stage in kernel.stages]
    products = [body for body in bodies if isinstance(body, Operation) and body.name == "mul"]
    if len(products) < len(bodies) or any(stage.combine != SUM for stage in kernel.stages):
        return False
    state, *others = (product.operands[0] for product in products)
    known = isinstance(state, Operation) and state.name == "where" and isinstance(state.operands[2], Load)
    return known and all(other == state for other in others)


def state_before(kernel: Kernel) -> Operation:
    """Returns the expression of one element of the state before a time step, which a recurrent layer's kernel
    multiplies by weights; the loop variable of the sums is the element's feature. The expression has the form
    `where(first step, initial state, state that the step before has stored)`."""
    body = kernel.stages[0].body
    assert isinstance(body, Operation) and isinstance(body.operands[0], Operation)
    return body.operands[0]


def own_state(kernel: Kernel) -> Expression:
    """Returns the expression of one element of the state before a time step: the element of the same feature
    that the recurrent layer's kernel computes anew."""
    return move(state_before(kernel), {axis.name: kernel.axes[-1].index for axis in kernel.reduced})


def kept_state(kernel: Kernel, load: Load | Gather) -> Store | None:
    """Returns the store of a recurrent layer's kernel that writes, in each time step, the element that `load`
    reads in the next one, at the same point of the kernel's loops. A thread can then keep the value in a
    register instead, as it does with the cell state of an LSTM. None if the kernel has no such store."""
    stores = (store for store in kernel.stores if store.buffer == load.buffer)
    return next((store for store in stores if store.position == load.position), None)


def _of_steps_before(kernel: Kernel) -> list[Load | Gather]:
    """What the stores of a kernel read of what it wrote, beside its state before the step."""
    own, found = own_state(kernel), list[Load | Gather]()
    waiting = [store.value for store in kernel.stores]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Load | Gather) and part.buffer in kernel.writes:
            found.append(part)
        elif part != own:
            waiting += children(part)
    return found


def with_state(stage: Stage, state: Expression) -> Stage:
    """Returns a copy of `stage`, a sum of a recurrent layer's kernel, that multiplies the weights by the
    expression `state` instead of the state before the step."""
    assert isinstance(stage.body, Operation)
    return replace(stage, body=replace(stage.body, operands=(state, stage.body.operands[1])))


def in_both_directions(kernel: Kernel, plan: Plan) -> tuple[Plan, Kernel] | None:
    """Joins the two kernels of a bidirectional recurrent layer: `kernel`, the forward one, and the backward
    one of the same layer in `plan`. Returns (a plan with one kernel in place of the two, that kernel). The
    new kernel has one more axis, the first, which counts the directions; `plan` itself stays as it is. None
    if there is no such backward kernel, if the two cannot run at the same time, or if one launch cannot do
    all steps of both."""
    kernels = list(plan.kernels)
    place = next(place for place, found in enumerate(kernels) if found is kernel)
    for other_place in range(place + 1, len(kernels)):
        other = kernels[other_place]
        if _independent(kernel, other, kernels[place + 1 : other_place], plan):
            joined = _joined_buffers(kernel, other, plan)
            if joined is None:
                return None
            plan, (first, second) = joined
            both = _both(first, second)
            rest = [found for found in plan.kernels if found is not first]
            rest[next(n for n, found in enumerate(rest) if found is second)] = both
            plan = plan.with_kernels(tuple(rest))
            return None if why_not_persistent(both, plan) else (plan, both)
    return None


def _independent(kernel: Kernel, other: Kernel, between: list[Kernel], plan: Plan) -> bool:
    """Whether `other` does the same as `kernel` in the other half of the result's features, and `kernel` can
    run as late as `other`, behind the kernels `between`."""
    alike = (kernel.axes, kernel.reduced, kernel.steps) == (other.axes, other.reduced, other.steps)
    if not alike or why_not_persistent(other, plan) or type(kernel.schedule) is not type(other.schedule):
        return False
    if len(kernel.stages) != len(other.stages) or len(kernel.stores) != len(other.stores):
        return False
    for found in between:
        written = {*found.writes} & {*kernel.reads, *kernel.writes}
        if written or {*found.reads} & {*kernel.writes}:
            return False
    shared = ({*kernel.writes} & {*other.reads, *other.writes}) | ({*other.writes} & {*kernel.reads})
    features = [axis.index for axis in (kernel.axes[-1], *kernel.reduced)]
    beyond = [indices.add(kernel.axes[-1].extent, feature) for feature in features]
    return _last(kernel, shared) <= {*features} and _last(other, shared) <= {*beyond}


def _last(kernel: Kernel, buffers: set[str]) -> set[Index]:
    """The indices of the last dimension at which a kernel reads or writes any of `buffers`."""
    places: list[Load | Gather | Store] = [*kernel.loads, *kernel.stores]
    return {found.position[-1] for found in places if found.buffer in buffers}


def _joined_buffers(kernel: Kernel, other: Kernel, plan: Plan) -> tuple[Plan, tuple[Kernel, Kernel]] | None:
    """Returns (the plan in which both kernels write the same buffers, the two kernels): where they write
    different ones, these become the two halves of one. None if these are not scratch memory of one shape."""
    for first, second in zip(kernel.writes, other.writes, strict=True):
        if first == second:
            continue
        mine, its = plan.buffers[first], plan.buffers[second]
        if not (mine.scratch and its.scratch) or replace(its, name=first) != mine:
            return None
        whole = replace(mine, name=f"{first}_{second}", shape=(DIRECTION.extent, *mine.shape))
        halves = {name: half for half, name in enumerate((first, second))}
        change = _moved(halves, whole.name)
        changed = [change(found) for found in plan.kernels]
        places = [next(n for n, k in enumerate(plan.kernels) if k is one) for one in (kernel, other)]
        plan = replace(plan, buffers={**plan.buffers, whole.name: whole}).with_kernels(tuple(changed))
        kernel, other = (changed[place] for place in places)
    return plan, (kernel, other)


def _moved(halves: dict[str, int], whole: str) -> Callable[[Kernel], Kernel]:
    """A function that changes a kernel: buffers that `halves` has a number for become these parts of the
    buffer `whole`."""

    def position(buffer: str, old: Position) -> Position:
        return (indices.number(halves[buffer]), *old)

    def loaded(part: Expression) -> Expression:
        if isinstance(part, Load) and part.buffer in halves:
            return replace(part, buffer=whole, position=position(part.buffer, part.position))
        return part

    def change(kernel: Kernel) -> Kernel:
        if not halves.keys() & {*kernel.reads, *kernel.writes}:
            return kernel
        stores = tuple(
            replace(store, buffer=whole, position=position(store.buffer, store.position))
            if store.buffer in halves
            else store
            for store in kernel.stores
        )
        return replace(kernel, stores=stores).changed(lambda found: rebuild(found, loaded))

    return change


def _both(first: Kernel, second: Kernel) -> Kernel:
    """One kernel that does what two kernels do, by the direction."""
    stages = tuple(
        replace(mine, body=_joined(mine.body, its.body))
        for mine, its in zip(first.stages, second.stages, strict=True)
    )
    stores = tuple(
        Store(mine.buffer, _positions(mine.position, its.position), _joined(mine.value, its.value))
        for mine, its in zip(first.stores, second.stores, strict=True)
    )
    return replace(first, axes=(DIRECTION, *first.axes), stages=stages, stores=stores)


def _joined(mine: Expression, its: Expression) -> Expression:
    """An expression that is `mine` forward and `its` backward, with what they have in common only once."""
    if mine == its:
        return mine
    if isinstance(mine, Operation) and isinstance(its, Operation) and _alike(mine, its):
        parts = zip(mine.operands, its.operands, strict=True)
        return replace(mine, operands=tuple(_joined(left, right) for left, right in parts))
    if isinstance(mine, Load) and isinstance(its, Load) and mine.buffer == its.buffer:
        return replace(mine, position=_positions(mine.position, its.position))
    forward = operation("eq", Counted(DIRECTION.index), Counted(ZERO), kind="truth")
    return operation("where", forward, mine, its, kind=mine.kind)


def _alike(mine: Operation, its: Operation) -> bool:
    return (mine.name, mine.kind, len(mine.operands)) == (its.name, its.kind, len(its.operands))


def _positions(mine: Position, its: Position) -> Position:
    return tuple(
        left if left == right else indices.add(left, indices.multiply(DIRECTION.index, _further(left, right)))
        for left, right in zip(mine, its, strict=True)
    )


def _further(left: Index, right: Index) -> Index:
    """Returns right - left, without what is added to both."""
    if right.operator == "+" and left in right.operands:
        return right.operands[1 - right.operands.index(left)]
    return indices.subtract(right, left)
