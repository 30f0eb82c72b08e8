"""C++ expressions as a tree of terms.

Python's operators build them: `block * 128 + row` is the term for that expression; numbers become
literals, and what changes nothing (`+ 0`, `* 1`) is left out. A name is either `Local`, declared by the
kernel or by CUDA, or `Given`, a tensor, size or argument passed to the kernel. Where both are alike, the
printer renames the given one."""

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
        """A sum of whole numbers, or of a pointer and an offset; nested sums are rebuilt so that no
        parentheses are needed. Adding 0 gives the term itself."""
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
        """A quotient as in C++: whole numbers are rounded towards zero."""
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
        """A call of this object's method with arguments."""
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
    """A literal, with the text as it appears in the source."""

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
    """A C++ type as text, and the header that defines it (None for CUDA's own types)."""

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
    """A function of the device code, a type that is constructed, or (with no header) a kernel of this source;
    `template` are its template arguments."""

    name: str
    header: Header | None
    template: tuple[Term, ...] = ()

    def __call__(self, *arguments: Operand) -> "Call":
        return Call(self, terms(arguments))

    def of(self, *template: Operand) -> "DeviceFunction":
        """The same function with these template arguments."""
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
    """A reinterpret_cast of a pointer to `type`, const or not."""

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
    """A type that CUDA or C++ defines itself, by its text."""
    return CudaType(text)


def call(function: str, *arguments: Operand) -> Call:
    """A call of a function that CUDA defines, or that the kernel declares, by name."""
    return Call(Local(function), terms(arguments))


def cast(to: str | CudaType, operand: Operand) -> Conversion:
    return Conversion(kind(to) if isinstance(to, str) else to, term(operand))


def read(pointer: Term) -> Term:
    """The value that a pointer points to (`*pointer`)."""
    return Prefixed("*", pointer)


def address_of(place: Term) -> Term:
    return Prefixed("&", place)


def vector_pointer(to: CudaType, operand: Term, *, const: bool = True) -> Term:
    """A pointer cast to a pointer to the type `to` (reinterpret_cast), const unless told otherwise."""
    return Reinterpreted(to, const, operand)


def all_of(conditions: Sequence[Term]) -> Term | None:
    """The conditions joined with &&; None when there are none."""
    found: Term | None = None
    for condition in conditions:
        for part in _joined(condition):
            found = part if found is None else Infix("&&", found, part)
    return found


def _joined(condition: Term) -> list[Term]:
    """The operands of a chain of &&; the condition alone when it is no such chain."""
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
