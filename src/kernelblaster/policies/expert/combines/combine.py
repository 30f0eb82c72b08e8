"""What is asked of a combine: what a stage's running result is, how elements and other running results are
taken into it, and what comes of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.policies.expert.cuda.statements import Declaration, Statement, const
from kernelblaster.policies.expert.cuda.terms import CudaType, DeviceFunction, Local, Term, cast
from kernelblaster.policies.expert.expression import Expression, Gather, Kind, Load, Reduced


@dataclass(frozen=True)
class Running:
    """A stage's running result in a kernel. `stage` is the stage's name, `element` the type of its elements,
    `place` the number of an element within the reduction, `count` how many there are. A `wide` sum is kept
    in double."""

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
    """How a thread takes vectors of elements: statements before all of them, before and after those of each
    vector, and after all. `element` takes one element."""

    element: Callable[[Term], list[Statement]]
    first: tuple[Statement, ...] = ()
    before: tuple[Statement, ...] = ()
    after: tuple[Statement, ...] = ()
    last: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class PartResults:
    """What the parts of a reduction have found: a stage's own results, those of its companion (by name), how
    many elements a part has, and all of them together. `chosen` is the stage's result in the part that a
    stage finds."""

    name: str
    own: Load
    beside: tuple[str, Load] | None
    members: Expression
    whole: Expression
    chosen: Callable[[str], Gather]


PartStage = tuple[str, "Combine", Expression]  # a stage over the parts: name, combine, body


@dataclass(frozen=True)
class Combine:
    """How elements become one result. It is associative: elements may be combined in any groups, but are
    in order."""

    each: ClassVar[bool] = False  # whether it has a result for each element of its axes (prefix.py)

    @property
    def placed(self) -> bool:
        """Whether it asks for the elements' places."""
        return False

    @property
    def may_be_wide(self) -> bool:
        """Whether its running result of float32 numbers may be kept in double."""
        return False

    @property
    def companion(self) -> "tuple[str, Combine] | None":
        """What the parts of a reduction must find out beside, so that the whole follows: the end of its name,
        and how it combines the same elements."""
        return None

    def result_kind(self, body: Kind) -> Kind:
        return body

    def type(self, running: Running) -> CudaType:
        """The type of the running result."""
        return running.element

    def start(self, running: Running) -> Term:
        """The running result of no elements."""
        raise NotImplementedError

    @property
    def join(self) -> DeviceFunction:
        """The functor that combines two running results, the earlier one first."""
        raise NotImplementedError

    def take(self, running: Running, into: Term, value: Term) -> list[Statement]:
        """Takes one element into a running result."""
        raise NotImplementedError

    def single(self, running: Running, value: Term) -> Term:
        """The running result of one element."""
        return cast(self.type(running), value)

    def take_vector(self, running: Running, width: str) -> VectorTake:
        """The same for vectors of elements: more cheaply than one by one, where that can be."""
        return VectorTake(lambda value: self.take(running, running.name, value))

    def given(self, other: "Combine") -> str | None:
        """The field of the running result that is another combine's running result of the same elements."""
        return None

    def result(self, running: Running, of: Term) -> Declaration:
        """Declares the stage's result."""
        return const(running.element, running.stage, of)

    def of_parts(self, parts: PartResults) -> tuple[list[PartStage], Expression]:
        """Stages over the results of parts, and the result that the whole has of them."""
        return [(parts.name, self, parts.own)], Reduced(parts.name, self.result_kind(parts.own.kind))
