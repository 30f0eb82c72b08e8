"""A task from a module that a program has at hand, with example inputs."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from kernelblaster import cache
from kernelblaster.errors import BadTask
from kernelblaster.records import Task
from kernelblaster.tasks.catalog import load_file


def task_from_module(
    module: torch.nn.Module | type, inputs: Sequence[Any] | Mapping[str, Any], *, name: str | None = None
) -> Task:
    """The task of a module whose class can be built without arguments and whose source can be read."""
    if isinstance(inputs, Mapping):
        raise BadTask("give the example inputs as a list.")
    kind = module if isinstance(module, type) else type(module)
    try:
        source = inspect.getsource(inspect.getmodule(kind) or kind)
    except (OSError, TypeError) as error:
        raise BadTask(f"{kind.__name__}: its source cannot be read; write it into a file.") from error
    drawn = ", ".join(_drawn(value) for value in inputs)
    text = f"{source}\n\nimport torch\n\nModel = {kind.__qualname__}\n\n"
    text += f"def get_inputs():\n    return [{drawn}]\n\n\ndef get_init_inputs():\n    return []\n"
    dtypes = {str(v.dtype).removeprefix("torch.") for v in inputs if isinstance(v, torch.Tensor)}
    floating = dtypes & {"float32", "float16", "bfloat16"}
    path = cache.kept_text("given", text, ".py")
    return load_file(name or kind.__name__, path, floating.pop() if len(floating) == 1 else "float32")  # type: ignore[arg-type]


def _drawn(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    sizes = ", ".join(map(str, value.shape))
    if value.is_floating_point():
        return f"torch.randn({sizes})"
    return f"torch.randint(0, {int(value.max()) + 1}, ({sizes},), dtype={value.dtype})"
