"""What is proved of index expressions: bounds, non-negativity, divisibility, contiguity, and equality of
sums."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.index import Index

Same = Callable[[Index, Index], bool]


def bound(index: Index, extents: Mapping[str, Index], same: Same) -> Index | None:
    """What an expression of loop variables comes up to, exclusively; None where that is not plain."""
    if index.operator in indices.LEAVES:
        return indices.number(index.value + 1) if index.operator == "int" else extents.get(index.name)
    left, right = index.operands
    if index.operator == "%":
        return right
    if index.operator == "/":
        limit = bound(left, extents, same)
        if limit is None:
            return None
        return _quotient(limit, right) or indices.divide(
            indices.add(limit, indices.subtract(right, indices.ONE)), right
        )
    if index.operator == "+" and left.operator == "*":
        high, step = left.operands
        limits = bound(high, extents, same), bound(right, extents, same)
        if limits[0] is not None and limits[1] is not None and same(limits[1], step):
            return indices.multiply(limits[0], step)
    return None


def within(index: Index, extents: Mapping[str, Index], same: Same) -> Index:
    """Simplified with the knowledge of how far loop variables run: (a * n + b) / n is a for b below n."""
    if index.operator in indices.LEAVES:
        return index
    left, right = (within(operand, extents, same) for operand in index.operands)
    if index.operator not in "/%":
        return indices.BUILD[index.operator](left, right)
    quotient, rest = indices.ZERO, indices.ZERO
    for term in _terms(left):
        part = _quotient(term, right)
        quotient, rest = (
            (quotient, indices.add(rest, term)) if part is None else (indices.add(quotient, part), rest)
        )
    limit = bound(rest, extents, same)
    if indices.is_number(rest, 0) or (limit is not None and same(limit, right)):
        return quotient if index.operator == "/" else rest
    return indices.BUILD[index.operator](left, right)


def _terms(index: Index) -> list[Index]:
    return [t for part in index.operands for t in _terms(part)] if index.operator == "+" else [index]


def _quotient(term: Index, divisor: Index) -> Index | None:
    """term / divisor where the divisor is one of its factors."""
    if term == divisor:
        return indices.ONE
    if term.operator != "*":
        return None
    for place, factor in enumerate(term.operands):
        found = _quotient(factor, divisor)
        if found is not None:
            return indices.multiply(*(found if i == place else f for i, f in enumerate(term.operands)))
    return None


def is_increasing(index: Index) -> bool:
    """Whether an expression is non-negative, and never falls where a variable grows, so that it is largest
    where all of them are."""
    if index.operator in ("int", "name"):
        return True
    return index.operator in ("+", "*", "min") and all(map(is_increasing, index.operands))


def stays_below(index: Index, last: Mapping[str, int], limit: int) -> bool:
    """Whether an expression is shown to be non-negative and below a limit wherever its variables are at most
    as large as their last values: where it is increasing, it is so if it is there."""
    return is_increasing(index) and indices.evaluate(index, last) < limit


def terms(index: Index) -> list[Index]:
    """The parts of a sum, with products of sums written out."""
    if index.operator == "+":
        return [term for operand in index.operands for term in terms(operand)]
    if index.operator == "*":
        left, right = (terms(operand) for operand in index.operands)
        return [indices.multiply(one, other) for one in left for other in right]
    return [index]


def separate(index: Index, moving: str) -> tuple[Index, Index]:
    """The part of a sum that stays the same while a variable moves, and the part that moves with it."""
    fixed = moved = indices.ZERO
    for term in terms(index):
        if moving in indices.names(term):
            moved = indices.add(moved, term)
        else:
            fixed = indices.add(fixed, term)
    return fixed, moved


def alignment(address: Index, along: str, sizes: Collection[str]) -> tuple[Index, ...] | None:
    """What must be divisible by a pack's width, so that a pack of neighbours along a loop variable lies
    side by side and aligned in memory; None where neighbours are never side by side."""
    if any(along in indices.names(part.operands[1]) for part in _differences(address)):
        return None
    found: list[Index] = []
    runs = 0
    for term in _both_sides(address):
        if term == indices.variable(along):
            runs += 1
            continue
        if term.operator == "%" and term.operands[0] == indices.variable(along):
            runs += 1
            found.append(term.operands[1])
            continue
        divisors = _divisors(term, along)
        fixed = indices.product(f for f in _factors(term) if indices.names(f) <= set(sizes))
        if divisors is None or indices.is_number(fixed, 1):
            return None
        found += [*divisors, fixed]
    known = all(indices.names(index) <= set(sizes) for index in found)
    return tuple(dict.fromkeys(found)) if runs == 1 and known else None


def _both_sides(index: Index) -> list[Index]:
    """The parts of a sum and of what is subtracted from it: either must be divisible."""
    if index.operator in ("+", "-"):
        return [part for operand in index.operands for part in _both_sides(operand)]
    return terms(index)


def _differences(index: Index) -> list[Index]:
    below = [part for operand in index.operands for part in _differences(operand)]
    return [index, *below] if index.operator == "-" else below


def _factors(term: Index) -> list[Index]:
    if term.operator != "*":
        return [term]
    return [factor for operand in term.operands for factor in _factors(operand)]


def _divisors(term: Index, along: str) -> list[Index] | None:
    """By what a variable is divided wherever it appears; None where it appears undivided."""
    if along not in indices.names(term):
        return []
    if term.operator == "/" and term.operands[0] == indices.variable(along):
        return [term.operands[1]]
    found: list[Index] = []
    for operand in term.operands:
        below = _divisors(operand, along)
        if below is None:
            return None
        found += below
    return found if term.operands else None


def is_linear(address: Index, loops: Sequence[tuple[str, Index]]) -> bool:
    """Whether an address depends on nothing else of neighbouring loops, given by variable and extent, than
    their running number."""
    variables = [indices.variable(name) if extent != indices.ONE else indices.ZERO for name, extent in loops]
    number = indices.row_major(variables, (extent for _, extent in loops))
    *outer, inner = (name for name, _ in loops)
    values = dict.fromkeys(outer, indices.ZERO) | {inner: number}
    return _canonical(indices.replace(address, values)) == _canonical(address)


def _canonical(index: Index) -> Counter[frozenset[tuple[Index, int]]]:
    """A sum of products in a form that is equal for equal sums: how often each product of factors appears.
    Quotients are taken as they are."""
    found: Counter[frozenset[tuple[Index, int]]] = Counter()
    for term in terms(index):
        factors = _factors(term)
        numbers = [part.value for part in factors if part.operator == "int"]
        powers = Counter(part for part in factors if part.operator != "int")
        found[frozenset(powers.items())] += prod(numbers)
    return Counter({key: count for key, count in found.items() if count})
