"""The canonical form of index expressions: sums of products with whole coefficients.

Two expressions that are equal as polynomials have the same canonical form, whatever their order and nesting.
A subexpression that is neither a sum nor a product (a quotient, a remainder, a minimum, a number read from
memory) is treated like a variable; it is called an atom. Two atoms are the same one if the canonical forms of
their operands are equal. A polynomial can be written as an index expression again; common factors are then
taken out, as in the address of a tensor's element.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.index import Index

Key = Hashable


@dataclass(frozen=True, eq=False)
class Atom:
    """A factor of a polynomial that is neither a sum nor a product: a variable, quotient, remainder, minimum
    or looked-up number. `index` is the factor as a symbolic index. Two atoms are equal if their `key`s
    are."""

    index: Index
    key: Key

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Atom) and self.key == other.key)

    @cached_property
    def _hash(self) -> int:
        return hash(self.key)

    def __hash__(self) -> int:
        return self._hash


Factors = tuple[Atom, ...]  # of a product, in the order in which they were written


@dataclass(frozen=True, eq=False)
class Polynomial:
    """The canonical form of a symbolic index, a sum of products. `terms` are the products, each as
    (coefficient, factors), in the order in which they were written. No two products have the same factors,
    and no coefficient is 0."""

    terms: tuple[tuple[int, Factors], ...]

    @cached_property
    def key(self) -> Key:
        """A hashable value that is equal for equal polynomials, whatever the order of their terms."""
        return frozenset((_unordered(factors), n) for n, factors in self.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __add__(self, other: "Polynomial") -> "Polynomial":
        if not other.terms:
            return self
        return collected((*self.terms, *other.terms))

    def __mul__(self, other: "Polynomial") -> "Polynomial":
        pairs = ((one, two) for one in self.terms for two in other.terms)
        return collected((n * m, (*left, *right)) for (n, left), (m, right) in pairs)

    def __neg__(self) -> "Polynomial":
        return Polynomial(tuple((-n, factors) for n, factors in self.terms))

    def __sub__(self, other: "Polynomial") -> "Polynomial":
        return self + -other

    @property
    def number(self) -> int | None:
        """The polynomial's value if it is a constant; None if it depends on variables."""
        if not self.terms:
            return 0
        (n, factors), *others = self.terms
        return n if not others and not factors else None

    @property
    def is_non_negative(self) -> bool:
        """True if no coefficient is negative. The value then is not negative either, because variables never
        are."""
        return all(n >= 0 for n, _ in self.terms)

    def atoms(self) -> Iterator[Atom]:
        for _, factors in self.terms:
            yield from factors

    def index(self) -> Index:
        """Returns the polynomial as a symbolic index again, with common factors taken out."""
        return _written(list(self.terms))


ZERO, ONE = Polynomial(()), Polynomial(((1, ()),))


def collected(terms: Iterable[tuple[int, Factors]]) -> Polynomial:
    """Returns the sum of `terms`, each (coefficient, factors), as a polynomial: the coefficients of terms
    with the same factors are added up."""
    found: dict[Key, tuple[int, Factors]] = {}
    for n, factors in terms:
        key = _unordered(factors)
        known = found.get(key)
        found[key] = (n, factors) if known is None else (known[0] + n, known[1])
    return Polynomial(tuple(term for term in found.values() if term[0]))


def _unordered(factors: Factors) -> Key:
    """A hashable value that is equal for the same factors in any order."""
    keys = frozenset(factors)
    return keys if len(keys) == len(factors) else frozenset(Counter(factors).items())


def polynomial(index: Index) -> Polynomial:
    """Returns the canonical form of a symbolic index, in which it is a sum of products with whole
    coefficients. It is computed once for each Index object."""
    known: Polynomial | None = index.__dict__.get("_polynomial")
    if known is None:
        known = _polynomial(index)
        index.__dict__["_polynomial"] = known  # an index never changes: its form is found once
    return known


def _polynomial(index: Index) -> Polynomial:
    match index.operator:
        case "int":
            return Polynomial(((index.value, ()),)) if index.value else ZERO
        case "+" | "-" | "*":
            left, right = (polynomial(operand) for operand in index.operands)
            if index.operator == "*":
                return left * right
            return left + right if index.operator == "+" else left - right
    return Polynomial(((1, (atom(index),)),))


def atom(index: Index) -> Atom:
    """Returns the atom for an index that is neither a sum nor a product. Two atoms with the same operator get
    equal keys if the canonical forms of their operands are equal."""
    if index.operator in indices.LEAVES:
        return Atom(index, (index.operator, index.name, index.key, *(str(part) for part in index.operands)))
    keys = [polynomial(operand).key for operand in index.operands]
    return Atom(index, (index.operator, frozenset(keys) if index.operator == "min" else tuple(keys)))


def _written(terms: list[tuple[int, Factors]]) -> Index:
    """Writes the sum of `terms`, each (coefficient, factors), as a symbolic index. If the first terms have
    their last factor in common, it is taken out: a * n + b * n becomes (a + b) * n."""
    found = indices.ZERO
    while terms:
        n, factors = terms[0]
        together = _with_last(terms, factors[-1]) if factors else 1
        if together > 1:
            last = factors[-1]
            inner = [(m, _without(others, last)) for m, others in terms[:together]]
            found = indices.add(found, indices.multiply(_written(inner), last.index))
            terms = terms[together:]
            continue
        product = indices.product(factor.index for factor in factors)
        size = indices.number(abs(n))
        value = size if not factors else indices.multiply(product, size)
        found = indices.add(found, value) if n > 0 else indices.subtract(found, value)
        terms = terms[1:]
    return found


def _with_last(terms: list[tuple[int, Factors]], last: Atom) -> int:
    """How many of `terms`, counted from the first without a gap, contain the factor `last`."""
    count = 0
    while count < len(terms) and last in terms[count][1]:
        count += 1
    return count


def _without(factors: Factors, gone: Atom) -> Factors:
    place = len(factors) - 1 - factors[::-1].index(gone)
    return factors[:place] + factors[place + 1 :]
