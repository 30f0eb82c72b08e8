"""The combine (operation of a reduction) from which a variance is computed: the sum of the squared
differences of all elements from their mean, in a single pass over the elements."""

from dataclasses import dataclass

from kernelblaster.policies.expert.combines.arithmetic import SUM
from kernelblaster.policies.expert.combines.combine import (
    Combine,
    PartResults,
    PartStage,
    Running,
    VectorTake,
)
from kernelblaster.policies.expert.cuda.headers import header
from kernelblaster.policies.expert.cuda.statements import (
    Declaration,
    Do,
    Statement,
    add_to,
    assign,
    const,
    declare,
)
from kernelblaster.policies.expert.cuda.terms import (
    Braces,
    CudaType,
    DeviceFunction,
    LiteralTerm,
    Local,
    Term,
    cast,
    kind,
    term,
)
from kernelblaster.policies.expert.expression import Expression, Reduced, operation

HEADER, DOUBLE = header("moments"), kind("double")
NAN_MAX = DeviceFunction("nan_max", header("nan_extremes"))


@dataclass(frozen=True)
class Moments(Combine):
    """The reduction to the sum of the squared differences of the elements from their mean; the result is at
    least 0. The accumulator has the sum of the elements and the sum of their squares, both in double.
    Arithmetic in double is slow. Where elements come as vectors, a thread therefore takes several vectors
    together: it subtracts one of their elements from all, sums in the elements' own type, and only then adds
    to the accumulator."""

    @property
    def companion(self) -> tuple[str, Combine]:
        return "sum", SUM

    def type(self, running: Running) -> CudaType:
        return CudaType("Moments", HEADER)

    def start(self, running: Running) -> Term:
        return Braces((term(0), term(0)))

    @property
    def join(self) -> DeviceFunction:
        return DeviceFunction("JoinMoments", HEADER)

    def take(self, running: Running, into: Term, value: Term) -> list[Statement]:
        found = Local(f"{running.stage}_value")
        return [
            const(DOUBLE, found.name, value),
            add_to(into.field("sum"), found),
            add_to(into.field("squares"), found * found),
        ]

    def take_vector(self, running: Running, width: str) -> VectorTake:
        own, found = Local(f"{running.stage}_here"), Local(f"{running.stage}_found")
        differences = CudaType(f"Differences<{running.element}>", HEADER)
        return VectorTake(
            lambda value: [assign(own[Local("lane")], value)],
            first=(declare(differences, found.name),),
            before=(declare(running.element, own.name, None, Local(width)),),
            after=(Do(found.call("take", own)),),
            last=(assign(running.name, found.call("moments")),),
        )

    def given(self, other: Combine) -> str | None:
        return "sum" if other == SUM else None

    def result(self, running: Running, of: Term) -> Declaration:
        total = of.field("sum")
        left = of.field("squares") - total * total / cast(DOUBLE, running.count)
        return const(running.element, running.stage, NAN_MAX(left, LiteralTerm("0.0")))

    def of_parts(self, parts: PartResults) -> tuple[list[PartStage], Expression]:
        """Returns how to compute the sum of squared differences from the mean if the reduction was split: its
        elements were cut into parts, and a first kernel has stored that sum for each part, about the part's
        own mean, and the plain sum of its elements. By Chan's formula, the result is a sum over the parts:
        the part's stored sum of squares, plus its number of elements times the squared difference of its mean
        from the overall mean. `parts` has the expressions that load what was stored. The form of the result
        is that of `Combine.of_parts`: (list of reductions over the parts, final expression)."""
        assert parts.beside is not None
        name, sums = parts.beside
        mean = operation("div", Reduced(name, "real"), parts.whole)
        away = operation("sub", operation("div", sums, parts.members), mean)
        body = operation("add", parts.own, operation("mul", parts.members, operation("mul", away, away)))
        return [(name, SUM, sums), (parts.name, SUM, body)], Reduced(parts.name, "real")


MOMENTS = Moments()
