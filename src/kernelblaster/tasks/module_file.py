"""A KernelBench-format Python file, executed: its module, its inputs, its size constants."""

import inspect
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, TypeVar

import torch
from torch.utils import _pytree as pytree

from kernelblaster.errors import BadTask
from kernelblaster.keeper import seal
from kernelblaster.tasks.foreign import IMPORT_LIMIT_S, foreign, kept_going

T = TypeVar("T")
REQUIRED = ("Model", "get_inputs", "get_init_inputs")
RESERVED = {"out", "stream", "int", "float", "double", "bool", "char", "short", "long", "default"}
RESERVED |= {"auto", "register", "template", "operator", "new", "delete", "const", "signed", "this"}


class ModuleFile:
    """The executed file. `constants` may be replaced to obtain other sizes."""

    def __init__(self, source: str, path: str) -> None:
        self.path = path
        self._namespace = _execute(source, path)
        missing = [name for name in REQUIRED if not callable(self._namespace.get(name))]
        if missing:
            raise BadTask(
                f"{path}: not a task: {' and '.join(missing)} missing. A task file defines a class "
                "Model and the functions get_inputs() and get_init_inputs()."
            )
        if not issubclass(self._namespace["Model"], torch.nn.Module):
            raise BadTask(f"{path}: Model is not a torch.nn.Module.")

    @property
    def constants(self) -> dict[str, int]:
        """Module-level whole numbers: the file's sizes and hyper-parameters."""
        return {
            name: value
            for name, value in self._namespace.items()
            if type(value) is int and not name.startswith("_")
        }

    @property
    def declared_small(self) -> dict[str, int] | None:
        small = self._namespace.get("SMALL")
        if small is None:
            return None
        if not isinstance(small, dict) or not all(type(v) is int for v in small.values()):
            raise BadTask(f"{self.path}: SMALL should give whole numbers to names of the file.")
        unknown = [name for name in small if name not in self._namespace]
        if unknown:
            raise BadTask(f"{self.path}: SMALL names {', '.join(map(str, unknown))}, which the file lacks.")
        return dict(small)

    @contextmanager
    def replaced(self, constants: dict[str, int]) -> Iterator[None]:
        saved = {name: self._namespace[name] for name in constants}
        self._namespace.update(constants)
        try:
            yield
        finally:
            self._namespace.update(saved)

    def build(self) -> torch.nn.Module:
        """The module as KernelBench makes it: training mode as written, default seed."""

        def make() -> torch.nn.Module:
            arguments = self._namespace["get_init_inputs"]()
            if isinstance(arguments, dict):
                return self._namespace["Model"](**arguments)  # type: ignore[no-any-return]
            return self._namespace["Model"](*arguments)  # type: ignore[no-any-return]

        return self._guarded("Model could not be built", make)

    def inputs(self) -> list[Any]:
        values = self._guarded("get_inputs() failed", self._namespace["get_inputs"])
        if not isinstance(values, list | tuple):
            raise BadTask(f"{self.path}: get_inputs() must return a list.")
        for position, value in enumerate(values):
            if not isinstance(value, torch.Tensor | int | float | bool):
                kind = type(value).__name__
                raise BadTask(f"{self.path}: input {position} is a {kind}; inputs are tensors or numbers.")
        return list(values)

    def input_names(self, count: int) -> list[str]:
        """Names of forward's parameters, made safe as C identifiers."""
        parameters = inspect.signature(self._namespace["Model"].forward).parameters.values()
        named = [
            p.name for p in list(parameters)[1:] if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        names = (named + [f"input{i}" for i in range(len(named), count)])[:count]
        return [name + "_" if name in RESERVED else name for name in names]

    def _guarded(self, what: str, call: Callable[[], T]) -> T:
        with foreign(self.path, what, IMPORT_LIMIT_S):
            return call()


def call_module(module: torch.nn.Module, inputs: list[Any]) -> list[torch.Tensor]:
    """The outputs as a flat list of contiguous tensors; nested tuples are flattened in order."""
    with kept_going("forward()"), torch.no_grad():
        result = module(*inputs)
    leaves = pytree.tree_leaves(result)
    bad = [type(leaf).__name__ for leaf in leaves if not isinstance(leaf, torch.Tensor)]
    if bad or not leaves:
        raise BadTask(f"the module returned {', '.join(bad) or 'nothing'}; it must return tensors.")
    return [leaf.contiguous() for leaf in leaves]


def _execute(source: str, path: str) -> dict[str, Any]:
    name = "kernelblaster_task_" + sha256((path + source).encode()).hexdigest()[:12]
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    seal()
    with foreign(path, limit_s=IMPORT_LIMIT_S):
        exec(compile(source, path, "exec"), module.__dict__)
    return module.__dict__
