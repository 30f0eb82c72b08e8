"""Finds loads that are needed only on one side of a boundary, as when tensors were concatenated along a loop.

If the boundary is a multiple of the vector width, each vector lies on one side of it as a whole. It is then
loaded, or not, before the branch that uses its elements.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.expression import Counted, Expression, Gather, Load, Operation, children
from kernelblaster.policies.expert.index import Index


@dataclass(frozen=True)
class Guard:
    """A condition under which an element is read: the loop variable is less than `boundary` if `below` is
    true, at least `boundary` if it is false."""

    boundary: Index
    below: bool


Guards = tuple[Guard, ...]


def guarded(
    expressions: Iterable[Expression], along: str, sizes: Collection[str]
) -> dict[Load | Gather, Guards]:
    """Finds the loads in `expressions` that are made only on one side of a boundary, as when tensors were
    concatenated. Returns for each such load its guards, the conditions that must all hold where it is made:
    comparisons of the loop variable `along` with an index made of `sizes`. Left out are loads without a
    condition, loads that are also under conditions of another form, and loads that have different guards in
    different places."""
    found: dict[Load | Gather, Guards | None] = {}
    for expression in expressions:
        for load, guards in _conditions(expression, along, sizes, ()):
            found[load] = guards if found.get(load, guards) == guards else None
    return {load: guards for load, guards in found.items() if guards}


def _conditions(
    expression: Expression, along: str, sizes: Collection[str], above: Guards | None
) -> Iterator[tuple[Load | Gather, Guards | None]]:
    """Yields every load of an expression with its guards: comparisons of the loop variable `along` with an
    expression of `sizes`, those in `above` (of what the expression is a part of) included. None instead of
    the guards if it is under another condition too."""
    if isinstance(expression, Load | Gather):
        yield expression, above
    for place, part in enumerate(children(expression)):
        under = above
        if isinstance(expression, Operation) and expression.name == "where" and place > 0:
            guard = _guard(expression.operands[0], along, sizes, first=place == 1)
            under = None if guard is None or above is None else (*above, guard)
        yield from _conditions(part, along, sizes, under)


def _guard(condition: Expression, along: str, sizes: Collection[str], *, first: bool) -> Guard | None:
    """What `condition` says of the loop variable `along` in the `first` branch of a conditional expression,
    or in its second: a guard if it compares that variable with an expression of `sizes`, None otherwise."""
    if not isinstance(condition, Operation) or condition.name not in ("lt", "ge"):
        return None
    left, right = condition.operands
    if not isinstance(left, Counted) or not isinstance(right, Counted):
        return None
    if left.index != indices.variable(along) or not indices.names(right.index) <= set(sizes):
        return None
    return Guard(right.index, (condition.name == "lt") == first)
