"""Accumulators: the C++ variables in which emitted kernels add up the elements of their reductions (stages),
or combine them in another way. All emitters of reductions and scans use them."""

from dataclasses import dataclass

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.combines.combine import Running, VectorTake
from kernelblaster.policies.expert.cuda.statements import Declaration, Statement, declare
from kernelblaster.policies.expert.cuda.terms import CudaType, Local, Operand, Term
from kernelblaster.policies.expert.emission.places import count
from kernelblaster.policies.expert.emission.values import index_term, values_of
from kernelblaster.policies.expert.kernel import Kernel, Stage
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.reductions import Accumulating


@dataclass(frozen=True)
class Accumulator:
    """The C++ variable in which a thread combines the elements of one reduction (`stage`) of a kernel.
    `running` describes it: its name, the type of the elements, and whether it is a double although the
    elements are float32. The methods give the C++ code that declares the variable, adds elements to it, and
    computes the final result from it."""

    stage: Stage
    running: Running

    @property
    def name(self) -> Local:
        return self.running.name

    @property
    def type(self) -> CudaType:
        return self.stage.combine.type(self.running)

    @property
    def start(self) -> Term:
        return self.stage.combine.start(self.running)

    @property
    def join(self) -> Term:
        """The C++ functor that joins two accumulators into one, such as those of two threads."""
        return self.stage.combine.join()

    @property
    def is_wide(self) -> bool:
        """True if the C++ variable is a double although the elements are float32."""
        return self.running.wide

    def declared(self, *extents: Operand) -> Statement:
        """Returns the C++ statement that declares the variable with its start value (such as 0 for a sum) or,
        with `extents`, an array of such variables, which is not initialized."""
        return declare(self.type, self.name.name, None if extents else self.start, *extents)

    def take(self, into: Term, value: Term) -> list[Statement]:
        return self.stage.combine.take(self.running, into, value)

    def take_vector(self, width: str) -> VectorTake:
        return self.stage.combine.take_vector(self.running, width)

    def given(self, stage: Stage) -> Term | None:
        """Returns the field of this C++ variable that already has the result of another reduction, `stage`,
        which then needs no variable of its own. Online softmax, for example, also keeps the maximum. None if
        there is no such field, or if the two reductions go over different elements."""
        part = self.stage.combine.given(stage.combine) if stage.body == self.stage.body else None
        return self.name.field(part) if part is not None else None

    def result(self, of: Term) -> Declaration:
        return self.stage.combine.result(self.running, of)


def accumulators(kernel: Kernel, plan: Plan) -> list[Accumulator]:
    """Returns one accumulator for each reduction (stage) of `kernel`, in the order of the stages. A sum of
    float32 elements is kept in double if the field `accumulate` of the kernel's schedule (layout on the GPU)
    is "double". `plan` gives the names of the sizes and the type of floating-point arithmetic."""
    sizes, values, schedule = plan.sizes[0], values_of(plan), kernel.schedule
    extents = [axis.extent for axis in kernel.reduced]
    place = index_term(indices.row_major((axis.index for axis in kernel.reduced), extents), sizes)
    elements = count([_length(axis) for axis in kernel.reduced], sizes)
    double = isinstance(schedule, Accumulating) and schedule.accumulate == "double" and plan.real == "float"

    def running(stage: Stage) -> Running:
        kind = stage.body.kind
        wide = double and kind == "real" and stage.combine.may_be_wide
        return Running(stage.name, kind, values.type(kind), place, elements, wide)

    return [Accumulator(stage, running(stage)) for stage in kernel.stages]


def _length(axis: Axis) -> indices.Index:
    return indices.subtract(axis.end, axis.begin)
