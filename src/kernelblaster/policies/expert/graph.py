"""A task's module as a graph of operators; the shapes of their results are expressions of the task's sizes.
capture.py makes it from a module; what is here needs no PyTorch."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kernelblaster.errors import KernelBlasterError
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.expression import Counted, Expression, Number
from kernelblaster.policies.expert.index import Index
from kernelblaster.records import Signature
from kernelblaster.records.signature import Dtype

INSTEAD = (
    "A language model can write it (--model, docs/llm.md), or judge a kernel of your own: "
    "kernelblaster evaluate TASK FILE.cu."
)


class UncoveredOperators(KernelBlasterError):
    """Raised if the built-in (expert) policy cannot write kernels for something that the task uses.
    `operators` names it: operators such as "sort.default", or words such as "topk.default of truth
    values"."""

    def __init__(self, operators: Sequence[str]) -> None:
        self.operators = tuple(operators)
        super().__init__(f"the expert policy does not cover {', '.join(operators)}. {INSTEAD}")


@dataclass(frozen=True)
class Reference:
    """Names a tensor of a graph: result number `result` of the node called `name`, or, if no node has this
    name, the tensor `name` of the task's signature."""

    name: str
    result: int = 0


@dataclass(frozen=True)
class Result:
    shape: tuple[Index, ...]
    dtype: Dtype


@dataclass(frozen=True)
class Node:
    """One operator call in the graph. `operator` is the operator's name with its overload, such as
    "sum.dim_IntList". `arguments` are by name, as in the operator's schema: tensors are `Reference`s, whole
    numbers are symbolic indices, other numbers are expressions, and lists are tuples of these. `results` are
    the shape and dtype of each result."""

    name: str
    operator: str
    arguments: Mapping[str, Any]
    results: tuple[Result, ...]


@dataclass(frozen=True)
class Graph:
    """The operators of a task's module (`nodes`), in the order of execution. `signature` is the task's: its
    tensors and sizes. `outputs` are the tensors that the module returns, in order; `sizes` has, for each
    workload of the task, the value of every size by name."""

    signature: Signature
    nodes: tuple[Node, ...]
    outputs: tuple[Reference, ...]
    sizes: tuple[Mapping[str, int], ...]

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def uses(self) -> Counter[str]:
        """How often each tensor is used, as an operand of a node or as an output of the graph. The key is the
        name of the node that computes the tensor, or of the input tensor."""
        operands = [reference for node in self.nodes for reference in references(node.arguments)]
        return Counter(reference.name for reference in (*operands, *self.outputs))

    def values(self, index: Index) -> tuple[int, ...]:
        """Returns the value of the symbolic `index` in each workload of the task, in the order in which the
        graph lists the workloads."""
        return tuple(indices.evaluate(index, sizes) for sizes in self.sizes)


def as_expression(value: Any) -> Expression:
    """Returns a number among a node's arguments as an expression that a kernel can compute with. `value` is
    the number as the graph has it: a symbolic index, a bool or an expression."""
    if isinstance(value, Index):
        return Number(value.value, "whole") if value.operator == "int" else Counted(value)
    return value if not isinstance(value, bool) else Number(value, "truth")


def needed(nodes: Sequence[Node], outputs: Sequence[Reference]) -> tuple[Node, ...]:
    """Returns those of `nodes` on which some of `outputs` depend, in order. All other nodes are left out,
    such as those that update the running averages of a normalization."""
    wanted = {reference.name for reference in outputs}
    kept: list[Node] = []
    for node in reversed(nodes):
        if node.name in wanted:
            kept.append(node)
            wanted |= {r.name for r in references(node.arguments)}
    return tuple(reversed(kept))


def references(argument: Any) -> list[Reference]:
    """Returns all references to tensors in `argument`, in order. `argument` is an argument of a node, or a
    tuple or mapping of arguments, possibly nested."""
    if isinstance(argument, Reference):
        return [argument]
    if isinstance(argument, Mapping):
        argument = tuple(argument.values())
    if isinstance(argument, tuple):
        return [found for part in argument for found in references(part)]
    return []
