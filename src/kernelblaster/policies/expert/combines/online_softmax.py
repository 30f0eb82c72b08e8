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
        """Implements `Combine.of_parts`: the result is the sum over the `parts` of a part's result times
        exp(the part's largest element - the largest of all elements)."""
        assert parts.beside is not None
        name, largest = parts.beside
        scale = operation("exp", operation("sub", largest, Reduced(name, "real")))
        body = operation("mul", parts.own, scale)
        return [(name, MAX, largest), (parts.name, SUM, body)], Reduced(parts.name, "real")


ONLINE_SOFTMAX = OnlineSoftmax()
