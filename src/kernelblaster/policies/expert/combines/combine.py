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
    reduction's name; `element` is the C++ type of its elements, and `kind` tells whether they are
    floating-point numbers ("real"), integers ("whole") or truth values ("truth"). `place` is the current
    element's index within the reduction and `count` the number of elements, both as C++ expressions. With
    `wide`, a sum of float32 elements is kept in double."""

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
    """The C++ statements by which a thread combines vectors of elements into its accumulator: `first` once
    before all vectors, `before` and `after` around each vector, `last` once after all. The function `element`
    returns the statements for one element of a vector, from the C++ expression of its value."""

    element: Callable[[Term], list[Statement]]
    first: tuple[Statement, ...] = ()
    before: tuple[Statement, ...] = ()
    after: tuple[Statement, ...] = ()
    last: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class PartResults:
    """What is needed to combine the results of a split reduction: one whose elements were cut into parts, so
    that a first kernel has computed a result for each part and stored it in memory, and a second kernel
    combines these results. `name` is the reduction's name, and `own` loads the result of a part. `beside` is
    (name, load) of a second result that each part has stored (see `Combine.companion`); None if there is
    none. `members` is the number of elements of a part, `whole` that of all parts together. The function
    `chosen` picks one part's result: `chosen(stage)` loads the result of the part whose number the reduction
    named `stage` has found."""

    name: str
    own: Load
    beside: tuple[str, Load] | None
    members: Expression
    whole: Expression
    chosen: Callable[[str], Gather]


PartStage = tuple[str, "Combine", Expression]  # a stage over the parts: name, combine, body


@dataclass(frozen=True)
class Combine:
    """The operation of a reduction, by which its elements become one result. It must be associative, since
    elements are grouped in any way; it need not be commutative, since their order is kept. `each` is True for
    scans, which have a result for each element instead of one."""

    each: ClassVar[bool] = False  # whether it has a result for each element of its axes (prefix.py)

    @property
    def placed(self) -> bool:
        """True if the result depends on the index of each element, as that of argmax does."""
        return False

    @property
    def may_be_wide(self) -> bool:
        """True if float32 elements may be accumulated in a double, as for a sum."""
        return False

    @property
    def companion(self) -> "tuple[str, Combine] | None":
        """A second reduction that is needed if this one is split, that is if its elements are cut into parts
        that are reduced separately: each part must then compute both, because the results of this reduction
        alone are not enough to combine the parts. Given as (suffix, combine): the name of the second
        reduction is this one's with the suffix added. For a variance it is the sum. None if nothing more is
        needed."""
        return None

    def result_kind(self, body: Kind) -> Kind:
        return body

    def type(self, running: Running) -> CudaType:
        """Returns the C++ type of the accumulator that `running` describes: the type of the elements, unless
        a subclass says otherwise."""
        return running.element

    def start(self, running: Running) -> Term:
        """Returns the C++ value with which the accumulator begins, the identity of the operation, such as 0
        for a sum. `running` gives the type of the elements."""
        raise NotImplementedError

    @property
    def join(self) -> DeviceFunction:
        """The C++ functor that joins two accumulators into one. Its first argument is the accumulator of the
        earlier elements."""
        raise NotImplementedError

    def take(self, running: Running, into: Term, value: Term) -> list[Statement]:
        """Returns C++ statements that add the element `value` to the variable `into`, an accumulator as
        `running` describes it."""
        raise NotImplementedError

    def single(self, running: Running, value: Term) -> Term:
        """Returns the C++ expression for an accumulator that has taken exactly one element, `value`.
        `running` describes the accumulator."""
        return cast(self.type(running), value)

    def take_vector(self, running: Running, width: str) -> VectorTake:
        """Returns the C++ statements that add whole vectors of elements to the accumulator that `running`
        describes. This method adds the elements one after another; subclasses may have a cheaper one. `width`
        is the name of the C++ constant with the number of elements of a vector."""
        return VectorTake(lambda value: self.take(running, running.name, value))

    def given(self, other: "Combine") -> str | None:
        """Returns the name of the field of this combine's C++ accumulator that already has the result of the
        combine `other` over the same elements, so that `other` need not be computed. Online softmax, for
        example, also keeps the maximum, in the field "largest". None when there is no such field."""
        return None

    def result(self, running: Running, of: Term) -> Declaration:
        """Returns the C++ statement that declares a constant with the reduction's result, computed from `of`,
        the final value of the accumulator that `running` describes. The constant has the reduction's name,
        `running.stage`."""
        return const(running.element, running.stage, of)

    def of_parts(self, parts: PartResults) -> tuple[list[PartStage], Expression]:
        """Returns how to combine the results of a split reduction: its elements were cut into parts, and a
        first kernel has computed a result for each part. `parts` has the expressions that load those results.
        Returned is ([(name, combine, element), ...], final). Each entry of the list is a further reduction,
        called `name`, which goes over all parts and combines the expression `element` of each by `combine`.
        `final` is the expression of the whole result; in it, Reduced(name) stands for the result of such a
        reduction. By default, the parts' results are combined by this same operation."""
        return [(parts.name, self, parts.own)], Reduced(parts.name, self.result_kind(parts.own.kind))
