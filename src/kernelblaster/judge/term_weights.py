"""How many terms of a sum contribute rounding error, for each PyTorch operator that takes sums. Used by
terms.py.

Zero terms do not count: adding a zero costs no rounding. A sum that is exact in float32 in any order counts
as one term. That is so if all its terms are multiples of one power of two, and the sum of their magnitudes is
small enough.
"""

from collections.abc import Callable
from typing import Any

import torch

Given = dict[str, Any]  # an operator's arguments by name
Dims = tuple[int, ...]
EXACT = 2.0**24  # whole numbers up to this are exact in float32
VANISHING = 2.0**-150  # zero in float32


def weight(terms: torch.Tensor, dims: Dims) -> int:
    """Counts the terms that contribute rounding error when `terms` is summed over the axes `dims`. Zeros do
    not contribute any. There is one sum for each index along the other axes; returns the largest count of any
    of these sums. Returns 1 if every sum is exact in any order of adding."""
    sizes = terms.abs()
    total = sizes.sum(dims)
    if bool((total <= EXACT * _quantum(sizes)).all()):
        return 1
    return _most(_present(sizes).sum(dims))


def _present(values: torch.Tensor) -> torch.Tensor:
    """A tensor with 1 for each value that is not zero in float32, else 0."""
    return (values.abs() > VANISHING).to(values.dtype)


def _most(counts: torch.Tensor) -> int:
    """The largest of these counts of terms, rounded to an integer, at least 1."""
    return max(1, round(float(counts.max()))) if counts.numel() else 1


def _quantum(sizes: torch.Tensor) -> float:
    """The largest power of two that divides all of these magnitudes (`sizes`) exactly; infinity if all are
    zero."""
    nonzero = sizes[sizes > 0]
    if not nonzero.numel():
        return float("inf")
    mantissa, exponent = torch.frexp(nonzero.double())
    whole = (mantissa * 2.0**53).to(torch.int64)
    lowest = torch.log2((whole & -whole).double()) + exponent - 53
    return float(2.0 ** lowest.min())


def _dims(given: Given) -> Dims:
    """The axes of its input over which a reduction operator (like `sum`) works: its argument `dim`, or all
    axes if that is missing, None or empty. `given` are the arguments of the operator's call, by name."""
    tensor, dim = given["self"], given.get("dim")
    if dim is None or dim == [] or not tensor.dim():
        return tuple(range(tensor.dim()))
    return tuple(dim) if isinstance(dim, list | tuple) else (dim,)


def _trailing(given: Given) -> Dims:
    """The axes over which a layer normalization takes mean and variance, as negative numbers; `given` are the
    operator's arguments by name."""
    return tuple(range(-len(given["normalized_shape"]), 0))


def _centred(values: torch.Tensor, dims: Dims) -> int:
    """How many terms contribute rounding error in a mean and a variance of `values` over the axes `dims`,
    whichever has more."""
    return max(weight(values, dims), weight((values - values.mean(dims, keepdim=True)).square(), dims))


def _exponentials(given: Given) -> int:
    """How many terms contribute rounding error in a softmax or logsumexp: exponentials that do not vanish
    beside the largest. `given` are the operator's arguments by name."""
    values, dims = given["self"], _dims(given)
    return weight((values - values.amax(dims, keepdim=True)).exp(), dims)


def _norm(given: Given) -> int:
    """How many terms contribute rounding error in a vector norm, which sums powers of the magnitudes. `given`
    are the operator's arguments by name."""
    order = given.get("ord", given.get("p", 2))
    return weight(given["self"].abs().pow(2 if order is None else order), _dims(given))


def _groups(given: Given) -> int:
    """How many terms contribute rounding error in the mean and variance of a group normalization. `given` are
    the operator's arguments by name."""
    return _centred(given["input"].reshape(given["N"] * given["group"], -1), (1,))


def _channels(given: Given) -> int:
    """How many terms contribute rounding error in the mean and variance of a batch normalization. `given` are
    the operator's arguments by name."""
    values = given["input"]
    return _centred(values, tuple(d for d in range(values.dim()) if d != 1))


def _product(one: str, other: str) -> Callable[[Given], int]:
    """A function that counts the terms which contribute rounding error in a matrix product of the arguments
    called `one` and `other`: those with two nonzero factors."""

    def count(given: Given) -> int:
        return _most(_present(given[one]) @ _present(given[other]))

    return count


def _filter(given: Given) -> int:
    """How many terms contribute rounding error in a convolution: those with a nonzero input and a nonzero
    weight. `given` are the operator's arguments by name."""
    rest = [given[n] for n in ("stride", "padding", "dilation", "transposed", "output_padding", "groups")]
    return _most(torch.ops.aten.convolution(_present(given["input"]), _present(given["weight"]), None, *rest))


WEIGHED: dict[str, Callable[[Given], int]] = {
    **dict.fromkeys(("mm", "bmm"), _product("self", "mat2")),
    **dict.fromkeys(("mv",), _product("self", "vec")),
    "dot": _product("self", "tensor"),
    "addmm": _product("mat1", "mat2"),
    "addmv": _product("mat", "vec"),
    **dict.fromkeys(("baddbmm", "addbmm"), _product("batch1", "batch2")),
    **dict.fromkeys(("sum", "mean", "cumsum"), lambda given: weight(given["self"], _dims(given))),
    **dict.fromkeys(("_softmax", "_log_softmax", "logsumexp"), _exponentials),
    **dict.fromkeys(("norm", "linalg_vector_norm"), _norm),
    **dict.fromkeys(
        ("var", "std", "var_mean", "std_mean"), lambda given: _centred(given["self"], _dims(given))
    ),
    "native_layer_norm": lambda given: _centred(given["input"], _trailing(given)),
    "_fused_rms_norm": lambda given: weight(given["input"].square(), _trailing(given)),
    **dict.fromkeys(("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit"), _channels),
    "native_group_norm": _groups,
    "convolution": _filter,
}
