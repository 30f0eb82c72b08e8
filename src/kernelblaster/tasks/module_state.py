"""Lists a module's parameters and buffers in the order in which a candidate (a CUDA kernel that replaces the
module) receives them, and casts them to other types."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from kernelblaster.errors import BadTask
from kernelblaster.records import Task
from kernelblaster.records.signature import DTYPE_BYTES, Dtype


def state_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns the module's parameters and buffers that a candidate receives as arguments, by dotted name, in
    the order of `Module.state_dict`. Unlike there, non-persistent buffers are included, and scalar integers
    (such as num_batches_tracked) are left out."""
    state = {}
    for prefix, owner in module.named_modules(remove_duplicate=False):
        for name, tensor in (*owner._parameters.items(), *owner._buffers.items()):
            if tensor is not None and (tensor.is_floating_point() or tensor.dim() > 0):
                state[f"{prefix}.{name}" if prefix else name] = tensor
    return state


def parameter_names(module: torch.nn.Module) -> list[str]:
    return list(state_of(module))


def dtype_name(dtype: torch.dtype) -> Dtype:
    """Returns the name of the torch type `dtype` without "torch.", such as "float32". Raises BadTask for
    types that tasks do not support."""
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPE_BYTES:
        known = ", ".join(DTYPE_BYTES)
        raise BadTask(
            f"tensors of type {name} are not supported; keep those out of the module's inputs, "
            f"parameters and outputs, which may be {known}."
        )
    return name  # type: ignore[return-value]


def cast_of(task: Task) -> torch.dtype | None:
    """Returns the torch type to which all floating tensors of the task are cast; None if they keep the types
    of the task's file."""
    return getattr(torch, task.cast) if task.cast else None


def cast(value: Any, dtype: torch.dtype | None) -> Any:
    """Returns `value` cast to `dtype` if it is a floating tensor; anything else unchanged, and everything if
    `dtype` is None."""
    if dtype is not None and isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(dtype)
    return value


def convert(module: torch.nn.Module, dtype: torch.dtype | None) -> torch.nn.Module:
    """Returns the module, which is changed in place: floating parameters and buffers cast to `dtype` (unless
    it is None; unlike `Module.to`, also on fake tensors), and gradients switched off."""
    for owner in module.modules():
        for name, parameter in owner._parameters.items():
            if parameter is not None and parameter.is_floating_point():
                converted = cast(parameter.detach(), dtype)
                owner._parameters[name] = torch.nn.Parameter(converted, requires_grad=False)
        for name, buffer in owner._buffers.items():
            if buffer is not None:
                owner._buffers[name] = cast(buffer, dtype)
    return module


@contextmanager
def unchanged(module: torch.nn.Module) -> Iterator[None]:
    """A context after which the attributes and buffers of a module and its parts are the same objects as
    before, whatever forward() assigned to them. Values that are written in place stay written."""
    before = [(owner, dict(vars(owner)), dict(owner._buffers)) for owner in module.modules()]
    try:
        yield
    finally:
        for owner, attributes, buffers in before:
            owner.__dict__.clear()
            owner.__dict__.update(attributes)
            owner._buffers.clear()
            owner._buffers.update(buffers)
