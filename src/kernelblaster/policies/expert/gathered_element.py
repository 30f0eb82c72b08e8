"""Recognizes operands of a product that are a tensor's element under some conditions, and 0 otherwise, such
as the pixels of a padded convolution."""

from dataclasses import dataclass

from kernelblaster.policies.expert.expression import Expression, Load, Number, Operation


@dataclass(frozen=True)
class GatheredElement:
    """An operand of a product with one of two values: where all of `conditions` hold, the element that `load`
    reads; elsewhere 0."""

    load: Load
    conditions: tuple[Expression, ...]


def gathered_element(expression: Expression) -> GatheredElement | None:
    """Returns the load that `expression` makes and the conditions under which it makes it, if it is a loaded
    element under conditions and 0 elsewhere, such as where(a, where(b, load, 0), 0) with the conditions a and
    b. A plain load has no conditions. Returns None if `expression` has another form."""
    conditions: list[Expression] = []
    while isinstance(expression, Operation) and expression.name == "where":
        test, expression, otherwise = expression.operands
        if not isinstance(otherwise, Number) or otherwise.value != 0:
            return None
        conditions += conjuncts(test)
    return GatheredElement(expression, tuple(conditions)) if isinstance(expression, Load) else None


def conjuncts(test: Expression) -> list[Expression]:
    """Returns the tests that `test` joins by "and", as a list; [test] if it joins none."""
    if isinstance(test, Operation) and test.name == "and":
        return [part for operand in test.operands for part in conjuncts(operand)]
    return [test]
