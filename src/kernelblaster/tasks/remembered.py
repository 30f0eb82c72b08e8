"""Remembers the results of PyTorch operators on the meta device (tensors with shape and type but no values):
an operator with operands of the same shapes runs once. Repeated layers and the steps of a recurrence then
cost a look-up each."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(frozen=True)
class _Like:
    """Shape, strides, type and device of a tensor without content."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def made(self) -> torch.Tensor:
        """A new tensor with this shape, strides, type and device, its values undefined."""
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device)


_WRITTEN = object()  # the result is the first operand


class RememberedResults:
    """A cache of what operators return for meta tensors. The key is the operator, the shapes and types of its
    operands, and its other arguments."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def of(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Returns what the operator `func` returns for the arguments `args` and `kwargs`. If it was run
        before on operands of the same shapes and types, it is not run again. The result is then a new tensor
        like the earlier one, or, for an operator that writes to its first operand (`relu_`), that operand.
        The operator is always run if an operand is not on the meta device (it has values), or if the
        arguments cannot be looked up."""
        try:
            key = func, _like(args), _like(kwargs)
            known = self._known.get(key)
        except (TypeError, _WithContent):
            return func(*args, **kwargs)
        if known is None:
            before = _like(args[0]) if func._schema.is_mutable else None
            found = func(*args, **kwargs)
            with suppress(_WithContent):
                if before is None:
                    self._known[key] = _like(found)
                elif found is args[0] and _like(found) == before:
                    self._known[key] = _WRITTEN
            return found
        if known is _WRITTEN:
            return args[0]
        if isinstance(known, _Like):
            return known.made()
        if isinstance(known, tuple) and known[0] in (list, tuple):
            return known[0](part.made() if isinstance(part, _Like) else part for part in known[1])
        return func(*args, **kwargs)


class Remembered(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context in which operators on the meta device run once for each combination of operands' shapes.
    After that, they return new tensors like the remembered result. Only shapes and types of results are
    meaningful: a view, for example, does not share memory with the tensor that it was made of."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._results = RememberedResults()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        return self._results.of(func, args, kwargs or {})


class _WithContent(Exception):
    """Raised by `_like` for a tensor that has values, i.e. is not on the meta device."""


def _like(value: Any) -> Any:
    """An argument or a result of an operator as a key for look-ups: tensors as `_Like`, and every number with
    its type, since 1, 1.0 and True are equal. Raises _WithContent if a tensor is not on the meta device."""
    if isinstance(value, torch.Tensor):
        if not value.is_meta:
            raise _WithContent
        return _Like(value.shape, value.stride(), value.dtype, value.device)
    if isinstance(value, list | tuple):
        return type(value), tuple(_like(part) for part in value)
    if isinstance(value, dict):
        return tuple((key, _like(part)) for key, part in value.items())
    return (type(value), value) if isinstance(value, bool | int | float) else value
