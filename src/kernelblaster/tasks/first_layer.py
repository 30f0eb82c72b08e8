"""Infers the inputs of a module from its first layer, where that is unambiguous."""

import inspect

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelblaster.errors import BadTask
from kernelblaster.tasks.module_file import ModuleFile, call_module

ROWS = 4096


def inferred_inputs(file: ModuleFile, model: type) -> tuple[str, str]:
    """Returns (Python source of a list of inputs for `model`, the module class of `file`; a note for the user
    about it). There is one input, of 4096 rows (ROWS), as wide as the first Linear or normalization layer
    takes. Raises BadTask, which asks the user for inputs, if forward() takes several arguments, there is no
    such layer, or the module refuses the input."""
    forward = list(inspect.signature(model.forward).parameters.values())[1:]  # type: ignore[attr-defined]
    needed = [p.name for p in forward if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    ask = BadTask(
        f"{file.path}: has no get_inputs(), and {model.__name__}.forward takes "
        f"{', '.join(needed) or 'nothing'}: give example inputs with "
        f'--inputs "{", ".join("randn(...)" for _ in needed)}", or add get_inputs() to the file.'
    )
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        module = file.build()
        first = next(((part, made) for part in module.modules() if (made := _columns(part))), None)
        if first is None or len(needed) != 1:
            raise ask
        layer, (columns, dtype) = first
        try:
            call_module(module, [torch.empty(ROWS, columns, dtype=dtype)])
        except Exception as error:
            raise ask from error
    typed = "" if dtype == torch.float32 else f", dtype={dtype}"
    drawn = f"torch.randn({ROWS}, {columns}{typed})"
    return f"[{drawn}]", f"the inputs are {drawn}, as its first {type(layer).__name__} takes them"


def _columns(layer: torch.nn.Module) -> tuple[int, torch.dtype] | None:
    """What a layer needs as input, if it fixes that: (number of features, element type); None for layers that
    take any."""
    if isinstance(layer, torch.nn.Linear):
        return layer.in_features, layer.weight.dtype
    if isinstance(layer, torch.nn.LayerNorm | torch.nn.RMSNorm) and len(layer.normalized_shape) == 1:
        return layer.normalized_shape[0], torch.float32 if layer.weight is None else layer.weight.dtype
    if isinstance(layer, torch.nn.BatchNorm1d):
        return layer.num_features, torch.float32
    return None
