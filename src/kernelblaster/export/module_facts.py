"""What a torch module around a kernel must know of the original beyond the signature."""

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from kernelblaster.errors import KernelBlasterError
from kernelblaster.records import Task
from kernelblaster.tasks.derive import cast, cast_of, convert, parameter_names
from kernelblaster.tasks.module_file import ModuleFile, is_task
from kernelblaster.tasks.small import find_small


@dataclass(frozen=True)
class ModuleFacts:
    """`parameters` are the names in the module's own state; `result` is what forward returns, as an
    expression of the list `out`. `modes` are those in which it does what it does as it is built, each as
    `training` of its parts in turn: None where it does so in every mode, the mode of its construction
    alone where it cannot be tried. `keeps_statistics` says whether forward, in the mode of its
    construction, writes into the module's buffers."""

    parameters: tuple[str, ...]
    result: str
    modes: list[list[bool]] | None
    keeps_statistics: bool


def module_facts(task: Task) -> ModuleFacts:
    """Learned by running the small workload on the CPU; on tensors without values where there is none."""
    file = ModuleFile(task.source, task.path)
    dtype = cast_of(task)
    small = find_small(file, dtype)
    mode = FakeTensorMode(allow_non_fake_inputs=True) if small is None else nullcontext()
    with mode, torch.no_grad(), file.replaced(small or {}):
        torch.manual_seed(0)
        module = convert(file.build(), dtype)
        inputs = [cast(value, dtype) for value in file.inputs()]
        built, before = _modes(module), _buffers(module)
        result = module(*inputs)
        after = _buffers(module)
        tried = small is not None
        same = _same_modes(module, inputs, result) if tried else [False, False]
    ways = [[training] * len(built) for training, equal in zip((True, False), same, strict=True) if equal]
    return ModuleFacts(
        parameters=tuple(parameter_names(module)),
        result=_expression(task.name, result),
        modes=None if all(same) else [built, *(way for way in ways if way != built)],
        keeps_statistics=tried and not _equal(before, after),
    )


def _modes(module: torch.nn.Module) -> list[bool]:
    return [part.training for part in module.modules()]


def _same_modes(module: torch.nn.Module, inputs: list[Any], result: Any) -> list[bool]:
    """Whether training mode and inference mode give this result."""
    leaves = pytree.tree_leaves(result)
    # Inference first: in training mode the module may change its buffers.
    evaluated, trained = (pytree.tree_leaves(module.train(training)(*inputs)) for training in (False, True))
    return [_equal(leaves, trained), _equal(leaves, evaluated)]


def _buffers(module: torch.nn.Module) -> list[torch.Tensor]:
    return [buffer.clone() for buffer in module.buffers()]


def _equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(
        torch.allclose(a, b, equal_nan=True) if a.is_floating_point() else a.equal(b) for a, b in pairs
    )


def _expression(task: str, result: Any) -> str:
    """The structure of the result, with `out[i]` for its tensors in order."""
    leaves, structure = pytree.tree_flatten(result)
    places = pytree.tree_unflatten([f"out[{i}]" for i in range(len(leaves))], structure)
    return _written(task, places)


def _written(task: str, places: Any) -> str:
    if isinstance(places, str):
        return places
    if type(places) is dict:
        return "{" + ", ".join(f"{key!r}: {_written(task, value)}" for key, value in places.items()) + "}"
    if type(places) is list:
        return "[" + ", ".join(_written(task, value) for value in places) + "]"
    kind = type(places).__name__
    if type(places) is tuple or type(places).__module__ == "torch.return_types":
        written = "(" + "".join(f"{_written(task, value)}, " for value in places).rstrip() + ")"
        return written if kind == "tuple" else f"torch.return_types.{kind}({written})"
    own = sys.modules.get(type(places).__module__)
    if isinstance(places, tuple) and is_task(own) and getattr(own, kind, None) is type(places):
        return f"{kind}(" + ", ".join(_written(task, value) for value in places) + ")"
    raise KernelBlasterError(
        f"{task}: returns a {kind}; only tensors in tuples, lists and dicts can be exported."
    )
