"""Turns symbolic indices, and the expressions that a kernel computes, into C++ expressions
(cuda/terms.py)."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from kernelblaster.policies.expert.cuda.headers import header
from kernelblaster.policies.expert.cuda.terms import (
    INT64,
    Choice,
    Conversion,
    CudaType,
    DeviceFunction,
    Given,
    Infix,
    LiteralTerm,
    Local,
    Prefixed,
    Term,
    call,
    cast,
    kind,
    number,
)
from kernelblaster.policies.expert.emission.functions import scale_for
from kernelblaster.policies.expert.expression import (
    Argument,
    Counted,
    Expression,
    Gather,
    Kind,
    Load,
    Number,
    Operation,
    Reduced,
    address,
)
from kernelblaster.policies.expert.index import Index, row_major
from kernelblaster.policies.expert.plan import Buffer, Plan
from kernelblaster.records.signature import Dtype
from kernelblaster.tasks.header import C_TYPES

EXTREMES = header("nan_extremes")
NAN_EXTREMES = {name: DeviceFunction(f"nan_{name}", EXTREMES) for name in ("max", "min")}
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<="}
INFIX |= {"gt": ">", "ge": ">=", "and": "&&", "or": "||"}
INFIX |= {"bit_and": "&", "bit_or": "|", "bit_xor": "^", "shift_left": "<<", "shift_right": ">>"}
# Functions of CUDA that have an f behind their names for float.
FUNCTIONS = {"abs": "fabs", "sqrt": "sqrt", "rsqrt": "rsqrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1"}
FUNCTIONS |= {"log": "log", "log1p": "log1p", "log2": "log2", "pow": "pow", "erf": "erf", "tanh": "tanh"}
FUNCTIONS |= {"sin": "sin", "cos": "cos", "floor": "floor", "ceil": "ceil", "fmod": "fmod"}
FUNCTIONS |= {"trunc": "trunc", "round": "rint", "log10": "log10", "erfc": "erfc", "atan2": "atan2"}
FUNCTIONS |= {
    name: name for name in ("tan", "acos", "asin", "atan", "sinh", "cosh", "acosh", "asinh", "atanh")
}
ZERO_TERM, NOTHING = LiteralTerm("0"), {"float": LiteralTerm("0.0f"), "double": LiteralTerm("0.0")}


def c_type(dtype: Dtype) -> CudaType:
    return CudaType(C_TYPES[dtype])


def index_term(
    index: Index, sizes: Collection[str], lookup: Callable[[Expression], Term] | None = None
) -> Term:
    """Returns the C++ expression of a symbolic index. Names in `sizes` are parameters of the kernel, all
    other names are its variables. If the index contains values that are read from tensors, `lookup` gives the
    C++ expression of such a value; otherwise it may be None."""
    match index.operator:
        case "int":
            return number(index.value)
        case "name":
            return Given(index.name) if index.name in sizes else Local(index.name)
        case "element":
            return Local(index.name)[index_term(index.operands[0], sizes)]
        case "lookup":
            assert lookup is not None
            return lookup(index.key)  # type: ignore[arg-type]
    left, right = (index_term(operand, sizes, lookup) for operand in index.operands)
    if index.operator == "min":
        parts = (cast(INT64, part) if isinstance(part, LiteralTerm) else part for part in (left, right))
        return call("min", *parts)
    return Infix(index.operator, left, right)


@dataclass(frozen=True)
class Values:
    """Turns the values that a kernel computes into C++ expressions. `buffers` are all tensors and scratch
    buffers of the plan by name; `sizes` are the names of tensor sizes; `real` is the C++ type of
    floating-point arithmetic.

    `whole` and `whole_element` are for kernels that go through memory in order. `whole` is the position of
    the current element, an index for each dimension. A tensor that is accessed at exactly this position needs
    no computed index: `whole_element` gives the C++ expression of its element, from the tensor's name. For
    all other kernels, `whole` is None."""

    buffers: Mapping[str, Buffer]
    sizes: Collection[str]
    real: str = "float"
    whole: tuple[Index, ...] | None = None
    whole_element: Callable[[str], Term] = lambda buffer: Given(buffer)[Local("i")]

    @property
    def real_type(self) -> CudaType:
        return kind(self.real)

    def type(self, kind_: Kind) -> CudaType:
        """Returns the C++ type in which values of a kind are computed: `real` (float or double) for "real",
        int64_t for "whole", and bool for "truth"."""
        return {"real": self.real_type, "whole": INT64, "truth": kind("bool")}[kind_]

    def expression(self, expression: Expression) -> Term:
        if isinstance(expression, Operation):
            return self._operation(expression)
        if isinstance(expression, Number):
            return self._number(expression)
        if isinstance(expression, Counted):
            return self.index(expression.index)
        if isinstance(expression, Argument):
            given = Given(expression.name)
            return cast(self.real, given) if expression.kind == "real" else given
        if isinstance(expression, Reduced):
            return Local(expression.stage)
        return self._load(expression)

    def index(self, index: Index) -> Term:
        """Returns the C++ expression of a symbolic index, which may contain elements read from tensors."""
        return index_term(index, self.sizes, self.expression)

    def place(self, buffer: str, position: tuple[Index, ...]) -> Term:
        """Returns the C++ lvalue (an expression that can be assigned to) `buffer[...]` for the element at
        `position` (an index for each dimension) of the buffer."""
        if position == self.whole:
            return self.whole_element(buffer)
        return Given(buffer)[self.index(row_major(position, self.buffers[buffer].shape))]

    def element(self, load: Load | Gather) -> Term:
        """Returns the C++ expression of the element that `load` reads, in the type in which the tensor stores
        it (not yet converted to that of the arithmetic)."""
        if isinstance(load, Load):
            return self.place(load.buffer, load.position)
        return Given(load.buffer)[self.index(self.address(load))]

    def address(self, load: Load | Gather) -> Index:
        """Returns the offset in elements, within its buffer, of the element that `load` reads, as a symbolic
        index."""
        return address(load, self.buffers[load.buffer].shape)

    def _load(self, load: Load | Gather) -> Term:
        element = self.element(load)
        dtype = self.buffers[load.buffer].dtype
        if load.kind == "real" and dtype in ("float16", "bfloat16"):
            return cast(self.real, element)
        return cast(INT64, element) if load.kind == "whole" and dtype != "int64" else element

    def _operation(self, operation: Operation) -> Term:
        parts = [self.expression(part) for part in operation.operands]
        name = operation.name
        if name in INFIX:
            return Infix(INFIX[name], parts[0], parts[1])
        whole = all(part.kind == "whole" for part in operation.operands)
        if name in ("max", "min"):
            if not whole:
                return NAN_EXTREMES[name](*parts)
            first, second = parts
            return Choice(first > second if name == "max" else first < second, first, second)
        if whole and name in ("abs", "fmod"):
            return call("llabs", *parts) if name == "abs" else Infix("%", *parts)
        if name in FUNCTIONS:
            return call(FUNCTIONS[name] + ("f" if self.real == "float" else ""), *parts)
        return self._other(name, parts)

    def _other(self, name: str, parts: list[Term]) -> Term:
        match name:
            case "where":
                return Choice(*parts)
            case "scale_for":
                return scale_for(*parts)
            case "neg" | "not":
                return Prefixed("-" if name == "neg" else "!", parts[0])
            case "to_truth":
                return Infix("!=", parts[0], ZERO_TERM)
            case "to_real" | "to_whole":
                return Conversion(self.real_type if name == "to_real" else INT64, parts[0])
        return call(name, *parts)  # isnan, isinf

    def _number(self, number: Number) -> Term:
        if number.kind == "truth":
            return LiteralTerm("true" if number.value else "false")
        if number.kind == "whole":
            return LiteralTerm(str(int(number.value)))
        value = float(number.value)
        if math.isinf(value):
            return LiteralTerm("-INFINITY" if value < 0 else "INFINITY")
        if math.isnan(value):
            return LiteralTerm("NAN")
        return LiteralTerm(f"{value!r}f" if self.real == "float" else repr(value))


def values_of(plan: Plan) -> Values:
    return Values(plan.buffers, plan.sizes[0], plan.real)
