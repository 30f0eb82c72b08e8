"""Combines (operations of reductions) that apply one binary operation again and again: sum, product, max,
min, any, all."""

from dataclasses import dataclass
from functools import cache

from kernelblaster.policies.expert.combines.combine import Combine, Running, VectorTake
from kernelblaster.policies.expert.cuda.headers import Header
from kernelblaster.policies.expert.cuda.statements import Assignment, Statement, add_to, assign, declare
from kernelblaster.policies.expert.cuda.terms import (
    Call,
    CudaType,
    DeviceFunction,
    LiteralTerm,
    Local,
    Term,
    cast,
    kind,
)

STARTS = {
    "real": {"sum": "0", "product": "1", "max": "-INFINITY", "min": "INFINITY"},
    "whole": {"sum": "0", "product": "1", "max": "INT64_MIN", "min": "INT64_MAX"},
    "truth": {"any": "false", "all": "true", "max": "false", "min": "true"},
}
FUNCTORS = {
    "sum": ("Sum", "a + b"),
    "product": ("Product", "a * b"),
    "max": ("Largest", "b > a || b != b ? b : a"),  # NaN wins, as in PyTorch
    "min": ("Smallest", "b < a || b != b ? b : a"),
    "any": ("Any", "a || b"),
    "all": ("All", "a && b"),
}


@cache
def _functor(name: str, value: str, truth: bool) -> DeviceFunction:
    if truth:
        text = (
            f"struct {name} {{\n  __device__ bool operator()(bool a, bool b) const {{ return {value}; }}\n}};"
        )
    else:
        text = (
            f"struct {name} {{\n  template <typename T>\n"
            f"  __device__ T operator()(T a, T b) const {{ return {value}; }}\n}};"
        )
    return DeviceFunction(name, Header(name, text))


@dataclass(frozen=True)
class Arithmetic(Combine):
    """A reduction by one binary operation; its `name` is sum, product, max, min, any or all."""

    name: str

    @property
    def may_be_wide(self) -> bool:
        return self == SUM

    def type(self, running: Running) -> CudaType:
        return kind("double") if running.wide else running.element

    def start(self, running: Running) -> Term:
        return LiteralTerm(STARTS[running.kind][self.name])

    @property
    def join(self) -> DeviceFunction:
        return _functor(*FUNCTORS[self.name], self.name in ("any", "all"))

    def take(self, running: Running, into: Term, value: Term) -> list[Statement]:
        if self == SUM:
            return [add_to(into, value)]
        if self == PRODUCT:
            return [Assignment(into, value, "*=")]
        joined = Call(self.join(), (into, cast(self.type(running), value)))
        return [assign(into, joined)]

    def take_vector(self, running: Running, width: str) -> VectorTake:
        if not running.wide:
            return super().take_vector(running, width)
        own = Local(f"{running.stage}_here")  # a vector is summed up in its own type first
        return VectorTake(
            lambda value: self.take(running, own, value),
            before=(declare(running.element, own.name, 0),),
            after=(add_to(running.name, own),),
        )


SUM, PRODUCT, MAX, MIN, ANY, ALL = map(Arithmetic, ("sum", "product", "max", "min", "any", "all"))
