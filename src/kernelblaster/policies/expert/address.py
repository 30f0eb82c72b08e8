"""What the address of an element says: what moves with a loop, and which neighbours lie side by side."""

from collections.abc import Collection

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.index import Index


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
