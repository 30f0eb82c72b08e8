"""Runs code that names a GPU (`device="cuda"`, `.cuda()`) on the device that the caller wants, which may be
the CPU."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class DeviceRedirect(TorchFunctionMode):
    """A context in which code that names a CUDA device runs on the device in use. Tensors are created on the
    default device; `.cuda()` and `.to("cuda")` return a tensor where it is."""

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
