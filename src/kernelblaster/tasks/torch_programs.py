"""Makes tasks of PyTorch modules in memory. Also turns programs that torch.export.save wrote into the Python
source of a task file."""

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim, ExportedProgram, export
from torch.utils import _pytree as pytree

from kernelblaster.errors import BadTask
from kernelblaster.plain_text import one_line
from kernelblaster.records import Task
from kernelblaster.tasks.catalog import load_source
from kernelblaster.tasks.failures import READS
from kernelblaster.tasks.program_text import program_source
from kernelblaster.tasks.quiet import quiet

WITHOUT_KERNEL = "kernelblaster_original"  # attribute of a class that runs a kernel: the class without it


def task_from_module(
    module: torch.nn.Module | type, inputs: Sequence[Any] | Mapping[str, Any], *, name: str | None = None
) -> Task:
    """Makes a task of a module in memory, or of a class that is built without arguments. `inputs` are example
    inputs: a list, or a dict by name. Of a module that torch.compile returned, the original is used. The
    training mode and the types of module and inputs are kept. The task's Model has parameters and buffers of
    the same names and shapes; their values are drawn at random to resemble the module's. Raises BadTask if
    torch.export cannot export the module, or the program cannot be written as a task."""
    module = original_of(module)
    named = name or (module.__name__ if isinstance(module, type) else type(module).__name__)
    instance = _built(module, named)
    arguments, keywords = _apart(*call_of(instance, inputs))
    program = _exported(instance, arguments, keywords, named)
    tensors = [leaf for leaf in pytree.tree_leaves((arguments, keywords)) if isinstance(leaf, torch.Tensor)]
    try:
        source = program_source(program, tensors, named)
    except BadTask as error:
        raise BadTask(f"{named}: {error}") from error
    return load_source(named, source, f"<{named}>")


def original_of(module: Any) -> Any:
    """Returns the module that was given to torch.compile or kb.compile, if `module` is what one of these
    returned. Otherwise, also for a class, returns `module` itself. For kb.compile the result is a new object
    of the original's class, which runs the original code instead of the kernel; it shares all attributes with
    `module`, so that changes to one show in the other."""
    module = getattr(module, "_orig_mod", module)
    kind = getattr(type(module), WITHOUT_KERNEL, None)
    if kind is None:
        return module
    plain = object.__new__(kind)
    plain.__dict__ = module.__dict__
    return plain


def call_of(
    module: torch.nn.Module, inputs: Sequence[Any] | Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a call of the module with these example inputs, as (positional ones, named
    ones). Named ones are in the order of forward()'s parameters, whatever their order in the dict. Raises
    BadTask if `inputs` is a tensor instead of a list of tensors."""
    if isinstance(inputs, torch.Tensor) or not isinstance(inputs, Mapping | Iterable):
        raise BadTask("example inputs are a list, or a dict by name: inputs=[x], not inputs=x.")
    if not isinstance(inputs, Mapping):
        return tuple(inputs), {}
    order = {name: at for at, name in enumerate(inspect.signature(module.forward).parameters)}
    return (), dict(sorted(inputs.items(), key=lambda one: order.get(one[0], len(order))))


def _apart(arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, with copies of tensors that are given more than once, which torch.export would
    take for one input: attention(x, x, x)."""
    seen: set[int] = set()

    def one(tensor: torch.Tensor) -> torch.Tensor:
        again = id(tensor) in seen
        seen.add(id(tensor))
        return tensor.detach().clone() if again else tensor

    copied: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map_only(
        torch.Tensor, one, (arguments, named)
    )
    return copied


def exported_code(module: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
    """Returns as text what a module computes in its present mode when it is called with `arguments`
    (positional) and `named`. Two modules with the same text and the same parameters compute the same. Raises
    BadTask if torch.export cannot export the module."""
    program = _exported(module, arguments, named, type(module).__name__)
    return f"{program.graph_module.code}\n{program.graph_signature}"


def exported_source(path: Path) -> str:
    """Returns the text of a task for a program that torch.export.save wrote to the file `path`. Raises
    BadTask if the file has no such program, the program has no example inputs, or it cannot be written as a
    task."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.load(path)
    except Exception as error:
        raise BadTask(
            f"{path}: is no exported program (torch.export.save): {one_line(str(error))[:200]}"
        ) from error
    if program.example_inputs is None:
        raise BadTask(
            f"{path}: was saved without its example inputs; export it again with torch.export.save."
        )
    tensors = [t for t in pytree.tree_leaves(program.example_inputs) if isinstance(t, torch.Tensor)]
    try:
        return program_source(program, tensors, path.name)
    except BadTask as error:
        raise BadTask(f"{path}: {error}") from error


def _built(module: torch.nn.Module | type, name: str) -> torch.nn.Module:
    """Makes an instance if a class is given; a module is returned as it is. `name` is for messages. Raises
    BadTask if it is neither, or if the class needs arguments."""
    if isinstance(module, torch.nn.Module):
        return module
    if not (isinstance(module, type) and issubclass(module, torch.nn.Module)):
        what = "; call it in the forward() of one" if callable(module) else ""
        raise BadTask(f"{name}: is not a torch.nn.Module{what}.")
    try:
        return module()
    except TypeError as error:
        raise BadTask(f"{name}: {one_line(str(error))}; give an instance instead of the class.") from error


def _exported(
    module: torch.nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any], name: str
) -> ExportedProgram:
    """Exports a module by torch.export, run on these arguments (`keywords` are those given by name), with
    dynamic sizes if that works, else with those of the arguments. Raises BadTask (naming `name`) if that
    fails."""
    free = pytree.tree_map(_free, (arguments, keywords))
    try:
        return _attempt(lambda: export(module, arguments, keywords, dynamic_shapes=_shapes(module, *free)))
    except Exception:
        pass
    try:
        return _attempt(lambda: export(module, arguments, keywords))
    except Exception as error:
        words = one_line(str(error))
        if "data-dependent" in words or "DataDependent" in type(error).__name__:
            raise BadTask(f"{name}: forward() {READS}; choose with torch.where instead.") from error
        raise BadTask(f"{name}: torch.export cannot follow it on these inputs: {words[:300]}") from error


def _attempt(call: Callable[[], ExportedProgram]) -> ExportedProgram:
    """The result of `call`, an export, run without gradients and with all that it prints, logs and warns of
    hidden; its exceptions pass through."""
    with warnings.catch_warnings(), torch.no_grad(), quiet():
        warnings.simplefilter("ignore")
        return call()


def _free(value: Any) -> Any:
    """The dynamic-shape specification of one argument for torch.export: every dimension Dim.AUTO; None if it
    is no tensor."""
    return dict.fromkeys(range(value.dim()), Dim.AUTO) if isinstance(value, torch.Tensor) else None


def _shapes(module: torch.nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The dynamic-shape specifications of all arguments (see `_free`) in the form that torch.export wants: a
    tuple, or a dict by parameter name if some arguments are named."""
    if not keywords:
        return arguments
    names = list(inspect.signature(module.forward).parameters)
    return dict(zip(names, arguments, strict=False)) | keywords
