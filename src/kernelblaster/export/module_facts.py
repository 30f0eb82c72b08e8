"""Runs a module to find out what an exported file must know about it beyond its signature: its modes, the
form of its result, and which buffers it changes."""

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from kernelblaster.errors import KernelBlasterError
from kernelblaster.records import Task
from kernelblaster.tasks.module_file import ModuleFile, is_task
from kernelblaster.tasks.module_state import cast, cast_of, convert, parameter_names
from kernelblaster.tasks.small import find_small


@dataclass(frozen=True)
class ModuleFacts:
    """What an exported file must know about a module beyond its signature, found by running the module.
    `parameters` are the names of its parameters and buffers. `result` is a Python expression for what forward
    returns, in which `out[i]` are its tensors: "(out[0], {'h': out[1]})". `changed_buffers` are the names of
    the buffers whose values forward changes; empty if the module could only be run on tensors without values.

    `modes` are the modes in which the module computes the same as in the one that it was built in. A mode is
    a list with the attribute `training` (True or False) of the module and each of its parts. None: it
    computes the same in every mode. If other modes could not be tried, the one that it was built in is the
    only entry.
    """

    parameters: tuple[str, ...]
    result: str
    modes: list[list[bool]] | None
    changed_buffers: tuple[str, ...]


def module_facts(task: Task) -> ModuleFacts:
    """Returns what an exported file must know about the task's module beyond its signature: the names of its
    parameters and buffers, the form of its result, the training modes in which it computes the same, and
    which buffers forward() changes. To find this out, the module is run on the CPU at small sizes. If it
    cannot be built small, it is run on tensors without values; no other modes are then tried, and no buffer
    counts as changed. Raises KernelBlasterError if its result has a type that cannot be exported."""
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
        changed_buffers=tuple(name for name in after if tried and not _equal([before[name]], [after[name]])),
    )


def _modes(module: torch.nn.Module) -> list[bool]:
    """For the module and each of its parts, in the order of `modules()`, whether it is in training mode."""
    return [part.training for part in module.modules()]


def _same_modes(module: torch.nn.Module, inputs: list[Any], result: Any) -> list[bool]:
    """Whether the module gives `result` on `inputs` in training mode, and whether it does in inference mode:
    two booleans in this order."""
    leaves = _tensors(result)
    # Inference first: in training mode the module may change its buffers.
    evaluated, trained = (_tensors(module.train(training)(*inputs)) for training in (False, True))
    return [_equal(leaves, trained), _equal(leaves, evaluated)]


def _tensors(result: Any) -> list[torch.Tensor]:
    """All tensors in what a module returned, in order; it may nest tuples, lists and dicts. None in it is
    skipped."""
    return [leaf for leaf in pytree.tree_leaves(result) if leaf is not None]


def _buffers(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A copy of each of the module's buffers by name, to see later which of them forward() has changed."""
    return {name: buffer.clone() for name, buffer in module.named_buffers()}


def _equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    """Whether two lists of tensors agree element by element: floating-point values within torch.allclose's
    tolerance (NaN equals NaN), others exactly."""
    pairs = zip(one, other, strict=True)
    return all(
        torch.allclose(a, b, equal_nan=True) if a.is_floating_point() else a.equal(b) for a, b in pairs
    )


def _expression(task: str, result: Any) -> str:
    """The structure of the result as Python code, with `out[i]` for its tensors in order. Raises
    KernelBlasterError for types that cannot be written."""
    leaves, structure = pytree.tree_flatten(result)
    numbers = iter(range(len(leaves)))
    names = [None if leaf is None else f"out[{next(numbers)}]" for leaf in leaves]
    result_of_names = pytree.tree_unflatten(names, structure)
    return _written(task, result_of_names)


def _written(task: str, value: Any) -> str:
    """A structure of the names `out[i]` and of None as Python code. Raises KernelBlasterError for other
    types than tuples, lists, dicts and the task's own named tuples; `task` is for the message."""
    if value is None or isinstance(value, str):
        return str(value)
    if type(value) is dict:
        return "{" + ", ".join(f"{key!r}: {_written(task, part)}" for key, part in value.items()) + "}"
    if type(value) is list:
        return "[" + ", ".join(_written(task, part) for part in value) + "]"
    kind = type(value).__name__
    if type(value) is tuple or type(value).__module__ == "torch.return_types":
        written = "(" + "".join(f"{_written(task, part)}, " for part in value).rstrip() + ")"
        return written if kind == "tuple" else f"torch.return_types.{kind}({written})"
    own = sys.modules.get(type(value).__module__)
    if isinstance(value, tuple) and is_task(own) and getattr(own, kind, None) is type(value):
        return f"{kind}(" + ", ".join(_written(task, part) for part in value) + ")"
    raise KernelBlasterError(
        f"{task}: returns a {kind}; only tensors in tuples, lists and dicts can be exported."
    )
