"""Proves properties of index expressions by their canonical forms (polynomial.py): equality, bounds,
divisibility and contiguity. If a proof fails, the property may still hold.

Sizes are taken to be positive, and loop variables to run from 0 to below their extents.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.polynomial import (
    ONE,
    ZERO,
    Atom,
    Factors,
    Polynomial,
    atom,
    collected,
    polynomial,
)

Same = Callable[[Index, Index], bool]
Extents = Mapping[str, Index]


def equal(left: Index, right: Index) -> bool:
    """True if the symbolic indices `left` and `right` are the same sum of products, however they are written
    (have the same canonical form, see polynomial.py). They then are equal for all values of their variables.
    If False, they may still be equal."""
    return left == right or polynomial(left) == polynomial(right)


def bound(index: Index, extents: Extents) -> Index | None:
    """Returns the exclusive upper bound of an index, its largest value + 1, as a symbolic index. `extents`
    maps the names of loop variables to their own exclusive upper bounds. None if no bound can be derived."""
    largest = _largest(polynomial(index), extents)
    return None if largest is None else (largest + ONE).index()


def _largest(form: Polynomial, extents: Extents) -> Polynomial | None:
    """The largest value of the polynomial `form`, whose loop variables run from 0 to below `extents`:
    added terms count with the variables' largest values, subtracted ones with 0. None if that cannot be
    derived."""
    found = ZERO
    for n, factors in form.terms:
        moving = any(indices.names(factor.index) & extents.keys() for factor in factors)
        if n < 0 and moving:
            if not all(factor.index.operator == "name" for factor in factors):
                return None
            continue
        product = Polynomial(((n, ()),))
        for factor in factors:
            value = _largest_of(factor, extents)
            if value is None:
                return None
            product = product * value
        found = found + product
    return found


def starts_at_zero(index: Index, extents: Extents) -> bool:
    """True if the smallest value of an index is proved to be 0. `extents` maps the names of loop variables,
    which begin at 0, to their exclusive upper bounds."""
    fewest = -polynomial(index)
    smallest = _largest(fewest, extents)
    return smallest is not None and smallest == ZERO


def _largest_of(factor: Atom, extents: Extents) -> Polynomial | None:
    index = factor.index
    if index.operator == "name":
        extent = extents.get(index.name)
        return Polynomial(((1, (factor,)),)) if extent is None else polynomial(extent) - ONE
    if index.operator == "%":
        return polynomial(index.operands[1]) - ONE
    if index.operator == "/":
        largest = _largest(polynomial(index.operands[0]), extents)
        if largest is None:
            return None
        limit, divisor = largest + ONE, index.operands[1]
        quotient, rest = _divided(limit, polynomial(divisor))
        if rest == ZERO:
            return quotient - ONE
        return polynomial(indices.divide(largest.index(), divisor))
    return None


def within(index: Index, extents: Extents, same: Same) -> Index:
    """Simplifies an index, given that its loop variables run from 0 to below their `extents`: (a * n + b) / n
    becomes a, and (a * n + b) % n becomes b, if b is always below n. `same` is a function that tells whether
    two extents are equal."""
    if index.operator in indices.LEAVES:
        return index
    left, right = (within(operand, extents, same) for operand in index.operands)
    if index.operator not in "/%":
        return indices.BUILD[index.operator](left, right)
    quotient, rest = _divided(polynomial(left), polynomial(right))
    limit = bound(rest.index(), extents)
    small = rest == ZERO or (limit is not None and same(limit, right))
    if quotient.is_non_negative and small:
        return (quotient if index.operator == "/" else rest).index()
    return indices.BUILD[index.operator](left, right)


def _divided(form: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Quotient and rest of the polynomial `form` divided by `divisor`. By a divisor of a single term, each
    term that it divides goes into the quotient, the others into the rest. By another divisor, all is rest,
    unless both are equal."""
    if len(divisor.terms) != 1:
        return (ONE, ZERO) if form == divisor else (ZERO, form)
    ((by, factors),) = divisor.terms
    quotient: list[tuple[int, Factors]] = []
    rest: list[tuple[int, Factors]] = []
    for n, others in form.terms:
        left = _left_over(others, factors) if n % by == 0 else None
        if left is None:
            rest.append((n, others))
        else:
            quotient.append((n // by, left))
    return collected(quotient), collected(rest)


def _left_over(factors: Factors, gone: Factors) -> Factors | None:
    """`factors` without those of `gone`; None if some of `gone` are not among them."""
    left = list(factors)
    for factor in gone:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


def is_increasing(index: Index) -> bool:
    """True if an index is proved to be non-negative, and never to become smaller when one of its variables
    grows. The index is then largest when every variable has its largest value."""
    form = polynomial(index)
    return form.is_non_negative and all(
        found.index.operator == "name"
        or (found.index.operator == "min" and all(map(is_increasing, found.index.operands)))
        for found in form.atoms()
    )


def stays_below(index: Index, last: Mapping[str, int], limit: int) -> bool:
    """True if an index is proved to lie from 0 to below `limit`: it never becomes smaller when a variable
    grows, and it is below `limit` if each variable has its largest value. `last` maps the names of the
    variables to these values."""
    return is_increasing(index) and indices.evaluate(index, last) < limit


def separate(index: Index, moving: str) -> tuple[Index, Index]:
    """Splits the sum `index` into two parts: (the terms without the variable `moving`, the terms with it)."""
    return separate_all(index, {moving})


def separate_all(index: Index, moving: Collection[str]) -> tuple[Index, Index]:
    """Splits the sum `index` into two parts: (the terms without any of the variables `moving`, the terms with
    some of them)."""
    fixed: list[tuple[int, Factors]] = []
    moved: list[tuple[int, Factors]] = []
    for n, factors in polynomial(index).terms:
        with_them = any(_mentions(factor, name) for factor in factors for name in moving)
        (moved if with_them else fixed).append((n, factors))
    return Polynomial(tuple(fixed)).index(), Polynomial(tuple(moved)).index()


def _mentions(factor: Atom, name: str) -> bool:
    return name in indices.names(factor.index)


def alignment(address: Index, along: str, sizes: Collection[str]) -> tuple[Index, ...] | None:
    """Returns the conditions under which vectors along the loop variable `along` are aligned: the indices
    that must be divisible by the vectors' width. None if elements that are neighbours along `along` are not
    neighbours in memory. `address` is the offset of an element, counted in elements; `sizes` are the names of
    the sizes."""
    found: list[Index] = []
    runs = 0
    variable = atom(indices.variable(along))
    for n, factors in polynomial(address).terms:
        if n == 1 and factors == (variable,):
            runs += 1
            continue
        if n == 1 and len(factors) == 1 and _is(factors[0], "%", variable):
            runs += 1
            found.append(factors[0].index.operands[1])
            continue
        moving = [factor for factor in factors if _mentions(factor, along)]
        if any(n < 0 or not _is(factor, "/", variable) for factor in moving):
            return None
        fixed = [factor for factor in factors if indices.names(factor.index) <= set(sizes)]
        size = indices.multiply(indices.product(f.index for f in fixed), indices.number(abs(n)))
        if indices.is_number(size, 1):
            return None
        found += [*(factor.index.operands[1] for factor in moving), size]
    known = all(indices.names(index) <= set(sizes) for index in found)
    return tuple(dict.fromkeys(found)) if runs == 1 and known else None


def _is(factor: Atom, operator: str, variable: Atom) -> bool:
    """Whether the factor is the quotient (`operator` is "/") or the remainder ("%") of `variable` by
    something."""
    return factor.index.operator == operator and factor.index.operands[0] == variable.index


def is_linear(address: Index, loops: Sequence[tuple[str, Index]]) -> bool:
    """True if an address depends on the given loops only through the row-major linear index over all of them.
    `loops` are (variable, extent), from the outermost to the innermost."""
    variables = [indices.variable(name) if extent != indices.ONE else indices.ZERO for name, extent in loops]
    number = indices.row_major(variables, (extent for _, extent in loops))
    *outer, inner = (name for name, _ in loops)
    values = dict.fromkeys(outer, indices.ZERO) | {inner: number}
    return equal(indices.replace(address, values), address)
