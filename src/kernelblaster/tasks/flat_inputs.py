"""Flattens inputs given by name, in lists or in dicts, to a sequence of tensors and numbers, as a kernel
takes them."""

import ast
import inspect
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelblaster.errors import BadTask
from kernelblaster.tasks.module_file import ModuleFile

Path = tuple[Any, ...]
ADDED = "\n\n# Added to make a task of the file.\n"
SUPER = re.compile(r"\bsuper\(\s*Model\s*,\s*self\s*\)")
FLATTENED = "\n\n# Added: the inputs as tensors and numbers, one after the other.\n"


def flattened(file: ModuleFile) -> str | None:
    """Returns code to append to a task's file whose inputs are named, or lie in lists or dicts; None if all
    inputs are positional tensors and numbers already. The code defines a class that takes all tensors and
    numbers as positional arguments and passes them to the file's own Model in the form that it expects, and a
    get_inputs() that returns such arguments. The new class takes the name Model, so `super(Model, self)` must
    be replaced in the file (see `with_plain_super`). Raises BadTask for inputs of other types."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        values = file.given_inputs()
    keyed = dict(values) if isinstance(values, Mapping) else dict(enumerate(values))
    forward = list(inspect.signature(file.model.forward).parameters.values())[1:]
    by_name = [p.name for p in forward if p.kind is p.KEYWORD_ONLY]
    by_place = [p for p in forward if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    several = any(p.kind is p.VAR_POSITIONAL for p in forward)
    names = {}
    for key in keyed:
        if not isinstance(key, int):
            names[key] = key
        elif not several and key >= len(by_place) and key - len(by_place) < len(by_name):
            names[key] = by_name[key - len(by_place)]
    if not names and all(_is_plain(value) for value in keyed.values()):
        return None
    leaves: dict[str, Path] = {}
    arguments = []
    for key, value in keyed.items():
        own = (
            by_place[key].name
            if isinstance(key, int) and key < len(by_place)
            else str(names.get(key, f"input{key}"))
        )
        written = _written(value, (key,), own, leaves, file.path)
        arguments.append(f"{names[key]}={written}" if key in names else written)
    taken = ["values" + "".join(f"[{part!r}]" for part in path) for path in leaves.values()]
    return (
        f"{FLATTENED}class _Flat(Model):\n    def forward(self, {', '.join(leaves)}):\n"
        f"        return super().forward({', '.join(arguments)})\n\n\n"
        f"def _flat_inputs(given=get_inputs):\n    values = given()\n"
        '    values = values if hasattr(values, "__getitem__") else list(values)\n'
        f"    return [{', '.join(taken)}]\n\n\n"
        "Model, get_inputs = _Flat, _flat_inputs\n"
    )


def unflattened(source: str) -> tuple[str, str | None]:
    """Splits a task's source into two texts. The first is the user's file, without the code that was appended
    because its inputs are named, or lie in lists or dicts (`flattened`). The second is the code of a function
    that takes the flat inputs, and returns the arguments for the Model of the user's file: the positional
    ones as a tuple and the named ones as a dict. If no code was appended, returns the source and None."""
    own, _, added = source.rpartition(FLATTENED)
    match ast.parse(added).body if own else ():
        case [
            ast.ClassDef(name="_Flat", body=[ast.FunctionDef() as forward]),
            ast.FunctionDef(),
            ast.Assign(),
        ]:
            pass
        case _:
            return source, None
    (returned,) = forward.body
    assert isinstance(returned, ast.Return) and isinstance(returned.value, ast.Call)
    leaves = ", ".join(one.arg for one in forward.args.args[1:])
    positional = "".join(f"{ast.unparse(one)}, " for one in returned.value.args)
    named = ", ".join(f"{one.arg!r}: {ast.unparse(one.value)}" for one in returned.value.keywords)
    return own, f"lambda {leaves}: (({positional}), {{{named}}})"


def with_plain_super(source: str) -> str:
    """Returns the source with every `super(Model, self)` replaced by `super()`. This is needed before a class
    derived from Model gets the name Model: `super(Model, self)` looks the name up at run time, would find the
    derived class, and would call the same method again without end."""
    return SUPER.sub("super()", source)


def _is_plain(value: Any) -> bool:
    return isinstance(value, torch.Tensor | int | float | bool)


def _written(value: Any, path: Path, name: str, leaves: dict[str, Path], file: str) -> str:
    """The expression that rebuilds one input `value` from flat arguments. Each tensor or number in it
    becomes an argument called `name` or `name_KEY…`, which is added to `leaves` with its path of keys
    in what get_inputs() returns. Raises BadTask (naming `file`) for values of other types."""
    if _is_plain(value):
        leaves[name] = path
        return name
    if value is None or isinstance(value, str):
        return repr(value)
    if type(value) in (list, tuple):
        inside = [_written(v, (*path, i), f"{name}_{i}", leaves, file) for i, v in enumerate(value)]
        ends = "[]" if type(value) is list else "()"
        return ends[0] + "".join(f"{one}, " for one in inside).rstrip() + ends[1]
    if type(value) is dict and all(isinstance(key, str) and key.isidentifier() for key in value):
        made = {k: _written(v, (*path, k), f"{name}_{k}", leaves, file) for k, v in value.items()}
        return "{" + ", ".join(f"{key!r}: {one}" for key, one in made.items()) + "}"
    kind = type(value).__name__
    raise BadTask(
        f"{file}: input {name} is a {kind}; inputs are tensors, numbers or strings, or lists and dicts "
        "of them. Make what it holds a part of the module, or give its parts."
    )
