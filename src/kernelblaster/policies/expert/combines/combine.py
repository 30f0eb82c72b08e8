"""`Combine`, the interface of every reduction operator: the type of its running result, how elements and
other running results are taken into it, and how the final result follows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.policies.expert.cuda.statements import Declaration, Statement, const
from kernelblaster.policies.expert.cuda.terms import CudaType, DeviceFunction, Local, Term, cast
from kernelblaster.policies.expert.expression import Expression, Gather, Kind, Load, Reduced


@dataclass(frozen=True)
class Running:
    """A stage's running result (accumulator) in a kernel, where a stage is one reduction. `stage` is the
    stage's name, `element` the type of its elements, `place` the index of the current element within the
    reduction, `count` how many there are. A `wide` sum is kept in double."""

    stage: str
    kind: Kind
    element: CudaType
    place: Term
    count: Term
    wide: bool = False

    @property
    def name(self) -> Local:
        return Local(f"{self.stage}_so_far")


@dataclass(frozen=True)
class VectorTake:
    """Statements by which a thread takes vectors of elements into its running result: `first` once before all
    vectors, `before` and `after` around each vector, `last` once after all; `element` takes one element."""

    element: Callable[[Term], list[Statement]]
    first: tuple[Statement, ...] = ()
    before: tuple[Statement, ...] = ()
    after: tuple[Statement, ...] = ()
    last: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class PartResults:
    """The results of a reduction that was split into parts, to be combined: `own` reads the stage's result of
    a part, `beside` the companion stage's name and result, `members` is the number of elements of a part,
    `whole` of all parts. `chosen` gives the stage's result in the part whose number a given stage finds."""

    name: str
    own: Load
    beside: tuple[str, Load] | None
    members: Expression
    whole: Expression
    chosen: Callable[[str], Gather]


PartStage = tuple[str, "Combine", Expression]  # a stage over the parts: name, combine, body


@dataclass(frozen=True)
class Combine:
    """How the elements of a reduction become one result. It is associative, so that elements may be grouped
    in any way, but their order must be kept."""

    each: ClassVar[bool] = False  # whether it has a result for each element of its axes (prefix.py)

    @property
    def placed(self) -> bool:
        """Whether the combine needs the index of each element (as argmax does)."""
        return False

    @property
    def may_be_wide(self) -> bool:
        """Whether its running result of float32 elements may be kept in double."""
        return False

    @property
    def companion(self) -> "tuple[str, Combine] | None":
        """What each part of a split reduction must compute besides its own result, so that the whole can be
        combined: the suffix of the companion stage's name, and its combine over the same elements. None
        when nothing is needed."""
        return None

    def result_kind(self, body: Kind) -> Kind:
        return body

    def type(self, running: Running) -> CudaType:
        """The C++ type of the running result."""
        return running.element

    def start(self, running: Running) -> Term:
        """The running result before any element was taken (the identity)."""
        raise NotImplementedError

    @property
    def join(self) -> DeviceFunction:
        """The functor that combines two running results, the earlier one first."""
        raise NotImplementedError

    def take(self, running: Running, into: Term, value: Term) -> list[Statement]:
        """Statements that take the element `value` into the running result `into`."""
        raise NotImplementedError

    def single(self, running: Running, value: Term) -> Term:
        """The running result after the single element `value`."""
        return cast(self.type(running), value)

    def take_vector(self, running: Running, width: str) -> VectorTake:
        """Statements that take whole vectors of `width` elements (a constant's name in the kernel), where
        possible more cheaply than one by one."""
        return VectorTake(lambda value: self.take(running, running.name, value))

    def given(self, other: "Combine") -> str | None:
        """The field of this running result that equals the running result of `other` over the same elements;
        None when there is none."""
        return None

    def result(self, running: Running, of: Term) -> Declaration:
        """Declares the stage's final result, computed from the running result `of`."""
        return const(running.element, running.stage, of)

    def of_parts(self, parts: PartResults) -> tuple[list[PartStage], Expression]:
        """The stages that combine the results of a split reduction's parts, and the expression of the whole's
        result."""
        return [(parts.name, self, parts.own)], Reduced(parts.name, self.result_kind(parts.own.kind))
