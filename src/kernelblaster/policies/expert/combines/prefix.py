"""The combine (operation of a scan) of cumsum and the like: each element's result is the reduction of all
elements up to and including it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from kernelblaster.policies.expert.combines.combine import Combine, Running
from kernelblaster.policies.expert.cuda.statements import Declaration, Statement
from kernelblaster.policies.expert.cuda.terms import CudaType, DeviceFunction, Term
from kernelblaster.policies.expert.expression import Kind


@dataclass(frozen=True)
class Prefix(Combine):
    """A scan: each element's result is the reduction `of` over all elements up to it or, with `reverse`, from
    it on; the element itself is included. A stage with this combine has a result for each element; only
    stores that write every element can use it."""

    of: Combine
    reverse: bool = False
    each: ClassVar[bool] = True

    @property
    def placed(self) -> bool:
        return self.of.placed

    def result_kind(self, body: Kind) -> Kind:
        return self.of.result_kind(body)

    def type(self, running: Running) -> CudaType:
        return self.of.type(running)

    def start(self, running: Running) -> Term:
        return self.of.start(running)

    @property
    def join(self) -> DeviceFunction:
        return self.of.join

    def take(self, running: Running, into: Term, value: Term) -> list[Statement]:
        return self.of.take(running, into, value)

    def single(self, running: Running, value: Term) -> Term:
        return self.of.single(running, value)

    def result(self, running: Running, of: Term) -> Declaration:
        return self.of.result(running, of)


class HasCombine(Protocol):
    """Anything with a field `combine`, the operation by which elements become one result. A reduction in a
    kernel is an example."""

    @property
    def combine(self) -> Combine: ...


def is_reversed(stages: Iterable[HasCombine]) -> bool:
    """True if any of `stages` (the reductions and scans of a kernel) is a scan that goes from the last
    element to the first."""
    return any(isinstance(stage.combine, Prefix) and stage.combine.reverse for stage in stages)
