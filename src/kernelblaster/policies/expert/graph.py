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
    """The task needs operators that the expert policy has no kernel for; `operators` names them."""

    def __init__(self, operators: Sequence[str]) -> None:
        self.operators = tuple(operators)
        super().__init__(f"the expert policy does not cover {', '.join(operators)}. {INSTEAD}")


@dataclass(frozen=True)
class Reference:
    """A result of a node, or a tensor of the signature."""

    name: str
    result: int = 0


@dataclass(frozen=True)
class Result:
    shape: tuple[Index, ...]
    dtype: Dtype


@dataclass(frozen=True)
class Node:
    """One operator. `arguments` are named as in its schema: references, whole numbers as Index,
    other numbers as expressions, and tuples of these."""

    name: str
    operator: str
    arguments: Mapping[str, Any]
    results: tuple[Result, ...]


@dataclass(frozen=True)
class Graph:
    """Nodes in the order of execution; `sizes` holds every size's value in each workload."""

    signature: Signature
    nodes: tuple[Node, ...]
    outputs: tuple[Reference, ...]
    sizes: tuple[Mapping[str, int], ...]

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def uses(self) -> Counter[str]:
        """How often each node's or tensor's results are used, as operands and as outputs."""
        operands = [reference for node in self.nodes for reference in references(node.arguments)]
        return Counter(reference.name for reference in (*operands, *self.outputs))

    def values(self, index: Index) -> tuple[int, ...]:
        """What an extent is in each workload."""
        return tuple(indices.evaluate(index, sizes) for sizes in self.sizes)


def as_expression(value: Any) -> Expression:
    """A number among a node's arguments, for use in arithmetic."""
    if isinstance(value, Index):
        return Number(value.value, "whole") if value.operator == "int" else Counted(value)
    return value if not isinstance(value, bool) else Number(value, "truth")


def needed(nodes: Sequence[Node], outputs: Sequence[Reference]) -> tuple[Node, ...]:
    """Without what no output depends on (the new running averages of a normalization)."""
    wanted = {reference.name for reference in outputs}
    kept: list[Node] = []
    for node in reversed(nodes):
        if node.name in wanted:
            kept.append(node)
            wanted |= {r.name for r in references(node.arguments)}
    return tuple(reversed(kept))


def references(argument: Any) -> list[Reference]:
    """Every reference within an argument or a collection of them."""
    if isinstance(argument, Reference):
        return [argument]
    if isinstance(argument, Mapping):
        argument = tuple(argument.values())
    if isinstance(argument, tuple):
        return [found for part in argument for found in references(part)]
    return []
