"""Expresses numbers that differ between several traces of a module (extents, constants) by the task's sizes.

The module is traced once for each workload. Whatever differs between the traces must follow from the sizes
that the launch function receives. Simple expressions are tried before complicated ones.
"""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import combinations_with_replacement

from kernelblaster.errors import KernelBlasterError
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.expression import Argument, Counted, Expression, operation, real, to_kind
from kernelblaster.policies.expert.index import Index

Values = tuple[int, ...]
LITERAL = 8  # constants up to this are written as they are; larger ones are called by a size's name


class NotUniform(KernelBlasterError):
    """Raised if traces of a module at different sizes do not agree in their operators, or in a number that
    cannot be expressed by the sizes: no kernels could then serve all sizes."""


class Unifier:
    """Finds expressions of the task's sizes that equal, in every workload, a number seen in the traces of a
    module. `sizes` maps the name of each size to its value in each workload; `numbers` does the same for
    arguments of the task that are plain numbers. Extents that were found are remembered, and later ones may
    be expressed by them."""

    def __init__(self, sizes: dict[str, Values], numbers: dict[str, tuple[float, ...]]) -> None:
        self._numbers = numbers
        self._known: dict[Values, Index] = {}
        self._sizes = {v for v, count in Counter(sizes.values()).items() if count == 1}
        for name, values in sizes.items():
            self._known.setdefault(values, indices.variable(name))

    def whole(self, values: Values, likely: Index | None = None) -> Index:
        """Returns an expression of the task's sizes that has these `values`, one for each workload. If all
        values are equal, it is a literal, or for values above 8 (LITERAL) a size or an earlier extent with
        that value, if there is one. Otherwise these are tried in order: a size that alone has these values;
        the expression `likely`; an extent that was found before; a formula of known extents, such as (2 *
        extent + 1) / 2 or a product. Raises NotUniform if none is found."""
        constant = len(set(values)) == 1
        if constant and values[0] <= LITERAL:
            return indices.number(values[0])
        if likely is not None and not constant and values not in self._sizes:
            self._known.setdefault(values, likely)
            return likely
        if values not in self._known:
            if constant:
                return indices.number(values[0])
            found = next(self._explanations(values), None)
            if found is None:
                raise NotUniform(
                    f"an extent is {', '.join(map(str, values))} in the task's workloads, and no "
                    "expression of the signature's sizes gives that."
                )
            self._known[values] = found
        return self._known[values]

    def number(self, values: tuple[float, ...]) -> Expression:
        """Returns an expression that has these real `values`, one for each workload: a literal, a number that
        the launch function receives, or a power of an extent, such as 1 / sqrt(n). Raises NotUniform if none
        is found."""
        for name, known in self._numbers.items():
            if len(set(known)) > 1 and values == known:
                return Argument(name, "real")
        if len({repr(value) for value in values}) == 1:  # as text, since NaN is not equal to itself
            return real(values[0])
        found: list[tuple[float, Values]] = []
        for power in (1.0, -1.0, -0.5, 0.5, -0.25, 2.0):
            bases = [abs(value) ** (1 / power) for value in values]
            rounded = tuple(round(base) for base in bases)
            near = all(abs(r - b) <= 1e-6 * b for r, b in zip(rounded, bases, strict=True))
            if near and min(values) > 0:
                found.append((power, rounded))
        # An extent that the module uses anyway is a better reason than one that would be new.
        found.sort(key=lambda pair: pair[1] not in self._known)
        if not found or found[0][1] not in self._known:
            fraction = self._fraction(values)
            if fraction is not None:
                return fraction
        for power, base in found[:1]:
            return _power(to_kind(Counted(self.whole(base)), "real"), power)
        raise NotUniform(f"a constant is {values} in the task's workloads, for no reason that was found.")

    def _fraction(self, values: tuple[float, ...]) -> Expression | None:
        """The quotient of two extents, of two extents less one, or half an extent, perhaps less one, that has
        these `values`, as in positions of resampled images; None if there is none."""
        extents = [(known, index) for known, index in self._known.items() if len(set(known)) > 1]
        for less in (0, 1):
            for above, first in extents:
                for below, second in [*extents, ((2 + less,) * len(values), indices.number(2 + less))]:
                    pairs = zip(above, below, strict=True)
                    found = tuple((a - less) / (b - less) if b != less else math.nan for a, b in pairs)
                    if all(
                        math.isclose(one, value, rel_tol=1e-6)
                        for one, value in zip(found, values, strict=True)
                    ):
                        parts = (indices.subtract(part, indices.number(less)) for part in (first, second))
                        return operation("div", *(to_kind(Counted(part), "real") for part in parts))
        return None

    def _explanations(self, values: Values) -> Iterator[Index]:
        yield from self._stepped(values)
        known = [(v, i) for v, i in self._known.items() if len(set(v)) > 1 or v[0] > 1]
        for count in (1, 2, 3):
            for parts in combinations_with_replacement(known, count):
                product = [1] * len(values)
                for part, _ in parts:
                    product = [a * b for a, b in zip(product, part, strict=True)]
                expression = indices.product(index for _, index in parts)
                if all(p and v % p == 0 for p, v in zip(product, values, strict=True)):
                    factor = values[0] // product[0]
                    if all(p * factor == v for p, v in zip(product, values, strict=True)):
                        yield indices.multiply(expression, indices.number(factor))
        for (one, first), (two, second) in combinations_with_replacement(known, 2):
            if all(min(a, b) == v for a, b, v in zip(one, two, values, strict=True)):
                yield indices.least(first, second)
            if all(a + b == v for a, b, v in zip(one, two, values, strict=True)):
                yield indices.add(first, second)
            if all(b and v * b == a for a, b, v in zip(one, two, values, strict=True)):
                yield indices.divide(first, second)

    def _stepped(self, values: Values) -> Iterator[Index]:
        """Yields expressions (a * known + b) / c that have these `values`, one for each workload, where
        `known` is a known extent and a, b and c are small: multiples, halves, numbers of windows with a
        stride."""
        for a, c in ((1, 1), (2, 1), (3, 1), (4, 1), (8, 1), *((1, c) for c in range(2, 65)), (3, 2), (3, 4)):
            for known, index in self._known.items():
                if len(set(known)) == 1:
                    continue
                start = values[0] * c - a * known[0]
                for b in sorted(range(start, start + c), key=abs):
                    if abs(b) > 64:
                        continue
                    if all((a * k + b) // c == v for k, v in zip(known, values, strict=True)):
                        scaled = indices.multiply(indices.number(a), index)
                        yield indices.divide(indices.add(scaled, indices.number(b)), indices.number(c))


def _power(base: Expression, power: float) -> Expression:
    if power == 1.0:
        return base
    if power == -1.0:
        return operation("div", real(1), base)
    if power == 0.5:
        return operation("sqrt", base)
    if power == -0.5:
        return operation("rsqrt", base)
    if power == -0.25:  # each factor of a scaled product takes half of the scale
        return operation("sqrt", operation("rsqrt", base))
    return operation("mul", base, base)
