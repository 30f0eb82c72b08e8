"""`Builder` collects the kernels and buffers of a plan while PyTorch operators are turned into kernels
(lowered). `Value` is an operand of such an operator: a tensor of which any element can be had as an
expression, from its symbolic indices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.combines.arithmetic import SUM
from kernelblaster.policies.expert.expression import Argument, Expression, Kind, Load, loads
from kernelblaster.policies.expert.graph import Graph, Node, Reference, as_expression
from kernelblaster.policies.expert.index import ONE, ZERO, Index
from kernelblaster.policies.expert.kernel import Kernel, Stage, Store
from kernelblaster.policies.expert.plan import Buffer
from kernelblaster.policies.expert.schedules.columns import ThreadPerColumn
from kernelblaster.policies.expert.schedules.rows import BlockPerRow
from kernelblaster.policies.expert.schedules.schedule import Accumulate, Schedule
from kernelblaster.records import Scalar
from kernelblaster.records.signature import FLOATING, Dtype

Position = tuple[Index, ...]


@dataclass(frozen=True)
class Value:
    """A tensor while operators are turned into kernels: its symbolic shape, its dtype, and the function `at`,
    which gives the expression of the element at a position (an index for each dimension). `buffer` is the
    name of the buffer that holds it; None if it is not stored but computed wherever it is used."""

    shape: tuple[Index, ...]
    dtype: Dtype
    at: Callable[[Position], Expression]
    buffer: str | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)


def kind_of(dtype: Dtype) -> Kind:
    if dtype in FLOATING:
        return "real"
    return "truth" if dtype == "bool" else "whole"


class Builder:
    """Collects the kernels and buffers of a plan while the operators of `graph` are turned into kernels. Each
    operator has a function of its own for that (a lowering), which gets its operands from the builder as
    `Value`s."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.kernels: list[Kernel] = []
        self.buffers: dict[str, Buffer] = {}
        self._values: dict[Reference, Value] = {}
        for tensor in (*graph.signature.outputs, *graph.signature.read_tensors):
            shape = tuple(indices.variable(dim) for dim in tensor.dims)
            name = tensor.name
            self.buffers[name] = Buffer(name, shape, tensor.dtype)
        for tensor in graph.signature.read_tensors:
            self._values[Reference(tensor.name)] = self.loaded(tensor.name)
        for item in graph.signature.inputs:
            if isinstance(item, Scalar):
                argument = Argument(item.name, "real" if item.kind == "float" else "whole")
                self._values[Reference(item.name)] = number_value(argument)

    def loaded(self, name: str) -> Value:
        buffer = self.buffers[name]
        kind = kind_of(buffer.dtype)
        return Value(buffer.shape, buffer.dtype, lambda position: Load(name, position, kind), name)

    def value(self, argument: Any) -> Value:
        """Returns `argument`, an operand of an operator, as a `Value`. It is a tensor of the graph, or a
        number, which becomes a tensor without dimensions."""
        if isinstance(argument, Reference):
            return self._values[argument]
        return number_value(as_expression(argument))

    def define(self, node: Node, value: Value, result: int = 0) -> None:
        self._values[Reference(node.name, result)] = value

    def same(self, left: Index, right: Index) -> bool:
        """True if the symbolic extents `left` and `right` are equal at the sizes of every workload."""
        return left == right or self.graph.values(left) == self.graph.values(right)

    def is_one(self, extent: Index) -> bool:
        return self.same(extent, ONE)

    def spread(self, value: Value, shape: Sequence[Index], position: Position) -> Expression:
        """Returns the expression of the element at `position` of `value` after `value` was broadcast to
        `shape`, as PyTorch broadcasts. `position` has an index for each dimension of `shape`."""
        own = position[len(shape) - value.rank :]
        kept = tuple(
            ZERO if self.is_one(extent) and not self.is_one(whole) else place
            for extent, whole, place in zip(value.shape, shape[len(shape) - value.rank :], own, strict=True)
        )
        return value.at(kept)

    def buffer(self, node: Node, result: int = 0) -> str:
        """Returns the name of the buffer (tensor or scratch memory) for result number `result` of the
        operator `node`. If that result is an output of the task, the buffer is that output; otherwise new
        scratch memory is added to the plan."""
        reference = Reference(node.name, result)
        if reference in self.graph.outputs:
            name = self.graph.signature.outputs[self.graph.outputs.index(reference)].name
        else:
            name = f"{node.name.strip('_')}_result{result or ''}"
            found = node.results[result]
            self.buffers[name] = Buffer(name, found.shape, found.dtype, scratch=True)
        self._values[reference] = self.loaded(name)
        return name

    def pointwise(self, node: Node, make: Callable[[Position], Expression]) -> None:
        """Adds a kernel that computes each element of the result of `node` on its own. `make` returns the
        expression of an element, from its position (an index for each dimension)."""
        axes = axes_of(node.results[0].shape)
        position = tuple(axis.index for axis in axes)
        store = Store(self.buffer(node), position, make(position))
        self.kernels.append(Kernel(kernel_name(node), axes, (store,)))

    def reduction(
        self,
        node: Node,
        axes: tuple[Axis, ...],
        stages: Sequence[Stage],
        stores: Sequence[Store],
    ) -> None:
        schedule = self._reduction_schedule(axes, stages)
        self.kernels.append(Kernel(kernel_name(node), axes, tuple(stores), tuple(stages), schedule))

    def _reduction_schedule(self, axes: tuple[Axis, ...], stages: Sequence[Stage]) -> Schedule:
        """The first layout on the GPU of a kernel with the reductions `stages`, whose results lie along
        `axes`: a block per row where the reduced axes run along memory in the largest tensor, otherwise a
        thread per column, so that neighbouring threads read neighbouring memory. Sums accumulate in
        double."""
        exact = any(stage.combine == SUM for stage in stages)
        accumulate: Accumulate = "double" if exact else "float"
        if all(self.is_one(axis.extent) for axis in axes):
            return BlockPerRow(accumulate=accumulate)
        found = [load for stage in stages for load in loads(stage.body) if load.position]
        sizes = [self._elements(load.buffer) for load in found]
        inner = {axis.name for stage in stages for axis in stage.axes}
        along = any(
            indices.names(load.position[-1]) & inner
            for load, size in zip(found, sizes, strict=True)
            if size == max(sizes)
        )
        if along or not found:
            return BlockPerRow(accumulate=accumulate)
        return ThreadPerColumn(accumulate=accumulate)

    def _elements(self, buffer: str) -> int:
        return self.graph.values(indices.product(self.buffers[buffer].shape))[0]


def number_value(expression: Expression) -> Value:
    dtype: Dtype = {"real": "float32", "whole": "int64", "truth": "bool"}[expression.kind]  # type: ignore[assignment]
    return Value((), dtype, lambda position: expression)


def axes_of(shape: Sequence[Index], prefix: str = "i") -> tuple[Axis, ...]:
    return tuple(Axis(f"{prefix}{place}", extent) for place, extent in enumerate(shape))


def kernel_name(node: Node) -> str:
    return f"{node.name.strip('_')}_kernel"


Lowering = Callable[[Builder, Node], None]
LOWERINGS: dict[str, Lowering] = {}


def lowers(*operators: str) -> Callable[[Lowering], Lowering]:
    """Returns a decorator. The decorated function becomes the one that turns the aten operators `operators`
    into a kernel of the plan (or, for views, into an index map). Operators are named with their overload:
    "sum.dim_IntList"."""

    def register(lowering: Lowering) -> Lowering:
        LOWERINGS.update(dict.fromkeys(operators, lowering))
        return lowering

    return register
