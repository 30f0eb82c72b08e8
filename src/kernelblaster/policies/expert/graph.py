"""A task's module as a small graph of operators, whose shapes are expressions of the signature's sizes.

capture.py makes it from a module; what is here needs no PyTorch.
"""

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
    """Raised if the task needs operators that the built-in (expert) policy has no kernel for; `operators`
    names them."""

    def __init__(self, operators: Sequence[str]) -> None:
        self.operators = tuple(operators)
        super().__init__(f"the expert policy does not cover {', '.join(operators)}. {INSTEAD}")


@dataclass(frozen=True)
class Reference:
    """Names a tensor: result number `result` of the node `name`, or the tensor `name` of the task's
    signature."""

    name: str
    result: int = 0


@dataclass(frozen=True)
class Result:
    shape: tuple[Index, ...]
    dtype: Dtype


@dataclass(frozen=True)
class Node:
    """One operator call in the graph. `arguments` are named as in the operator's schema: tensors as
    references, whole numbers as symbolic indices, other numbers as expressions, and tuples of these."""

    name: str
    operator: str
    arguments: Mapping[str, Any]
    results: tuple[Result, ...]


@dataclass(frozen=True)
class Graph:
    """The operators of a task's module in the order of execution. `sizes` has, for each workload of the task,
    the value of every size by name."""

    signature: Signature
    nodes: tuple[Node, ...]
    outputs: tuple[Reference, ...]
    sizes: tuple[Mapping[str, int], ...]

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def uses(self) -> Counter[str]:
        """How often the results of each node, and each input tensor, are used as operands or as outputs of
        the graph, by the node's or tensor's name."""
        operands = [reference for node in self.nodes for reference in references(node.arguments)]
        return Counter(reference.name for reference in (*operands, *self.outputs))

    def values(self, index: Index) -> tuple[int, ...]:
        """The number that the symbolic `index` has in each workload, in the order of `sizes`."""
        return tuple(indices.evaluate(index, sizes) for sizes in self.sizes)


def as_expression(value: Any) -> Expression:
    """The number `value`, an argument of a node (a symbolic index, a bool or an expression), as an expression
    that a kernel can compute with."""
    if isinstance(value, Index):
        return Number(value.value, "whole") if value.operator == "int" else Counted(value)
    return value if not isinstance(value, bool) else Number(value, "truth")


def needed(nodes: Sequence[Node], outputs: Sequence[Reference]) -> tuple[Node, ...]:
    """The nodes that some output depends on, in order; the others (such as those that update the running
    averages of a normalization) are dropped."""
    wanted = {reference.name for reference in outputs}
    kept: list[Node] = []
    for node in reversed(nodes):
        if node.name in wanted:
            kept.append(node)
            wanted |= {r.name for r in references(node.arguments)}
    return tuple(reversed(kept))


def references(argument: Any) -> list[Reference]:
    """Every reference to a tensor within `argument` (an argument of a node, or nested tuples and mappings of
    arguments), in order."""
    if isinstance(argument, Reference):
        return [argument]
    if isinstance(argument, Mapping):
        argument = tuple(argument.values())
    if isinstance(argument, tuple):
        return [found for part in argument for found in references(part)]
    return []
