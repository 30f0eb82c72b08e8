"""The combine of softmax's denominator, the sum of exp(x - max), in one pass: the sum is rescaled whenever a
larger element comes (online softmax)."""

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
    """The sum of exp(element - largest element). The accumulator has the largest element so far and the sum
    relative to it."""

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
        """As `Combine.of_parts`: adds the sums of the `parts`, each times exp(its largest element - the
        largest of all)."""
        assert parts.beside is not None
        name, largest = parts.beside
        scale = operation("exp", operation("sub", largest, Reduced(name, "real")))
        body = operation("mul", parts.own, scale)
        return [(name, MAX, largest), (parts.name, SUM, body)], Reduced(parts.name, "real")


ONLINE_SOFTMAX = OnlineSoftmax()
