"""C++ expressions as a syntax tree; its nodes are called terms.

Python's operators build them: `block * 128 + row` is the term for that C++ expression. Python numbers become
literals; `+ 0` and `* 1` are left out. There are two kinds of names: `Local`, declared by the kernel or by
CUDA, and `Given`, a parameter of the kernel (tensor, size or argument). If a kernel has both with the same
name, the printer renames the parameter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Union

from kernelblaster.policies.expert.cuda.headers import Header

Operand = Union["Term", int]


class Term:
    """A node of the syntax tree of a C++ expression. Python's operators on terms build larger terms."""

    __slots__ = ()

    def __add__(self, other: Operand) -> "Term":
        """The C++ sum `self + other` of whole numbers, or of a pointer and an offset. a + (b - c) becomes (a
        + b) - c, so that no parentheses are needed; adding 0 gives the term itself."""
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
        """The C++ quotient `self / other`, in which whole numbers are rounded towards zero."""
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
        """Returns the C++ call `self.method(arguments)`."""
        return Call(Field(self, method), terms(arguments))


@dataclass(frozen=True, slots=True)
class Local(Term):
    """A C++ name that the kernel's body declares, or that CUDA defines (such as `threadIdx.x`)."""

    name: str


@dataclass(frozen=True, slots=True)
class Given(Term):
    """A parameter of the kernel (tensor, size or argument), by its name in the host's launch function."""

    name: str


@dataclass(frozen=True, slots=True)
class LiteralTerm(Term):
    """A C++ literal, with its `text` as it appears in the source (`128`, `0.5f`)."""

    text: str


@dataclass(frozen=True, slots=True)
class Prefixed(Term):
    """A C++ prefix operator (one of - ! * & ++) applied to `operand`."""

    operator: str
    operand: Term


@dataclass(frozen=True, slots=True)
class Infix(Term):
    operator: str
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Choice(Term):
    """The C++ conditional expression `condition ? yes : no`."""

    condition: Term
    yes: Term
    no: Term


@dataclass(frozen=True, slots=True)
class CudaType:
    """A C++ type as text. `needs` is the header (a piece of device code) that defines it; None for types of
    C++ and CUDA."""

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
    """The name of a C++ function or type, as a term. `header` is the device code that defines it; None for a
    kernel in the same source. `template` are its template arguments. Calling this object in Python returns
    the term for a C++ call of the function."""

    name: str
    header: Header | None
    template: tuple[Term, ...] = ()

    def __call__(self, *arguments: Operand) -> "Call":
        return Call(self, terms(arguments))

    def of(self, *template: Operand) -> "DeviceFunction":
        """Returns the same C++ function with the template arguments `template`."""
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
    """A C++ initializer with these `items` in braces: `{a, b}`, or `Type{a, b}` when `type` is set."""

    items: tuple[Term, ...] = ()
    type: CudaType | None = None


@dataclass(frozen=True, slots=True)
class Reinterpreted(Term):
    """The C++ cast `reinterpret_cast<type*>(operand)`, to `const type*` when `const`."""

    type: CudaType
    const: bool
    operand: Term


@dataclass(frozen=True, slots=True)
class TypeTerm(Term):
    """A C++ type in a place where an expression is expected: as a template argument, or in sizeof."""

    type: CudaType


def term(value: Operand) -> Term:
    return number(value) if isinstance(value, int) else value


@cache
def number(value: int) -> LiteralTerm:
    return LiteralTerm(str(value))


def terms(values: Sequence[Operand]) -> tuple[Term, ...]:
    return tuple(term(value) for value in values)


def kind(text: str) -> CudaType:
    """Returns the C++ type `text` that C++ or CUDA itself defines, such as `int64_t`."""
    return CudaType(text)


def call(function: str, *arguments: Operand) -> Call:
    """Returns the C++ call `function(arguments)` of a function that CUDA defines or that the kernel
    declares."""
    return Call(Local(function), terms(arguments))


def cast(to: str | CudaType, operand: Operand) -> Conversion:
    return Conversion(kind(to) if isinstance(to, str) else to, term(operand))


def read(pointer: Term) -> Term:
    """Returns the C++ expression `*pointer`."""
    return Prefixed("*", pointer)


def address_of(place: Term) -> Term:
    return Prefixed("&", place)


def vector_pointer(to: CudaType, operand: Term, *, const: bool = True) -> Term:
    """Returns the C++ cast `reinterpret_cast<const to*>(operand)` of a pointer; to `to*` when `const` is
    false."""
    return Reinterpreted(to, const, operand)


def all_of(conditions: Sequence[Term]) -> Term | None:
    """Returns the C++ expression of the `conditions` joined with &&; None when there are none."""
    found: Term | None = None
    for condition in conditions:
        for part in _joined(condition):
            found = part if found is None else Infix("&&", found, part)
    return found


def _joined(condition: Term) -> list[Term]:
    """The operands of a C++ expression `a && b && ...`; the condition alone when it is no such chain."""
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
