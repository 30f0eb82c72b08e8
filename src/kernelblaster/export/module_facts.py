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
    expression of the list `out`. `modes_differ` says whether training mode matters (assumed where it
    cannot be tried), `keeps_statistics` whether forward writes into the module's buffers."""

    parameters: tuple[str, ...]
    result: str
    modes_differ: bool
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
        before = _buffers(module)
        trained = module.train()(*inputs)
        after = _buffers(module)
        evaluated = module.eval()(*inputs)
    tried = small is not None
    return ModuleFacts(
        parameters=tuple(parameter_names(module)),
        result=_expression(task.name, trained),
        modes_differ=not (tried and _equal(pytree.tree_leaves(trained), pytree.tree_leaves(evaluated))),
        keeps_statistics=tried and not _equal(before, after),
    )


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
