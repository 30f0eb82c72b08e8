"""Observes which PyTorch operators a computation runs, to tell whether it is elementwise and whether it turns
floating values into integers."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Pointwise ones that PyTorch does not mark as such.
ALONE = frozenset({"hardswish", "hardswish_", "hardsigmoid", "hardsigmoid_", "log_sigmoid_forward"})
# Operators that return indices of values: kernels rarely agree on where they put NaN.
PLACES = frozenset(
    {"argmax", "argmin", "max", "min", "sort", "argsort", "topk", "kthvalue", "median", "mode"}
)
# Operators that only move or make values, beside views.
PLAIN = frozenset(
    {
        "_to_copy",
        "clone",
        "copy_",
        "detach",
        "empty",
        "empty_like",
        "full",
        "full_like",
        "ones",
        "ones_like",
        "zeros",
        "zeros_like",
        "scalar_tensor",
        "lift_fresh",
        "fill_",
        "arange",
    }
)


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context that observes the PyTorch operators run inside. `pointwise` is True afterwards if every
    output element depended only on the elements at the same index of the inputs. `converts` is True if
    integers may have been computed from floating values by a cast, or by an operator that returns indices
    (argmax, sort, max); comparisons do not count."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pointwise = True
        self.converts = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        self.see(func, args, kwargs or {}, result)
        return result

    def see(self, func, args, kwargs, result) -> None:  # type: ignore[no-untyped-def]
        """Called after each PyTorch operator `func` with its arguments (`args`, `kwargs`) and result; clears
        `pointwise` if it is not elementwise, and sets `converts` if it turns floating values into
        integers."""
        name = func.overloadpacket.__name__
        self.converts |= name in PLACES
        if name == "_to_copy" and isinstance(result, torch.Tensor):
            self.converts |= args[0].is_floating_point() and not result.is_floating_point()
        elif torch.Tag.pointwise not in func.tags and not func.is_view and name not in PLAIN | ALONE:
            self.pointwise = False
