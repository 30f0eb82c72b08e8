"""Runs a plan without a compiler, all points of a kernel at once, in float64.

Every load must lie within its buffer wherever a kernel would make it.
"""

from collections.abc import Mapping
from typing import Any

import torch

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.combines.arithmetic import MAX, MIN, PRODUCT, SUM
from kernelblaster.policies.expert.expression import (
    Argument,
    Counted,
    Expression,
    Gather,
    Load,
    Number,
    Operation,
    Reduced,
)
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel, Stage
from kernelblaster.policies.expert.plan import Plan

TYPES = {"real": torch.float64, "whole": torch.int64, "truth": torch.bool}
COMBINES = {SUM: torch.sum, MAX: torch.amax, MIN: torch.amin}
OPERATIONS = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "neg": torch.neg,
    "abs": torch.abs,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "exp": torch.exp,
    "tanh": torch.tanh,
    "max": torch.maximum,
    "min": torch.minimum,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "and": torch.logical_and,
    "or": torch.logical_or,
    "not": torch.logical_not,
}


def run_plan(plan: Plan, tensors: Mapping[str, torch.Tensor], sizes: Mapping[str, int]) -> list[torch.Tensor]:
    """The outputs. `tensors` are what the signature reads, by name."""
    memory = {
        name: torch.full([indices.evaluate(extent, sizes) for extent in buffer.shape], torch.nan).double()
        for name, buffer in plan.buffers.items()
    } | dict(tensors)
    for kernel in plan.kernels:
        _Points(kernel, memory, sizes).run()
    return [memory[output.name] for output in plan.signature.outputs]


class _Points:
    """All points of a kernel's loops, one dimension of a tensor for each loop."""

    def __init__(self, kernel: Kernel, memory: dict[str, torch.Tensor], sizes: Mapping[str, int]) -> None:
        self.kernel = kernel
        self.memory = memory
        self.sizes = sizes
        self.results: dict[str, torch.Tensor] = {}
        loops = (*kernel.axes, *kernel.reduced)
        self.reduced = tuple(range(len(kernel.axes), len(loops)))
        self.shape = [indices.evaluate(axis.extent, sizes) for axis in loops]
        self.places = {axis.name: self._along(axis, place) for place, axis in enumerate(loops)}

    def _along(self, axis: Axis, place: int) -> torch.Tensor:
        assert axis.part is None
        return torch.arange(self.shape[place]).view([-1 if i == place else 1 for i in range(len(self.shape))])

    def run(self) -> None:
        every = torch.ones([1] * len(self.shape), dtype=torch.bool)
        for stage in self.kernel.stages:
            self.results[stage.name] = self._reduced(stage, every)
        for store in self.kernel.stores:
            value = self.value(store.value, every)
            shape = (
                self.shape
                if store.over
                else [*self.shape[: len(self.kernel.axes)], *(1 for _ in self.reduced)]
            )
            place = tuple(self.index(index).expand(shape) for index in store.position)
            self.memory[store.buffer][place] = value.expand(shape).double()

    def _reduced(self, stage: Stage, every: torch.Tensor) -> torch.Tensor:
        found = self.value(stage.body, every).expand(self.shape)
        if stage.combine == PRODUCT:
            for place in self.reduced:
                found = found.prod(place, keepdim=True)
            return found
        return COMBINES[stage.combine](found, self.reduced, keepdim=True)  # type: ignore[operator]

    def index(self, index: Index) -> torch.Tensor:
        """Whole numbers as in C."""
        if index.operator == "int":
            return torch.tensor(index.value)
        if index.operator == "name":
            return (
                self.places[index.name] if index.name in self.places else torch.tensor(self.sizes[index.name])
            )
        left, right = (self.index(operand) for operand in index.operands)
        return {
            "+": torch.add,
            "-": torch.sub,
            "*": torch.mul,
            "/": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
            "%": torch.fmod,
            "min": torch.minimum,
        }[index.operator](left, right)

    def value(self, expression: Expression, active: torch.Tensor) -> torch.Tensor:
        """The expression at every point; only where `active` is it really computed."""
        if isinstance(expression, Load):
            return self._loaded(expression, active)
        if isinstance(expression, Number):
            return torch.tensor(expression.value, dtype=TYPES[expression.kind])
        if isinstance(expression, Counted):
            return self.index(expression.index)
        if isinstance(expression, Reduced):
            return self.results[expression.stage]
        if isinstance(expression, Operation):
            return self._operation(expression, active)
        assert not isinstance(expression, Gather | Argument), expression
        raise AssertionError(expression)

    def _operation(self, operation: Operation, active: torch.Tensor) -> torch.Tensor:
        first = self.value(operation.operands[0], active)
        if operation.name == "where":
            yes = self.value(operation.operands[1], active & first)
            return torch.where(first, yes, self.value(operation.operands[2], active & ~first))
        if operation.name.startswith("to_"):
            return first.to(TYPES[operation.kind])
        if operation.name == "and":
            active = active & first
        rest: list[Any] = [self.value(part, active) for part in operation.operands[1:]]
        if operation.name == "div":
            return torch.div(first, rest[0], rounding_mode=None if operation.kind == "real" else "trunc")
        return OPERATIONS[operation.name](first, *rest)  # type: ignore[operator]

    def _loaded(self, load: Load, active: torch.Tensor) -> torch.Tensor:
        buffer = self.memory[load.buffer]
        places = [self.index(index) for index in load.position]
        for place, extent in zip(places, buffer.shape, strict=True):
            outside = (place < 0) | (place >= extent)
            assert not (outside & active).any(), f"{self.kernel.name} reads outside of {load.buffer}"
        clamped = tuple(p.clamp(0, n - 1) for p, n in zip(places, buffer.shape, strict=True))
        return buffer[torch.broadcast_tensors(*clamped)] if clamped else buffer
