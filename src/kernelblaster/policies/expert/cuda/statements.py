"""C++ statements as a syntax tree, of which the bodies of kernels are made.

A body is a sequence of statements; loops, branches, scopes and lambdas have bodies of their own. A name is
visible in the body that declares it, and in bodies inside of that one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from kernelblaster.policies.expert.cuda.terms import (
    AUTO,
    INT,
    Call,
    CudaType,
    LiteralTerm,
    Local,
    Operand,
    Prefixed,
    Term,
    term,
)

Body = tuple["Statement", ...]


@dataclass(frozen=True, slots=True)
class Declarator:
    """One name of a declaration: its array `extents` (empty for a single variable), and its initial value;
    None if it has none. A `constructed` value is written in parentheses, `name(value)`, otherwise after
    `=`."""

    name: str
    value: Term | None = None
    extents: tuple[Term, ...] = ()
    constructed: bool = False


@dataclass(frozen=True, slots=True)
class Declaration:
    """Declares `names` of one type. `qualifiers` come before the type (const, constexpr, __shared__);
    `remark` is a comment at the end of the line."""

    type: CudaType
    names: tuple[Declarator, ...]
    qualifiers: str = ""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Assignment:
    place: Term
    value: Term
    operator: str = "="


@dataclass(frozen=True, slots=True)
class Do:
    """The expression `term` as a statement of its own, such as a function call or `++i`. `remark` is a
    comment at the end of the line."""

    term: Term
    remark: str = ""


@dataclass(frozen=True, slots=True)
class If:
    """A branch: `body` if the condition holds, else the statements `otherwise`. With `constexpr` it is an `if
    constexpr`, decided when the kernel is compiled."""

    condition: Term
    body: Body
    otherwise: Body = ()
    constexpr: bool = False


@dataclass(frozen=True, slots=True)
class For:
    """A for loop around the statements `body`: `start` declares its variable, `condition` is tested before
    each iteration, and `step` is done after it; each of these three is left out if None. `unroll` is the
    factor of `#pragma unroll`, "all" for complete unrolling, 0 for no pragma."""

    start: Declaration | None
    condition: Term | None
    step: "Term | Assignment | None"
    body: Body
    unroll: int | Literal["all"] = 0


@dataclass(frozen=True, slots=True)
class Scope:
    """A block of statements (`body`) in braces, whose declarations are not visible outside."""

    body: Body


@dataclass(frozen=True, slots=True)
class Return:
    value: Term | None = None


@dataclass(frozen=True, slots=True)
class Jump:
    to: Literal["break", "continue"]


@dataclass(frozen=True, slots=True)
class Remark:
    """A comment with this `text` in the generated source, on a line of its own."""

    text: str


@dataclass(frozen=True, slots=True)
class Assembly:
    """A PTX instruction without operands, as inline assembly."""

    instruction: str


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch `<<<...>>>` of `kernel` with these `arguments` in host code, with `blocks` blocks in the grid,
    `threads` per block, and `shared` bytes of dynamic shared memory."""

    kernel: Term
    blocks: Term
    threads: int
    shared: int
    arguments: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class CooperativeLaunch:
    """A launch by cudaLaunchCooperativeKernel, with the fields of `Launch`. All its blocks run at once, so
    that they may wait for each other, or it fails. The `arguments` must be variables."""

    kernel: Term
    blocks: Term
    threads: int
    shared: int
    arguments: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class LambdaParameter:
    """A parameter of a lambda, `name` of the type `type`. It is passed by value; with `reference`, as `const
    T&`."""

    type: CudaType
    name: str
    reference: bool = False


@dataclass(frozen=True, slots=True)
class Lambda(Term):
    """A C++ lambda within a kernel, with these `parameters` and the statements `body`. It captures everything
    around it by reference."""

    parameters: tuple[LambdaParameter, ...]
    body: Body


Statement = (
    Declaration
    | Assignment
    | Do
    | If
    | For
    | Scope
    | Return
    | Jump
    | Remark
    | Assembly
    | Launch
    | CooperativeLaunch
)
BREAK, CONTINUE = Jump("break"), Jump("continue")
BARRIER = Do(Call(Local("__syncthreads"), ()))


def declare(type_: CudaType, name: str, value: Operand | None = None, *extents: Operand) -> Declaration:
    """Declares the variable `name` of the type `type_` or, with `extents`, an array; without `value` it is
    uninitialized."""
    given = None if value is None else term(value)
    return Declaration(type_, (Declarator(name, given, tuple(term(extent) for extent in extents)),))


def const(type_: CudaType, name: str, value: Operand, remark: str = "") -> Declaration:
    return Declaration(type_, (Declarator(name, term(value)),), "const", remark)


def consts(type_: CudaType, **values: Operand) -> Declaration:
    """Declares several constants of the type `type_` on one line; `values` maps their names to their
    values."""
    return Declaration(type_, tuple(Declarator(name, term(v)) for name, v in values.items()), "const")


def constexpr(name: str, value: Operand, remark: str = "") -> Declaration:
    return Declaration(INT, (Declarator(name, term(value)),), "constexpr", remark)


def shared(type_: CudaType, name: str, *extents: Operand, align: int = 0) -> Declaration:
    """Declares the array `name` in static shared memory, with elements of `type_` (a single variable without
    `extents`), aligned to `align` bytes if not 0."""
    qualifiers = f"__shared__ __align__({align})" if align else "__shared__"
    return Declaration(type_, (Declarator(name, None, tuple(term(e) for e in extents)),), qualifiers)


def shared_memory(type_: CudaType, name: str, align: int = 0) -> Declaration:
    """Declares `name` as the dynamic shared memory of a launch: an array of `type_` without extent (`extern
    __shared__`), aligned to `align` bytes if not 0."""
    qualifiers = f"extern __shared__ __align__({align})" if align else "extern __shared__"
    return Declaration(type_, (Declarator(name, None, (LiteralTerm(""),)),), qualifiers)


def assign(place: Term, value: Operand) -> Assignment:
    return Assignment(place, term(value))


def add_to(place: Term, value: Operand) -> Assignment:
    return Assignment(place, term(value), "+=")


def when(condition: Term, *body: Statement) -> If:
    return If(condition, body)


def loop(
    name: str,
    start: Operand,
    end: Operand,
    body: Iterable[Statement],
    *,
    step: Operand = 1,
    type_: CudaType = INT,
    unroll: int | Literal["all"] = 0,
) -> For:
    """Returns the C++ loop `for (type_ name = start; name < end; name += step) { body }`. `unroll` is the
    factor of `#pragma unroll`, "all" for a full one, 0 for no pragma."""
    counter = Local(name)
    first = Declaration(type_, (Declarator(name, term(start)),))
    further = Prefixed("++", counter) if step == 1 else add_to(counter, step)
    return For(first, counter < end, further, tuple(body), unroll)


def unrolled(name: str, count: Operand, body: Iterable[Statement]) -> For:
    """Returns the C++ loop `for (int name = 0; name < count; ++name) { body }`, which the compiler unrolls
    fully."""
    return loop(name, 0, count, body, unroll="all")


def once_or_unrolled(name: str, count: int, body: Sequence[Statement]) -> list[Statement]:
    """Returns the statements `body` in an unrolled loop over `name` from 0 to below `count`. If `count` is 1,
    `body` is returned without a loop; `name` is not declared then."""
    return list(body) if count == 1 else [unrolled(name, count, body)]


def function(name: str, parameters: tuple[LambdaParameter, ...], body: Iterable[Statement]) -> Declaration:
    """Declares a lambda within a kernel: `auto name = [&](parameters) { body };`."""
    return Declaration(AUTO, (Declarator(name, Lambda(parameters, tuple(body))),))
