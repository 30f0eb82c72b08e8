"""The combine (operation of a reduction) for the denominator of a softmax, the sum of exp(x - max), in a
single pass: whenever a larger element comes, the sum so far is rescaled (online softmax)."""

from dataclasses import dataclass

from kernelblaster.policies.expert.combines.arithmetic import MAX, SUM
from kernelblaster.policies.expert.combines.combine import (
    Combine,
    PartResults,
    PartStage,
    Running,
    VectorTake,
)
from kernelblaster.policies.expert.cuda.headers import header
from kernelblaster.policies.expert.cuda.statements import Declaration, Do, Statement, assign, const, declare
from kernelblaster.policies.expert.cuda.terms import (
    Braces,
    CudaType,
    DeviceFunction,
    LiteralTerm,
    Local,
    Term,
    term,
)
from kernelblaster.policies.expert.expression import Expression, Reduced, operation

HEADER = header("exponentials")


@dataclass(frozen=True)
class OnlineSoftmax(Combine):
    """The reduction to the sum of exp(element - largest element). The accumulator has the largest element so
    far, and the sum of exp(element - that one)."""

    @property
    def companion(self) -> tuple[str, Combine]:
        return "largest", MAX

    def type(self, running: Running) -> CudaType:
        return CudaType(f"Exponentials<{running.element}>", HEADER)

    def start(self, running: Running) -> Term:
        return Braces((LiteralTerm("-INFINITY"), term(0)))

    @property
    def join(self) -> DeviceFunction:
        return DeviceFunction("JoinExponentials", HEADER)

    def take(self, running: Running, into: Term, value: Term) -> list[Statement]:
        return [Do(into.call("take", value))]

    def take_vector(self, running: Running, width: str) -> VectorTake:
        own = Local(f"{running.stage}_here")
        return VectorTake(
            lambda value: [assign(own[Local("lane")], value)],
            before=(declare(running.element, own.name, None, Local(width)),),
            after=(Do(running.name.call("take", own)),),
        )

    def given(self, other: Combine) -> str | None:
        return "largest" if other == MAX else None

    def result(self, running: Running, of: Term) -> Declaration:
        return const(running.element, running.stage, of.field("sum"))

    def of_parts(self, parts: PartResults) -> tuple[list[PartStage], Expression]:
        """Returns how to compute the sum of exp(element - largest element) if the reduction was split: its
        elements were cut into parts, and a first kernel has stored for each part its largest element, and the
        sum with that one in place of the largest of all. The result is a sum over the parts: the part's
        stored sum times exp(its largest element - the largest of all). `parts` has the expressions that load
        what was stored. The form of the result is that of `Combine.of_parts`: (list of reductions over the
        parts, final expression)."""
        assert parts.beside is not None
        name, largest = parts.beside
        scale = operation("exp", operation("sub", largest, Reduced(name, "real")))
        body = operation("mul", parts.own, scale)
        return [(name, MAX, largest), (parts.name, SUM, body)], Reduced(parts.name, "real")


ONLINE_SOFTMAX = OnlineSoftmax()
