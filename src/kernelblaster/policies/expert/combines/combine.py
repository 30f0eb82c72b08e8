"""`Combine`, the interface of every reduction operation as it is written to CUDA: the C++ type of the
accumulator, how an element is added to it, how two accumulators are joined, and how the final result is
computed from it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from kernelblaster.policies.expert.cuda.statements import Declaration, Statement, const
from kernelblaster.policies.expert.cuda.terms import CudaType, DeviceFunction, Local, Term, cast
from kernelblaster.policies.expert.expression import Expression, Gather, Kind, Load, Reduced


@dataclass(frozen=True)
class Running:
    """The accumulator in which a kernel keeps the result so far of one reduction (a stage). `stage` is the
    reduction's name; `element` is the C++ type of its elements and `kind` says whether they are real, whole
    or truth values; `place` is the current element's index within the reduction and `count` the number of
    elements, as C++ expressions. With `wide`, a sum of float32 elements is kept in double."""

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
    """The C++ statements by which a thread adds vectors of elements to its accumulator: `first` once before
    all vectors, `before` and `after` around each vector, `last` once after all. `element` gives the
    statements that add one element of a vector, from the C++ expression of its value."""

    element: Callable[[Term], list[Statement]]
    first: tuple[Statement, ...] = ()
    before: tuple[Statement, ...] = ()
    after: tuple[Statement, ...] = ()
    last: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class PartResults:
    """What the second kernel of a split reduction reads: the results of the parts, which a first kernel has
    written to memory. `name` is the reduction's name and `own` the load of a part's result; `beside` is
    (name, load) of what each part computed in addition (see `Combine.companion`), None if nothing; `members`
    is the number of elements of a part, `whole` that of all parts. `chosen(stage)` loads the result of the
    one part whose number the reduction named `stage` gives."""

    name: str
    own: Load
    beside: tuple[str, Load] | None
    members: Expression
    whole: Expression
    chosen: Callable[[str], Gather]


PartStage = tuple[str, "Combine", Expression]  # a stage over the parts: name, combine, body


@dataclass(frozen=True)
class Combine:
    """The operation of a reduction: how its elements become one result. It must be associative, so that
    elements may be grouped in any way; their order is kept, so that it need not be commutative."""

    each: ClassVar[bool] = False  # whether it has a result for each element of its axes (prefix.py)

    @property
    def placed(self) -> bool:
        """True if the result depends on the index of each element, as that of argmax does."""
        return False

    @property
    def may_be_wide(self) -> bool:
        """True if the accumulator of float32 elements may be a double, as that of a sum."""
        return False

    @property
    def companion(self) -> "tuple[str, Combine] | None":
        """What each part of a split reduction must compute besides its own result so that the parts can be
        combined, as (suffix, combine): a reduction over the same elements with that combine, named like this
        one with the suffix added. For a variance it is the sum. None when nothing is needed."""
        return None

    def result_kind(self, body: Kind) -> Kind:
        return body

    def type(self, running: Running) -> CudaType:
        """The C++ type of the accumulator that `running` describes: that of an element, unless overridden."""
        return running.element

    def start(self, running: Running) -> Term:
        """The C++ value with which the accumulator begins (the identity), such as 0 for a sum; `running`
        tells the type of the elements."""
        raise NotImplementedError

    @property
    def join(self) -> DeviceFunction:
        """The C++ functor that makes one accumulator of two; its first argument is the one of the earlier
        elements."""
        raise NotImplementedError

    def take(self, running: Running, into: Term, value: Term) -> list[Statement]:
        """C++ statements that add the element `value` to the variable `into`, an accumulator as described by
        `running`."""
        raise NotImplementedError

    def single(self, running: Running, value: Term) -> Term:
        """The C++ value of an accumulator, as described by `running`, that has seen the single element
        `value`."""
        return cast(self.type(running), value)

    def take_vector(self, running: Running, width: str) -> VectorTake:
        """The C++ statements that add vectors of elements to the accumulator that `running` describes, one
        element after the other; subclasses may do it more cheaply. `width` is the name of the C++ constant
        with the number of elements of a vector."""
        return VectorTake(lambda value: self.take(running, running.name, value))

    def given(self, other: "Combine") -> str | None:
        """The name of the C++ field of this combine's accumulator that has the same value as the accumulator
        of `other` over the same elements would, so that `other` need not be computed (online softmax also
        keeps the maximum); None when there is none."""
        return None

    def result(self, running: Running, of: Term) -> Declaration:
        """The C++ statement that declares the constant with the reduction's result, named `running.stage` and
        computed from `of`, the final value of its accumulator."""
        return const(running.element, running.stage, of)

    def of_parts(self, parts: PartResults) -> tuple[list[PartStage], Expression]:
        """How the final result of a split reduction is computed from the results of its parts, which `parts`
        reads: (the reductions over the parts, each as (name, combine, element); the expression of the final
        result, which may refer to them)."""
        return [(parts.name, self, parts.own)], Reduced(parts.name, self.result_kind(parts.own.kind))
