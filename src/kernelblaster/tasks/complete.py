"""Completes a file that has a module but is not yet a task: chooses the class, its arguments and its inputs.

What is missing (Model, get_inputs(), get_init_inputs()) is appended to the file's text, so that the task can
be run anywhere.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import torch

from kernelblaster.errors import BadTask
from kernelblaster.tasks.arguments import init_arguments, input_values
from kernelblaster.tasks.first_layer import inferred_inputs
from kernelblaster.tasks.flat_inputs import ADDED, flattened, with_plain_super
from kernelblaster.tasks.literals import lines_before
from kernelblaster.tasks.module_file import REQUIRED, ModuleFile, execute, is_module_class


@dataclass(frozen=True)
class CompletionRequest:
    """What the user gives besides the file. `module` is the name of the class; `inputs` and `init` are
    example inputs and constructor arguments as text ("randn(8192, 4096)", "64, bias=False"). None:
    take what the file defines, or infer it."""

    module: str | None = None
    inputs: str | None = None
    init: str | None = None


def completed(source: str, path: str, wanted: CompletionRequest) -> tuple[ModuleFile, tuple[str, ...]]:
    """Makes a task of the user's Python file. `source` is its text, `path` its name in messages. Definitions
    of Model, get_inputs() and get_init_inputs() that it lacks are appended: as `wanted` says, or else
    inferred. Inputs are flattened to tensors and numbers, and the result is executed. Returns the executed
    file, and sentences that tell the user what was chosen. Raises BadTask if something can neither be found
    nor inferred."""
    check_names(source, path)
    names = execute(source, path).names
    notes: list[str] = []
    added = ""
    name = "Model"
    if wanted.module or not is_module_class(names.get("Model")):
        name = _chosen(names, path, wanted.module)
        added += f"Model = {name}\n"
        notes.append(f"the module is {name}")
    if wanted.init is not None or not callable(names.get("get_init_inputs")):
        added += _function("get_init_inputs", init_arguments(names[name], path, wanted.init))
    if wanted.inputs is not None:
        added += _function("get_inputs", input_values(wanted.inputs, path))
    elif not callable(names.get("get_inputs")):
        empty = ModuleFile(source + ADDED + added + _function("get_inputs", "[]"), path)
        values, note = inferred_inputs(empty, names[name])
        added += _function("get_inputs", values)
        notes.append(note)
    file = ModuleFile(source + (ADDED + added if added else ""), path)
    flat = flattened(file)
    return (file if flat is None else ModuleFile(with_plain_super(file.source) + flat, path)), tuple(notes)


def check_names(source: str, path: str) -> None:
    """Checks the Python file `source`: raises BadTask, which names `path`, if it defines Model, get_inputs or
    get_init_inputs twice (the last one would silently win), or has a syntax error."""
    try:
        tree = ast.parse(source, path)
    except SyntaxError as error:
        raise BadTask(f"{path}:{error.lineno}: syntax error: {error.msg}") from error
    for name in REQUIRED:
        defined = [n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == name]
        if len(defined) > 1:
            lines = " and ".join(str(node.lineno - lines_before(source)) for node in defined)
            raise BadTask(
                f"{path}: {name} is defined on lines {lines}; rename all but the one that is meant."
            )


def _chosen(names: Mapping[str, Any], path: str, wanted: str | None) -> str:
    """The name of the module class to use: `wanted` if given, else the only class of the file that no
    other class of it uses. `names` are the globals of the executed file. Raises BadTask if there is
    none or several."""
    if wanted is not None:
        if not is_module_class(names.get(wanted)):
            found = ", ".join(n for n, v in names.items() if is_module_class(v)) or "none"
            raise BadTask(f"{path}: has no module class {wanted}; its module classes are: {found}.")
        return wanted
    own = {
        name: value
        for name, value in names.items()
        if is_module_class(value) and value.__module__ == names["__name__"] and value.__name__ == name
    }
    if not own:
        raise BadTask(
            f"{path}: not a task: it defines no class derived from torch.nn.Module. {_advice(names)}"
        )
    used = {part for name, value in own.items() for part in _mentioned(value) if part != name}
    roots = [name for name in own if name not in used]
    if len(roots) != 1:
        candidates = roots or list(own)
        raise BadTask(
            f"{path}: has the module classes {', '.join(candidates)}; say which one is meant, for example "
            f"{path}:{candidates[-1]}."
        )
    return roots[0]


def _advice(names: Mapping[str, Any]) -> str:
    """What the user can do about a file without a module class; `names` are the globals of the executed
    file."""
    built = next((name for name, value in names.items() if isinstance(value, torch.nn.Module)), None)
    if built is not None:
        kind = type(names[built]).__name__
        return (
            f"Its {built} is a {kind} that is built already: build it in a class, or optimize it from "
            f"Python: kb.optimize({built}, inputs=[x])."
        )
    own = [
        name
        for name, value in names.items()
        if isinstance(value, FunctionType) and value.__module__ == names["__name__"] and name not in REQUIRED
    ]
    if own:
        return f"Call {own[0]}() in the forward() of a class."
    return "A task file has such a class, and get_inputs() for its inputs (or give --inputs)."


def _mentioned(kind: type) -> set[str]:
    """Names of the classes that this class derives from and of all globals that its methods use; by these, a
    file's main module is told from the modules that it is made of."""
    names = {base.__name__ for base in kind.__mro__[1:]}
    for value in vars(kind).values():
        if hasattr(value, "__code__"):
            names |= {name for code in _codes(value.__code__) for name in code.co_names}
    return names


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yields a function's code object and those nested in it (comprehensions, inner functions, lambdas)."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _function(name: str, result: str) -> str:
    """The source text of a function `name` without parameters that returns the expression `result`; it is
    appended to the user's file."""
    return f"\n\ndef {name}():\n    import torch\n\n    return {result}\n"
