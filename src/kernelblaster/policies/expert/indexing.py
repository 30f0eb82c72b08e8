"""A context in which PyTorch records slices and assignments to slices as the module's code has them, so that
traces at several sizes have the same operators.

By itself, PyTorch omits a slice that takes all of a dimension (`mask[:T, :T]` at the largest T), and turns a
number that is assigned to a slice into a constant tensor.
"""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class PlainIndexing(TorchFunctionMode):
    """A context in which PyTorch traces indexing as it is written. A slice with an end is traced as a slice
    operator even if it takes all of a dimension; the assignment of a number to a slice is traced as
    `fill_`."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func is torch.Tensor.__getitem__ and _is_plain(args[1]):
            return _part(*args)
        if func is torch.Tensor.__setitem__ and _is_plain(args[1]) and isinstance(args[2], int | float):
            _part(args[0], args[1]).fill_(args[2])
            return None
        return func(*args, **(kwargs or {}))


def _is_plain(index: Any) -> bool:
    """Whether an index gives a view of the tensor: it has only integers, slices, None and `...`, and no
    tensors or lists."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or part is ... or type(part) in (int, slice) for part in parts)


def _part(tensor: torch.Tensor, index: Any) -> torch.Tensor:
    """`tensor[index]`, where PyTorch traces each slice that has an end as an operator of its own."""
    parts = index if isinstance(index, tuple) else (index,)
    named = sum(type(part) in (int, slice) for part in parts)
    place, rest = 0, []
    for part in parts:
        if type(part) is slice and part.stop is not None:
            tensor = torch.ops.aten.slice.Tensor(tensor, place, part.start, part.stop, part.step or 1)
            rest.append(slice(None))
        else:
            rest.append(part)
        place += tensor.dim() - named if part is ... else int(part is not None)
    return tensor[tuple(rest)]
