"""Runs a graph by PyTorch's own operators, in float64, at the sizes of one workload."""

from collections.abc import Mapping
from typing import Any

import torch

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.expression import Argument, Counted, Load, Number, Operation
from kernelblaster.policies.expert.graph import Graph, Node, Reference
from kernelblaster.policies.expert.index import Index
from kernelblaster.tasks.module_state import dtype_name

NUMBERS = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "sqrt": lambda a: a**0.5,
    "rsqrt": lambda a: a**-0.5,
    "to_real": float,
}


def run(graph: Graph, tensors: Mapping[str, torch.Tensor], workload: int) -> list[torch.Tensor]:
    values: dict[Reference, Any] = {Reference(name): tensor for name, tensor in tensors.items()}
    for node in graph.nodes:
        found = _called(node, values, graph.sizes[workload])
        for place, result in enumerate(found if isinstance(found, tuple | list) else (found,)):
            values[Reference(node.name, place)] = result
    return [values[reference] for reference in graph.outputs]


def random_tensors(graph: Graph, workload: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        tensor.name: torch.randn(
            [graph.sizes[workload][dim] for dim in tensor.dims], generator=generator, dtype=torch.float64
        )
        for tensor in graph.signature.read_tensors
    }


def _called(node: Node, values: dict[Reference, Any], sizes: Mapping[str, int]) -> Any:
    name, overload = node.operator.split(".")
    target = getattr(getattr(torch.ops.aten, name), overload)
    positional, named = [], {}
    for argument in target._schema.arguments:
        if argument.name not in node.arguments:
            continue
        value = _value(node.arguments[argument.name], values, sizes)
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    if name == "view":  # whether a copy is needed depends on layouts, which graphs leave out
        return positional[0].reshape(positional[1])
    return target(*positional, **named)


def _value(argument: Any, values: dict[Reference, Any], sizes: Mapping[str, int]) -> Any:
    if isinstance(argument, Reference):
        return values[argument]
    if isinstance(argument, Index):
        return indices.evaluate(argument, sizes)
    if isinstance(argument, tuple):
        return [_value(part, values, sizes) for part in argument]
    if isinstance(argument, Number | Counted | Operation | Argument | Load):
        return _number(argument, sizes)
    if isinstance(argument, str) and argument in {dtype_name(torch.float32), "float64", "int64", "bool"}:
        return torch.float64 if argument == "float32" else getattr(torch, argument)
    return argument


def _number(expression: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(expression, Counted):
        return indices.evaluate(expression.index, sizes)
    if isinstance(expression, Number):
        return expression.value
    return NUMBERS[expression.name](*(_number(part, sizes) for part in expression.operands))
