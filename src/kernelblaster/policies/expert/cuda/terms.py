"""Terms: C++ expressions as a tree.

Python's operators build them, so that `block * 128 + row` is the term for that; numbers become literals, and
what changes nothing (`+ 0`, `* 1`) is left out. A name is either a local one (`Local`), which the kernel
declares itself, or one that the kernel is given (`Given`): a tensor, a size, an argument. The printer renames
what is given where a local name is the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Union

from kernelblaster.policies.expert.cuda.headers import Header

Operand = Union["Term", int]


class Term:
    """A C++ expression."""

    __slots__ = ()

    def __add__(self, other: Operand) -> "Term":
        """A sum of whole numbers, or of a pointer and such, written without parentheses."""
        if isinstance(other, Infix) and other.operator in ("+", "-"):
            return Infix(other.operator, self + other.left, other.right)
        return self if other == 0 else Infix("+", self, term(other))

    def __radd__(self, other: int) -> "Term":
        return self if other == 0 else Infix("+", term(other), self)

    def __sub__(self, other: Operand) -> "Term":
        return self if other == 0 else Infix("-", self, term(other))

    def __rsub__(self, other: int) -> "Term":
        return Infix("-", term(other), self)

    def __mul__(self, other: Operand) -> "Term":
        return self if other == 1 else Infix("*", self, term(other))

    def __rmul__(self, other: int) -> "Term":
        return self if other == 1 else Infix("*", term(other), self)

    def __truediv__(self, other: Operand) -> "Term":
        """A quotient as in C++: of whole numbers, rounded towards zero."""
        return self if other == 1 else Infix("/", self, term(other))

    def __mod__(self, other: Operand) -> "Term":
        return Infix("%", self, term(other))

    def __xor__(self, other: Operand) -> "Term":
        return Infix("^", self, term(other))

    def __lshift__(self, other: Operand) -> "Term":
        return Infix("<<", self, term(other))

    def __rshift__(self, other: Operand) -> "Term":
        return Infix(">>", self, term(other))

    def __lt__(self, other: Operand) -> "Term":
        return Infix("<", self, term(other))

    def __le__(self, other: Operand) -> "Term":
        return Infix("<=", self, term(other))

    def __gt__(self, other: Operand) -> "Term":
        return Infix(">", self, term(other))

    def __ge__(self, other: Operand) -> "Term":
        return Infix(">=", self, term(other))

    def __getitem__(self, place: Operand) -> "Term":
        return Element(self, term(place))

    def __neg__(self) -> "Term":
        return Prefixed("-", self)

    def equals(self, other: Operand) -> "Term":
        return Infix("==", self, term(other))

    def field(self, name: str) -> "Term":
        return Field(self, name)

    def call(self, method: str, *arguments: Operand) -> "Term":
        """A call of a method."""
        return Call(Field(self, method), terms(arguments))


@dataclass(frozen=True, slots=True)
class Local(Term):
    """A name that a kernel, or CUDA itself, declares."""

    name: str


@dataclass(frozen=True, slots=True)
class Given(Term):
    """A tensor, size or argument by the name that the launch function has for it."""

    name: str


@dataclass(frozen=True, slots=True)
class LiteralTerm(Term):
    """A literal as it is written."""

    text: str


@dataclass(frozen=True, slots=True)
class Prefixed(Term):
    """A prefix operator: - ! * & ++"""

    operator: str
    operand: Term


@dataclass(frozen=True, slots=True)
class Infix(Term):
    operator: str
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Choice(Term):
    """condition ? yes : no"""

    condition: Term
    yes: Term
    no: Term


@dataclass(frozen=True, slots=True)
class CudaType:
    """A type as it is written, and the device code that defines it, if it is not CUDA's own."""

    text: str
    needs: Header | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Conversion(Term):
    type: CudaType
    operand: Term


@dataclass(frozen=True, slots=True)
class DeviceFunction(Term):
    """A function of the device code, a type that is constructed, or without a header a kernel of this source.
    Template arguments follow the name."""

    name: str
    header: Header | None
    template: tuple[Term, ...] = ()

    def __call__(self, *arguments: Operand) -> "Call":
        return Call(self, terms(arguments))

    def of(self, *template: Operand) -> "DeviceFunction":
        """With template arguments."""
        return DeviceFunction(self.name, self.header, terms(template))


@dataclass(frozen=True, slots=True)
class Call(Term):
    function: Term
    arguments: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Element(Term):
    array: Term
    place: Term


@dataclass(frozen=True, slots=True)
class Field(Term):
    object: Term
    name: str


@dataclass(frozen=True, slots=True)
class Braces(Term):
    """An initializer: {a, b}, or Type{a, b}."""

    items: tuple[Term, ...] = ()
    type: CudaType | None = None


@dataclass(frozen=True, slots=True)
class Reinterpreted(Term):
    """A pointer as one to another type, const or not."""

    type: CudaType
    const: bool
    operand: Term


@dataclass(frozen=True, slots=True)
class TypeTerm(Term):
    """A type among template arguments, or in sizeof."""

    type: CudaType


def term(value: Operand) -> Term:
    return number(value) if isinstance(value, int) else value


@cache
def number(value: int) -> LiteralTerm:
    return LiteralTerm(str(value))


def terms(values: Sequence[Operand]) -> tuple[Term, ...]:
    return tuple(term(value) for value in values)


def kind(text: str) -> CudaType:
    """A type that CUDA has."""
    return CudaType(text)


def call(function: str, *arguments: Operand) -> Call:
    """A call of a function that CUDA has, or of a local one."""
    return Call(Local(function), terms(arguments))


def cast(to: str | CudaType, operand: Operand) -> Conversion:
    return Conversion(kind(to) if isinstance(to, str) else to, term(operand))


def read(pointer: Term) -> Term:
    """What a pointer points to."""
    return Prefixed("*", pointer)


def address_of(place: Term) -> Term:
    return Prefixed("&", place)


def vector_pointer(to: CudaType, operand: Term, *, const: bool = True) -> Term:
    """A pointer as one to another type."""
    return Reinterpreted(to, const, operand)


def all_of(conditions: Sequence[Term]) -> Term | None:
    """Whether all hold; None where there are none."""
    found: Term | None = None
    for condition in conditions:
        for part in _joined(condition):
            found = part if found is None else Infix("&&", found, part)
    return found


def _joined(condition: Term) -> list[Term]:
    """The conditions that && joins."""
    if isinstance(condition, Infix) and condition.operator == "&&":
        return [*_joined(condition.left), condition.right]
    return [condition]


def any_of(conditions: Sequence[Term]) -> Term:
    found = conditions[0]
    for condition in conditions[1:]:
        found = Infix("||", found, condition)
    return found


BLOCK, THREAD, GRID = Local("blockIdx.x"), Local("threadIdx.x"), Local("gridDim.x")
BLOCK_THREADS = Local("blockDim.x")
TRUE, FALSE = LiteralTerm("true"), LiteralTerm("false")
INT, INT64, UNSIGNED, BOOL, FLOAT = map(kind, ("int", "int64_t", "unsigned", "bool", "float"))
AUTO = kind("auto")
