"""Operands that are gathered: elements of a tensor, read under conditions."""

from dataclasses import dataclass

from kernelblaster.policies.expert.expression import Expression, Load, Number, Operation


@dataclass(frozen=True)
class GatheredElement:
    """The gathered operand: a tensor's element, read only where all of `conditions` hold, else 0."""

    load: Load
    conditions: tuple[Expression, ...]


def gathered_element(expression: Expression) -> GatheredElement | None:
    """An operand as an element that is read under conditions; None where it is computed."""
    conditions: list[Expression] = []
    while isinstance(expression, Operation) and expression.name == "where":
        test, expression, otherwise = expression.operands
        if not isinstance(otherwise, Number) or otherwise.value != 0:
            return None
        conditions += _all_of(test)
    return GatheredElement(expression, tuple(conditions)) if isinstance(expression, Load) else None


def _all_of(test: Expression) -> list[Expression]:
    if isinstance(test, Operation) and test.name == "and":
        return [part for operand in test.operands for part in _all_of(operand)]
    return [test]
