"""The combine (operation of a reduction) of argmax and argmin: its result is the index of the largest or
smallest element."""

from dataclasses import dataclass
from functools import cache

from kernelblaster.policies.expert.combines.arithmetic import MAX, MIN
from kernelblaster.policies.expert.combines.combine import Combine, PartResults, PartStage, Running
from kernelblaster.policies.expert.cuda.headers import Header
from kernelblaster.policies.expert.cuda.statements import Declaration, Statement, assign, const, when
from kernelblaster.policies.expert.cuda.terms import (
    INT64,
    Braces,
    Call,
    CudaType,
    DeviceFunction,
    Infix,
    LiteralTerm,
    Local,
    Prefixed,
    Term,
    term,
)
from kernelblaster.policies.expert.expression import Expression, Kind

PLACED = Header(
    "placed",
    """\
// A value and where it was found; place -1 is nothing yet. The first of equal values wins.
template <typename T>
struct Placed {
  T value;
  int64_t place;
};""",
)


@cache
def _functor(name: str, better: str, tie: str) -> DeviceFunction:
    text = (
        f"struct {name} {{\n  template <typename T>\n"
        "  __device__ Placed<T> operator()(Placed<T> a, Placed<T> b) const {\n"
        "    if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;\n"
        f"    if ({better}) return b;\n"
        f"    return {tie} ? b : a;\n  }}\n}};"
    )
    return DeviceFunction(name, Header(name, text, (PLACED,)))


@dataclass(frozen=True)
class PlaceOf(Combine):
    """The reduction to the index of the largest element if `largest`, else of the smallest. NaN counts as
    better than every number. Of equal elements, or several NaNs, the first one's index is the result; with
    `last`, as for the indices of cummax and cummin, the last one's."""

    largest: bool
    last: bool = False

    @property
    def placed(self) -> bool:
        return True

    @property
    def companion(self) -> tuple[str, Combine]:
        return "value", MAX if self.largest else MIN

    def result_kind(self, body: Kind) -> Kind:
        return "whole"

    def type(self, running: Running) -> CudaType:
        return CudaType(f"Placed<{running.element}>", PLACED)

    def start(self, running: Running) -> Term:
        return Braces((term(0), LiteralTerm("-1")))

    @property
    def join(self) -> DeviceFunction:
        sign, name = (">", "Largest") if self.largest else ("<", "Smallest")
        if self.last:
            later = f"a.value == a.value && b.value {sign}= a.value"
            return _functor(f"Last{name}", "b.value != b.value", later)
        worse = "<" if self.largest else ">"
        better = f"!(b.value {worse}= a.value) && a.value == a.value"
        tie = f"!(a.value {sign} b.value) && (a.value == a.value || b.value != b.value) && b.place < a.place"
        return _functor(f"First{name}", better, tie)

    def take(self, running: Running, into: Term, value: Term) -> list[Statement]:
        """Returns C++ statements that compare the element `value`, at the index `running.place`, with the
        best element so far. The accumulator `into` holds that best element and its index. If `value` is
        better, `value` and its index are stored there instead. Unless the field `last` is set, each thread
        must visit its elements in ascending order, so that of equal elements the first one stays."""
        if self.last:
            return [assign(into, Call(self.join(), (into, self.single(running, value))))]
        found = Local(f"{running.stage}_value")
        best = into.field("value")
        no_better = found <= best if self.largest else found >= best
        beaten = Infix("&&", Prefixed("!", no_better), best.equals(best))  # false after a NaN
        wins = Infix("||", into.field("place") < 0, beaten)
        return [
            const(running.element, found.name, value),
            when(wins, assign(into, Braces((found, running.place)))),
        ]

    def single(self, running: Running, value: Term) -> Term:
        return Braces((value, running.place), self.type(running))

    def result(self, running: Running, of: Term) -> Declaration:
        return const(INT64, running.stage, of.field("place"))

    def of_parts(self, parts: PartResults) -> tuple[list[PartStage], Expression]:
        """Returns how to find the index of the best element if the reduction was split: its elements were cut
        into parts, and a first kernel has stored for each part its best value and the index of that. One
        further reduction goes over the parts' best values and finds the number of the part that has the best
        of all; the final expression loads the index that this part has stored. `parts` has the expressions
        that load what was stored. The form of the result is that of `Combine.of_parts`: (list of reductions,
        final expression)."""
        assert parts.beside is not None
        winner = f"{parts.name}_part"
        return [(winner, self, parts.beside[1])], parts.chosen(winner)


ARGMAX, ARGMIN = PlaceOf(True), PlaceOf(False)
LAST_ARGMAX, LAST_ARGMIN = PlaceOf(True, last=True), PlaceOf(False, last=True)
