"""Loop-invariant code motion: subexpressions that are the same for all elements of a row are computed once,
before the loop over the elements. The CUDA compiler does not do this for elements that are read under a
condition."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kernelblaster.policies.expert.cuda.statements import Statement, const
from kernelblaster.policies.expert.emission.values import Values
from kernelblaster.policies.expert.expression import (
    Expression,
    Gather,
    Load,
    Operation,
    Reduced,
    loads,
    used_names,
    walk,
)


def hoisted(
    expressions: Sequence[Expression], moving: set[str], values: Values, prefix: str
) -> tuple[list[Statement], list[Expression]]:
    """Finds subexpressions of `expressions` that do not depend on the loop variables `moving`, so that they
    can be computed once, before the loop. Returns two lists: C++ statements, to be put in front of the loop,
    that declare a constant for each such subexpression; and the expressions with these constants in place of
    the subexpressions. Names of the constants begin with `prefix`; `values` writes expressions as C++."""
    found = dict.fromkeys(part for expression in expressions for part in _invariant(expression, moving))
    names = {part: Reduced(f"{prefix}_fixed{place}", part.kind) for place, part in enumerate(found)}
    declared: list[Statement] = [
        const(values.type(part.kind), name.stage, values.expression(part)) for part, name in names.items()
    ]
    return declared, [_with(expression, names) for expression in expressions]


def _invariant(expression: Expression, moving: set[str], *, sure: bool = True) -> Iterator[Expression]:
    """Yields the largest subexpressions that do not depend on the loop variables `moving`. `sure` is False if
    the expression is computed only under a condition: subexpressions that read memory are then left out,
    because a read before the loop might be out of bounds."""
    if not used_names([expression], []) & moving:
        gathered = any(isinstance(part, Gather) for part in walk(expression))
        there = sure or not loads(expression)
        if isinstance(expression, Load | Operation) and not gathered and there:
            yield expression
            return
    if isinstance(expression, Operation):
        for place, part in enumerate(expression.operands):
            yield from _invariant(part, moving, sure=sure and not (expression.name == "where" and place > 0))


def _with(expression: Expression, names: dict[Expression, Reduced]) -> Expression:
    if expression in names:
        return names[expression]
    if isinstance(expression, Operation):
        return replace(expression, operands=tuple(_with(part, names) for part in expression.operands))
    return expression
