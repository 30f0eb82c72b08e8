"""Code that names a GPU ("cuda" in a constructor, `.cuda()`), run where the caller wants it."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Anywhere(TorchFunctionMode):
    """Inside, tensors are made on the default device, and stay where they are, whatever GPU is named."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = dict(kwargs or {})
        if _is_gpu(kwargs.get("device")):
            del kwargs["device"]
        name = getattr(func, "__name__", "")
        if name == "cuda" and args and isinstance(args[0], torch.Tensor):
            return args[0]
        if name == "to" and len(args) > 1 and _is_gpu(args[1]):
            args = (args[0], *args[2:])
            if len(args) == 1 and not kwargs:
                return args[0]
        return func(*args, **kwargs)


def _is_gpu(device: Any) -> bool:
    if isinstance(device, str):
        return device.startswith("cuda")
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return False
