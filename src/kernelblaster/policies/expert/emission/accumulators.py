"""Accumulators: the C++ variables in which the stages (reductions) of an emitted kernel keep their running
results while they go over elements; used by all emitters of reductions and scans."""

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
    """A stage (one reduction of a kernel) with `running`, its running result; the methods give the C++ that
    declares it, adds elements to it, and computes the final result from it."""

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
        """The C++ functor that combines two running results."""
        return self.stage.combine.join()

    @property
    def is_wide(self) -> bool:
        """Whether the running result is kept in double although its elements are float32."""
        return self.running.wide

    def declared(self, *extents: Operand) -> Statement:
        """The declaration of the running result's variable with its start value; with `extents`, of an
        uninitialized array of running results."""
        return declare(self.type, self.name.name, None if extents else self.start, *extents)

    def take(self, into: Term, value: Term) -> list[Statement]:
        return self.stage.combine.take(self.running, into, value)

    def take_vector(self, width: str) -> VectorTake:
        return self.stage.combine.take_vector(self.running, width)

    def given(self, stage: Stage) -> Term | None:
        """The C++ field of this running result that is also the running result of `stage` (the maximum in an
        online softmax), so that `stage` is not computed; None when there is none or the elements differ."""
        part = self.stage.combine.given(stage.combine) if stage.body == self.stage.body else None
        return self.name.field(part) if part is not None else None

    def result(self, of: Term) -> Declaration:
        return self.stage.combine.result(self.running, of)


def accumulators(kernel: Kernel, plan: Plan) -> list[Accumulator]:
    """The accumulators of a kernel's stages, one each, in their order."""
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
