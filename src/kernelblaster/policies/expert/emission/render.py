"""Expressions as CUDA text."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kernelblaster.policies.expert.expression import (
    Argument,
    Counted,
    Expression,
    Gather,
    Load,
    Number,
    Operation,
    Reduced,
    address,
    walk,
)
from kernelblaster.policies.expert.index import Index, row_major, text
from kernelblaster.policies.expert.plan import Buffer, Kernel, Plan

# {f} is the suffix of functions for float; operands are already in parentheses where needed.
FORMS = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "abs": "fabs{f}({0})",
    "sqrt": "sqrt{f}({0})",
    "rsqrt": "rsqrt{f}({0})",
    "exp": "exp{f}({0})",
    "exp2": "exp2{f}({0})",
    "expm1": "expm1{f}({0})",
    "log": "log{f}({0})",
    "log1p": "log1p{f}({0})",
    "log2": "log2{f}({0})",
    "pow": "pow{f}({0}, {1})",
    "erf": "erf{f}({0})",
    "tanh": "tanh{f}({0})",
    "sin": "sin{f}({0})",
    "cos": "cos{f}({0})",
    "floor": "floor{f}({0})",
    "ceil": "ceil{f}({0})",
    "fmod": "fmod{f}({0}, {1})",
    "max": "nan_max({0}, {1})",
    "min": "nan_min({0}, {1})",
    "isnan": "isnan({0})",
    "isinf": "isinf({0})",
    "where": "{0} ? {1} : {2}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "and": "{0} && {1}",
    "or": "{0} || {1}",
    "not": "!{0}",
    "to_real": "({real}){0}",
    "to_whole": "(int64_t){0}",
    "to_truth": "{0} != 0",
}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
WHOLE_FORMS = {
    "max": "({0} > {1} ? {0} : {1})",
    "min": "({0} < {1} ? {0} : {1})",
    "abs": "llabs({0})",
}


@dataclass(frozen=True)
class Renderer:
    """Renders for one kernel. `real` is its arithmetic type. Where a tensor is walked in order, at the
    position `whole`, its element is written as `whole_form` says."""

    buffers: Mapping[str, Buffer]
    real: str = "float"
    whole: tuple[Index, ...] | None = None
    whole_form: str = "{buffer}[i]"

    def expression(self, expression: Expression) -> str:
        if isinstance(expression, Operation):
            return self._operation(expression)
        if isinstance(expression, Number):
            return self._number(expression)
        if isinstance(expression, Counted):
            return text(expression.index)
        if isinstance(expression, Argument):
            return f"({self.real}){expression.name}" if expression.kind == "real" else expression.name
        if isinstance(expression, Reduced):
            return expression.stage
        return self._load(expression)

    def place(self, buffer: str, position: tuple[Index, ...]) -> str:
        """The element of a buffer, as something that can be read or assigned."""
        if position == self.whole:
            return self.whole_form.format(buffer=buffer)
        return f"{buffer}[{text(row_major(position, self.buffers[buffer].shape))}]"

    def element(self, load: Load | Gather) -> str:
        """What is read, before it is converted to the arithmetic's type."""
        if isinstance(load, Load):
            return self.place(load.buffer, load.position)
        return f"{load.buffer}[{self.index(self.address(load))}]"

    def address(self, load: Load | Gather) -> Index:
        """The linear index of a loaded element in its buffer."""
        return address(load, self.buffers[load.buffer].shape)

    def index(self, index: Index) -> str:
        """An index as a CUDA expression, with the loads that it contains."""
        return text(index, self.expression)

    def _load(self, load: Load | Gather) -> str:
        element = self.element(load)
        dtype = self.buffers[load.buffer].dtype
        if load.kind == "real" and dtype in ("float16", "bfloat16"):
            return f"({self.real}){element}"
        return f"(int64_t){element}" if load.kind == "whole" and dtype != "int64" else element

    def _operation(self, operation: Operation) -> str:
        whole = all(part.kind == "whole" for part in operation.operands)
        form = WHOLE_FORMS.get(operation.name) if whole else None
        form = form or FORMS[operation.name]
        function = form[0].isalpha()
        parts = []
        for part in operation.operands:
            rendered = self.expression(part)
            bare = function or not _compound(part) or _binds_tighter(part, operation)
            parts.append(rendered if bare else f"({rendered})")
        return form.format(*parts, f="f" if self.real == "float" else "", real=self.real)

    def _number(self, number: Number) -> str:
        if number.kind == "truth":
            return "true" if number.value else "false"
        if number.kind == "whole":
            return str(int(number.value))
        value = float(number.value)
        if math.isinf(value):
            return "-INFINITY" if value < 0 else "INFINITY"
        if math.isnan(value):
            return "NAN"
        return f"{value!r}f" if self.real == "float" else repr(value)


def _binds_tighter(inner: Expression, outer: Operation) -> bool:
    products = isinstance(inner, Operation) and inner.name in ("mul", "div")
    return products and outer.name in ("add", "sub", *COMPARISONS)


def _compound(expression: Expression) -> bool:
    """Whether an operand needs parentheses; calls and casts do not."""
    if isinstance(expression, Operation):
        return not FORMS[expression.name][0].isalpha() and expression.name not in ("to_real", "to_whole")
    if isinstance(expression, Counted):
        return expression.index.operator not in ("int", "name")
    return isinstance(expression, Number) and float(expression.value) < 0


def renderer(plan: Plan) -> Renderer:
    return Renderer(plan.buffers, plan.real)


def takes_extremes(kernel: Kernel) -> bool:
    """Whether a kernel calls nan_max or nan_min: largest and smallest numbers of which NaN wins."""
    parts = [part for expression in kernel.expressions for part in walk(expression)]
    found = [part for part in parts if isinstance(part, Operation) and part.name in ("max", "min")]
    real = any(operand.kind != "whole" for part in found for operand in part.operands)
    return real or any(stage.combine == "variation" for stage in kernel.stages)
