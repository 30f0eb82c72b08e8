"""Runs a user's code as plain eager PyTorch: `torch.compile` in it does nothing, and `torch.autocast` is
refused, since its types depend on the device."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from kernelblaster.errors import BadTask


@contextmanager
def plain_forward() -> Iterator[None]:
    """A context in which `torch.compile` returns what it is given, `Module.compile()` does nothing, and an
    enabled `torch.autocast` raises BadTask. Compiled code would not run on fake tensors, nor be seen by
    torch.export."""
    autocast = torch.amp.autocast_mode.autocast
    before = torch.compile, torch.nn.Module.compile, autocast.__init__
    torch.compile = _uncompiled
    torch.nn.Module.compile = lambda self, *_, **__: None  # type: ignore[method-assign]
    autocast.__init__ = _refusing(autocast.__init__)  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.compile, torch.nn.Module.compile, autocast.__init__ = before  # type: ignore[method-assign]


def _uncompiled(model: Any = None, **_: Any) -> Any:
    """Stands in for `torch.compile`: returns the function or module unchanged; called without one, as a
    decorator with options, returns a decorator that does so."""
    return model if model is not None else lambda decorated: decorated


def _refusing(initialize: Callable[..., None]) -> Callable[..., None]:
    """A constructor for `torch.autocast` that raises BadTask unless `enabled` is False, and then calls the
    original one, `initialize`."""

    def checked(
        self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None
    ) -> None:
        if enabled:
            raise BadTask(
                "forward() uses torch.autocast, whose types depend on the device; leave it out, and cast the "
                "module and its inputs instead (--dtype bfloat16)."
            )
        initialize(self, device_type, dtype, enabled, cache_enabled)

    return checked
