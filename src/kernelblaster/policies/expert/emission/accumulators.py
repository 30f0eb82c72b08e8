"""Running results: what a stage's reduction keeps while it goes over the elements."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.emission.loops import count
from kernelblaster.policies.expert.plan import Axis, Kernel, Plan, Stage
from kernelblaster.policies.expert.schedule import Accumulating

FUNCTORS = {
    "sum": ("Sum", "a + b"),
    "product": ("Product", "a * b"),
    "max": ("Largest", "b > a || b != b ? b : a"),  # NaN wins, as in PyTorch
    "min": ("Smallest", "b < a || b != b ? b : a"),
    "any": ("Any", "a || b"),
    "all": ("All", "a && b"),
}
PLACED_FUNCTORS = {
    "argmax": ("FirstLargest", "b.value > a.value"),
    "argmin": ("FirstSmallest", "b.value < a.value"),
}
STARTS = {
    "real": {"sum": "0", "product": "1", "max": "-INFINITY", "min": "INFINITY"},
    "whole": {"sum": "0", "product": "1", "max": "INT64_MIN", "min": "INT64_MAX"},
    "truth": {"any": "false", "all": "true", "max": "false", "min": "true"},
}
GIVEN = {"variation": ("sum", "sum"), "exponentials": ("max", "largest")}
PLACED = """\
// A value and where it was found; place -1 is nothing yet. The first of equal values wins.
template <typename T>
struct Placed {
  T value;
  int64_t place;
};"""


@dataclass(frozen=True)
class Taken:
    """How elements are taken in vectors: statements before all of them, before and after those of each, and
    after all. An element is taken into the result named `running`, or by the statement `element`, which has a
    place for it."""

    first: Sequence[str] = ()
    before: Sequence[str] = ()
    running: str = ""
    element: str = ""
    after: Sequence[str] = ()
    last: Sequence[str] = ()


@dataclass(frozen=True)
class Accumulator:
    """A stage's running result in C. `kind` is the type of its elements, `place` the number of an element
    within the reduction, `count` how many there are. An `exact` sum is kept in double."""

    stage: Stage
    kind: str
    place: str
    count: str
    exact: bool

    @property
    def name(self) -> str:
        return f"{self.stage.name}_so_far"

    @property
    def type(self) -> str:
        if self.stage.combine in PLACED_FUNCTORS:
            return f"Placed<{self.kind}>"
        if self.stage.combine == "variation":
            return "Moments"
        if self.stage.combine == "exponentials":
            return f"Exponentials<{self.kind}>"
        return "double" if self.exact else self.kind

    @property
    def start(self) -> str:
        if self.stage.combine in PLACED_FUNCTORS:
            return "{0, -1}"
        if self.stage.combine == "variation":
            return "{0, 0}"
        if self.stage.combine == "exponentials":
            return "{-INFINITY, 0}"
        return STARTS[self.stage.body.kind][self.stage.combine]

    @property
    def functor(self) -> str:
        """What combines two running results."""
        joined = {"variation": "JoinMoments", "exponentials": "JoinExponentials"}
        if self.stage.combine in joined:
            return joined[self.stage.combine]
        return (FUNCTORS | PLACED_FUNCTORS)[self.stage.combine][0]

    def take(self, running: str, value: str) -> list[str]:
        """Statements that take one element into a running result."""
        if self.stage.combine == "sum":
            return [f"{running} += {value};"]
        if self.stage.combine == "product":
            return [f"{running} *= {value};"]
        if self.stage.combine == "variation":
            return [
                f"const double {self.stage.name}_value = {value};",
                f"{running}.sum += {self.stage.name}_value;",
                f"{running}.squares += {self.stage.name}_value * {self.stage.name}_value;",
            ]
        if self.stage.combine in PLACED_FUNCTORS:  # a thread takes its elements in order
            sign = ">" if self.stage.combine == "argmax" else "<"
            found = f"{running}.place < 0 || {self.stage.name}_value {sign} {running}.value"
            return [
                f"const {self.kind} {self.stage.name}_value = {value};",
                f"if ({found}) {running} = {{{self.stage.name}_value, {self.place}}};",
            ]
        if self.stage.combine == "exponentials":
            return [f"{running}.take({value});"]
        return [f"{running} = {self.functor}()({running}, ({self.type})({value}));"]

    def by_packs(self, width: str) -> Taken:
        """How a thread of a row takes vectors of elements: more cheaply than one by one, where that can
        be."""
        own = f"{self.stage.name}_here"
        if self.exact:  # a vector is summed up shortly first
            before = [f"{self.kind} {own} = 0;"]
            return Taken(before=before, running=own, after=[f"{self.name} += {own};"])
        if self.stage.combine not in ("exponentials", "variation"):
            return Taken(running=self.name)
        running, first, last = self.name, [], []
        if self.stage.combine == "variation":
            running = f"{self.stage.name}_found"
            first = [f"Differences<{self.kind}> {running};"]
            last = [f"{self.name} = {running}.moments();"]
        pack, element = [f"{self.kind} {own}[{width}];"], f"{own}[lane] = {{0}};"
        return Taken(first, pack, element=element, after=[f"{running}.take({own});"], last=last)

    def given(self, stage: Stage) -> str | None:
        """Another stage's running result where this one has it anyway."""
        combine, part = GIVEN.get(self.stage.combine, ("", ""))
        same = (stage.combine, stage.body) == (combine, self.stage.body)
        return f"{self.name}.{part}" if same else None

    def result(self, running: str) -> str:
        """A CUDA statement that converts the accumulator `running` to the kernel's type and names it."""
        if self.stage.combine in PLACED_FUNCTORS:
            return f"const int64_t {self.stage.name} = {running}.place;"
        if self.stage.combine == "exponentials":
            return f"const {self.kind} {self.stage.name} = {running}.sum;"
        if self.stage.combine == "variation":
            left = f"{running}.squares - {running}.sum * {running}.sum / (double)({self.count})"
            return f"const {self.kind} {self.stage.name} = nan_max({left}, 0.0);"
        return f"const {self.kind} {self.stage.name} = {running};"

    @property
    def helpers(self) -> tuple[str, ...]:
        combine = self.stage.combine
        if combine in PLACED_FUNCTORS:
            return PLACED, _placed_functor(*PLACED_FUNCTORS[combine])
        if combine == "variation":
            return (device_code("moments"),)
        if combine == "exponentials":
            return (device_code("exponentials"),)
        return (_functor(*FUNCTORS[combine], truth=combine in ("any", "all")),)


def accumulators(kernel: Kernel, plan: Plan) -> list[Accumulator]:
    """One for each stage of a kernel."""
    real = plan.real
    kinds = {"real": real, "whole": "int64_t", "truth": "bool"}
    extents = [axis.extent for axis in kernel.reduced]
    place = indices.row_major((axis.index for axis in kernel.reduced), extents)
    schedule = kernel.schedule
    double = isinstance(schedule, Accumulating) and schedule.accumulate == "double"
    return [
        Accumulator(
            stage=stage,
            kind=kinds[stage.body.kind],
            place=indices.text(place),
            count=count([_length(axis) for axis in kernel.reduced]),
            exact=double and stage.combine == "sum" and stage.body.kind == "real" and real == "float",
        )
        for stage in kernel.stages
    ]


def _length(axis: Axis) -> indices.Index:
    return indices.subtract(axis.end, axis.begin)


def helpers(found: Sequence[Accumulator]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for accumulator in found for text in accumulator.helpers))


def _functor(name: str, value: str, *, truth: bool) -> str:
    if truth:
        return (
            f"struct {name} {{\n  __device__ bool operator()(bool a, bool b) const {{ return {value}; }}\n}};"
        )
    return (
        f"struct {name} {{\n  template <typename T>\n"
        f"  __device__ T operator()(T a, T b) const {{ return {value}; }}\n}};"
    )


def _placed_functor(name: str, better: str) -> str:
    return (
        f"struct {name} {{\n  template <typename T>\n"
        "  __device__ Placed<T> operator()(Placed<T> a, Placed<T> b) const {\n"
        "    if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;\n"
        f"    if ({better}) return b;\n"
        "    return a.value == b.value && b.place < a.place ? b : a;\n  }\n};"
    )
