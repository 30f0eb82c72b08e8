"""The combine of `topk` with k = 2: the second largest element, with the largest one beside it."""

from dataclasses import dataclass

from kernelblaster.policies.expert.combines.arithmetic import MAX, STARTS
from kernelblaster.policies.expert.combines.combine import Combine, PartResults, PartStage, Running
from kernelblaster.policies.expert.cuda.headers import Header
from kernelblaster.policies.expert.cuda.statements import Declaration, Statement, assign, const
from kernelblaster.policies.expert.cuda.terms import (
    Braces,
    Call,
    CudaType,
    DeviceFunction,
    LiteralTerm,
    Term,
)
from kernelblaster.policies.expert.expression import Expression, Reduced, operation

HEADER = Header(
    "largest_two",
    """\
// The two largest of some values, which may be equal; NaN is larger than every number.
template <typename T>
struct LargestTwo {
  T first, second;
};

struct JoinLargestTwo {
  template <typename T>
  __device__ static T larger(T a, T b) { return b > a || b != b ? b : a; }
  template <typename T>
  __device__ static T smaller(T a, T b) { return b > a || b != b ? a : b; }

  template <typename T>
  __device__ LargestTwo<T> operator()(LargestTwo<T> a, LargestTwo<T> b) const {
    return {larger(a.first, b.first), larger(smaller(a.first, b.first), larger(a.second, b.second))};
  }
};""",
)


@dataclass(frozen=True)
class SecondLargest(Combine):
    """Keeps the two largest elements; the result is the second. If the largest element occurs twice, it is
    that one again; if there is only one element, the smallest number of the type."""

    @property
    def companion(self) -> tuple[str, Combine]:
        return "largest", MAX

    def type(self, running: Running) -> CudaType:
        return CudaType(f"LargestTwo<{running.element}>", HEADER)

    def start(self, running: Running) -> Term:
        least = self._least(running)
        return Braces((least, least))

    @property
    def join(self) -> DeviceFunction:
        return DeviceFunction("JoinLargestTwo", HEADER)

    def take(self, running: Running, into: Term, value: Term) -> list[Statement]:
        return [assign(into, Call(self.join(), (into, self.single(running, value))))]

    def single(self, running: Running, value: Term) -> Term:
        return Braces((value, self._least(running)), self.type(running))

    def given(self, other: Combine) -> str | None:
        return "first" if other == MAX else None

    def result(self, running: Running, of: Term) -> Declaration:
        return const(running.element, running.stage, of.field("second"))

    def of_parts(self, parts: PartResults) -> tuple[list[PartStage], Expression]:
        """The second largest of the parts' largest elements, or the largest of their second ones, whichever
        is larger."""
        assert parts.beside is not None
        runner_up = f"{parts.name}_of_largest"
        stages: list[PartStage] = [(parts.name, MAX, parts.own), (runner_up, self, parts.beside[1])]
        kind = parts.own.kind
        return stages, operation("max", Reduced(parts.name, kind), Reduced(runner_up, kind), kind=kind)

    def _least(self, running: Running) -> Term:
        return LiteralTerm(STARTS[running.kind]["max"])


SECOND_LARGEST = SecondLargest()
