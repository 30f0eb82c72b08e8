"""Finds attention, softmax(queries * keys) * values, in a plan (the kernels of a candidate in launch order),
and describes one kernel that computes all of it. In the plan it is three kernels: the product of queries and
keys, a softmax, and the product with the values.

The one kernel has four reductions (stages): for each query the scores with all keys, the largest score, the
sum of the weights exp(score - largest), and the sum of the values times these weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.combines.arithmetic import MAX, SUM
from kernelblaster.policies.expert.expression import (
    Counted,
    Expression,
    Load,
    Number,
    Operation,
    Reduced,
    loads,
    move,
    operation,
    real,
    rebuild,
    used_names,
)
from kernelblaster.policies.expert.fusion import is_sole_reader
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel, Stage
from kernelblaster.policies.expert.loop_matching import solved
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.polynomial import polynomial
from kernelblaster.policies.expert.product import Product, as_product
from kernelblaster.policies.expert.proofs import equal
from kernelblaster.policies.expert.rewriting import No

SCORE, LARGEST, WEIGHT, RESULT = "score", "largest", "weight", "result"  # the stages
NOTHING = float("-inf")
BOUNDS = {"lt": ("le", -1), "le": ("le", 0), "gt": ("ge", 1), "ge": ("ge", 0)}
OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}


@dataclass(frozen=True)
class Attention:
    """Attention as a formula: results[batch, queries, columns] = sum over `keys` of weights[batch, queries,
    keys] * value[batch, keys, columns]. The weights are the softmax of the scores along `keys`. `query`,
    `key` and `value` are the expressions of one element of each operand. `score` is the expression of one
    score. It is made of the sum over `depth` of query * key, to which it may add a scale or a mask; in it,
    Reduced(SCORE) stands for that sum."""

    batch: tuple[Axis, ...]
    queries: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    keys: Axis
    depth: Axis
    query: Expression
    key: Expression
    value: Expression
    score: Expression

    def stages(self) -> tuple[Stage, ...]:
        """Returns the four reductions (stages) of the single kernel that computes this attention, in order:
        the scores, the largest score, the sum of weights, and the weighted sum of values."""
        weight = operation("exp", operation("sub", self.score, Reduced(LARGEST, "real")))
        return (
            Stage(SCORE, SUM, operation("mul", self.query, self.key), (self.depth,), (self.keys,)),
            Stage(LARGEST, MAX, self.score, (self.keys,)),
            Stage(WEIGHT, SUM, weight, (self.keys,)),
            Stage(RESULT, SUM, operation("mul", weight, self.value), (self.keys,)),
        )


def as_attention(kernel: Kernel, plan: Plan) -> Attention | None:
    """Returns the formula of the attention that `kernel`, a kernel of `plan`, computes in one launch: its
    axes, and the expressions of one element of each operand and of a score. None if the kernel's stages
    (reductions) are not the four of `Attention.stages`."""
    if [stage.name for stage in kernel.stages] != [SCORE, LARGEST, WEIGHT, RESULT]:
        return None
    scores, largest, _, result = kernel.stages
    assert isinstance(scores.body, Operation) and isinstance(result.body, Operation)
    query, key = scores.body.operands
    value = result.body.operands[1]
    axes = [axis for axis in kernel.axes if not axis.once]
    here, there = used_names([query], []), used_names([value], [])
    columns = tuple(axis for axis in axes if axis.name in there - here)
    queries = tuple(axis for axis in axes if axis.name in here - there)
    batch = tuple(axis for axis in axes if axis not in columns + queries)
    keys, depth = scores.over[0], scores.axes[0]
    return Attention(batch, queries, columns, keys, depth, query, key, value, largest.body)


def found_attention(kernel: Kernel, plan: Plan) -> tuple[Attention, Kernel, tuple[Kernel, Kernel]] | No:
    """Looks in `plan` for an attention of which `kernel` is the last step, the product of weights and values.
    Returns (the attention, one kernel that computes all of it, the two kernels that are then superfluous: the
    product of queries and keys, and the softmax). `No`, with the reason, if there is none."""
    product = as_product(kernel, plan)
    if product is None or product.part is not None:
        return No("it is no product of two matrices over one K axis")
    weights = product.left.plain
    softmax = next((k for k in plan.kernels if weights is not None and weights.buffer in k.writes), None)
    if weights is None or softmax is None or not is_sole_reader(plan, softmax, kernel):
        return No("its left operand is not the result of a kernel that nothing else reads")
    normal = _as_softmax(softmax)
    return (
        No("its left operand is no softmax")
        if normal is None
        else _found(plan, kernel, product, softmax, normal)
    )


def _found(
    plan: Plan,
    kernel: Kernel,
    product: Product,
    softmax: Kernel,
    normal: tuple[Expression, bool, tuple[Index, ...]],
) -> tuple[Attention, Kernel, tuple[Kernel, Kernel]] | No:
    """Looks in `plan` for the rest of an attention, given its last two steps: `kernel`, the product
    (`product`) of weights and values, and the kernel `softmax`, which makes the weights. `normal` is what
    `_as_softmax` returned for that kernel. Returns (the attention, one kernel that computes all of it, the
    two kernels that are then superfluous); `No`, with the reason, if it is none."""
    weights = product.left.plain
    assert weights is not None
    element, guarded, row = normal
    moved = {own.name: there for own, there in zip(row, weights.position, strict=True) if own.name}
    element = move(element, moved)
    for load in dict.fromkeys(loads(element)):
        scores = next((k for k in plan.kernels if load.buffer in k.writes), None)
        inner = as_product(scores, plan) if scores is not None else None
        if scores is None or inner is None or inner.part is not None or not isinstance(load, Load):
            continue
        alone = is_sole_reader(plan, scores, softmax) and len(scores.stores) == 1
        if not alone or any(load != other and load.buffer == other.buffer for other in loads(element)):
            return No("its scores are needed elsewhere too")
        found = _joined(plan, product, scores, inner, load, element)
        if isinstance(found, No):
            return found
        return found, _kernel(kernel, found, guarded), (scores, softmax)
    return No("its weights are not made of the results of a product")


def _as_softmax(kernel: Kernel) -> tuple[Expression, bool, tuple[Index, ...]] | None:
    """Recognizes a kernel that computes a softmax along its reduced axis. Returns (the expression of which it
    is the softmax, True if rows without any finite element become 0 instead of NaN, the position at which the
    result is stored); None if it computes something else."""
    if [stage.combine for stage in kernel.stages] != [MAX, SUM] or len(kernel.stores) != 1:
        return None
    largest, total = kernel.stages
    weight = operation("exp", operation("sub", largest.body, Reduced(largest.name, "real")))
    result: Expression = operation("div", weight, Reduced(total.name, "real"))
    none = Operation("eq", (Reduced(largest.name, "real"), Number(NOTHING, "real")), "truth")
    guarded = Operation("where", (none, real(0), result), "real")
    store = kernel.stores[0]
    if total.body != weight or store.value not in (result, guarded) or len(store.over) != 1:
        return None
    if any(index.operator != "name" and index != indices.ZERO for index in store.position):
        return None
    return largest.body, store.value == guarded, store.position


def _joined(
    plan: Plan, product: Product, scores: Kernel, inner: Product, load: Load, element: Expression
) -> Attention | No:
    """Describes as one attention two matrix products with a softmax between them. `inner`, in the kernel
    `scores`, is the product of queries and keys; `element` is the expression, of what `load` reads from its
    result, that the softmax is taken of; `product` is that of weights and values. `No`, with the reason, if
    they do not fit each other."""
    store, keys = scores.stores[0], product.k_axis
    other = No("its scores lie in another order than a product needs")
    moved = solved(store.position, load.position)
    if any(axis.name not in moved for axis in scores.axes if not axis.once):
        return other
    pairs = zip(store.position, load.position, strict=True)
    if not all(equal(indices.replace(own, moved), there) for own, there in pairs):
        return other
    taken = {axis.name for axis in (*product.batch, *product.rows, *product.columns, keys)}
    depth = replace(inner.k_axis, name=_free("depth", {*taken, *plan.sizes[0]}), part=None)
    moved |= {inner.k_axis.name: depth.index}
    sides = [move(side.expression, moved) for side in (inner.left, inner.right)]
    query, key = sorted(sides, key=lambda side: keys.name in used_names([side], []))

    def change(part: Expression) -> Expression:
        if part == load:
            value = rebuild(store.value, lambda p: Reduced(SCORE, "real") if isinstance(p, Reduced) else p)
            return move(value, moved)
        return part

    found = Attention(
        batch=product.batch,
        queries=product.rows,
        columns=product.columns,
        keys=keys,
        depth=depth,
        query=query,
        key=key,
        value=product.right.expression,
        score=rebuild(element, change),
    )
    own = {
        name: {axis.name for axis in axes} for name, axes in vars(found).items() if isinstance(axes, tuple)
    }
    known = {*plan.sizes[0], *own["batch"], keys.name, depth.name}
    apart = (
        used_names([query], []) <= (known | own["queries"]) - {keys.name}
        and used_names([key], []) <= known
        and used_names([found.value], []) <= (known | own["columns"]) - {depth.name}
        and used_names([found.score], []) <= (known | own["queries"]) - {depth.name}
        and own["queries"] & used_names([query], [])
    )
    return found if apart else No("queries, keys and values are not apart from each other")


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _kernel(kernel: Kernel, found: Attention, guarded: bool) -> Kernel:
    """Returns one kernel that computes the whole attention `found`. It takes the place of `kernel`, the
    product with the values, and stores what that stores. If `guarded`, rows in which all scores are -infinity
    give 0 instead of NaN."""
    result: Expression = operation("div", Reduced(RESULT, "real"), Reduced(WEIGHT, "real"))
    if guarded:
        none = Operation("eq", (Reduced(LARGEST, "real"), Number(NOTHING, "real")), "truth")
        result = Operation("where", (none, real(0), result), "real")

    def change(part: Expression) -> Expression:
        return result if isinstance(part, Reduced) else part

    stores = tuple(replace(store, value=rebuild(store.value, change)) for store in kernel.stores)
    return replace(kernel, stages=found.stages(), stores=stores)


@dataclass(frozen=True)
class Band:
    """The keys that a query may see under a mask: the query number q may see the keys numbered from q +
    `first` to q + `last`, both included. None: no limit on that side. All other keys have the score
    -infinity."""

    first: Index | None = None
    last: Index | None = None


def band(found: Attention) -> Band:
    """Returns which keys each query of the attention `found` may see, as far as the mask in its score tells.
    The band has no limits if there is no mask, if the mask does not compare the number of the key with that
    of the query, or if queries are numbered by several axes."""
    seen = Band()
    if len(found.queries) != 1:
        return seen
    for condition, hidden in _masks(found.score):
        for limit, offset in _limits(condition, hidden, found):
            if limit == "le" and seen.last is None:
                seen = replace(seen, last=offset)
            elif limit == "ge" and seen.first is None:
                seen = replace(seen, first=offset)
    return seen


def _masks(score: Expression) -> Iterator[tuple[Expression, bool]]:
    """Yields (condition, truth value) for each mask in the expression of a score: the score is -infinity
    wherever the condition has that truth value."""
    if not isinstance(score, Operation):
        return
    if score.name == "where":
        condition, yes, no = score.operands
        if _is_nothing(yes):
            yield condition, True
            yield from _masks(no)
        elif _is_nothing(no):
            yield condition, False
            yield from _masks(yes)
    elif score.name == "add":
        for part in score.operands:
            yield from _masks(part)


def _is_nothing(value: Expression) -> bool:
    return isinstance(value, Number) and value.kind == "real" and value.value == NOTHING


def _limits(condition: Expression, hidden: bool, found: Attention) -> Iterator[tuple[str, Index]]:
    """Yields the limits that a mask sets on the difference (number of the key - number of the query) of a
    pair that is seen: ("le", n) if it is at most n, ("ge", n) if it is at least n. The mask is `condition`:
    with `hidden`, pairs for which it holds are hidden; otherwise only those are seen."""
    if not isinstance(condition, Operation):
        return
    if condition.name == "not":
        yield from _limits(condition.operands[0], not hidden, found)
    elif condition.name == ("or" if hidden else "and"):
        for part in condition.operands:
            yield from _limits(part, hidden, found)
    elif condition.name in BOUNDS:
        left, right = (_whole(part) for part in condition.operands)
        if left is None or right is None:
            return
        limit, more = BOUNDS[OPPOSITE[condition.name] if hidden else condition.name]
        key, query = found.keys.index, found.queries[0].index
        difference = polynomial(left) - polynomial(right)
        for sign in (1, -1):
            rest = polynomial(key) - polynomial(query)
            rest = difference - rest if sign > 0 else difference + rest
            if indices.names(rest.index()) & {found.keys.name, found.queries[0].name}:
                continue
            # sign * (key - query) + rest <= more, or >= more
            bound = polynomial(indices.number(more)) - rest
            if sign < 0:
                bound, limit = -bound, "ge" if limit == "le" else "le"
            names = indices.names(bound.index())
            if not names & {axis.name for axis in found.batch}:
                yield limit, bound.index()
            return


def _whole(value: Expression) -> Index | None:
    """Converts an expression on positions to a symbolic index, if it is made of whole numbers by adding,
    subtracting and multiplying; None for any other expression."""
    if isinstance(value, Counted):
        return value.index
    if isinstance(value, Number) and value.kind == "whole":
        return indices.number(int(value.value))
    if isinstance(value, Operation) and value.kind == "whole" and value.name in ("add", "sub", "mul"):
        left, right = (_whole(part) for part in value.operands)
        if left is not None and right is not None:
            return {"add": indices.add, "sub": indices.subtract, "mul": indices.multiply}[value.name](
                left, right
            )
    return None
