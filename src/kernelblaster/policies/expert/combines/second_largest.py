"""The combine (operation of a reduction) of `topk` with k = 2: its result is the second largest element, and
its accumulator also has the largest."""

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
    """The reduction to the second largest element; the accumulator has the two largest. If the largest
    element occurs twice, the result is equal to it. If there is only one element, it is the least value of
    the type (-infinity for floating-point numbers). NaN counts as larger than every number."""

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
        """Returns how to find the second largest element if the reduction was split: its elements were cut
        into parts, and a first kernel has stored for each part its largest and its second largest element.
        The result is the larger one of two values: the second largest among the stored largest elements, and
        the largest among the stored second largest ones. `parts` has the expressions that load what was
        stored. The form of the result is that of `Combine.of_parts`: (list of reductions over the parts,
        final expression)."""
        assert parts.beside is not None
        runner_up = f"{parts.name}_of_largest"
        stages: list[PartStage] = [(parts.name, MAX, parts.own), (runner_up, self, parts.beside[1])]
        kind = parts.own.kind
        return stages, operation("max", Reduced(parts.name, kind), Reduced(runner_up, kind), kind=kind)

    def _least(self, running: Running) -> Term:
        return LiteralTerm(STARTS[running.kind]["max"])


SECOND_LARGEST = SecondLargest()
