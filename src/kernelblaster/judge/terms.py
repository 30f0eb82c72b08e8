"""The number of terms of the longest sum in a PyTorch computation, found by watching the operators that it
runs.

The rounding error of a float32 sum grows with its length, and so do the bounds on a candidate's errors.
Operators that are not in the table here count as sums of one term, as do pooling windows, which are too short
to matter.

A sum can also be weighed: only terms that contribute rounding error count then (term_weights.py). So bounds
on long sums with few such terms are as strict as on short sums.
"""

from collections.abc import Callable
from typing import Any

import torch

from kernelblaster.judge.term_weights import WEIGHED, Given
from kernelblaster.tasks.operators import Operators

FEW = 8  # a sum has few terms if at most one in so many counts


class LongestSum(Operators):  # type: ignore[no-untyped-call]
    """A context that watches the PyTorch operators that run inside it. Afterwards `length` is the number of
    terms of the longest sum, 1 if there was none. `terms` is equal to `length`, unless `weighed`: then it is
    the largest number of terms of any sum that contribute rounding error (zeros, for example, do not)."""

    def __init__(self, *, weighed: bool = False) -> None:
        super().__init__()
        self._weighed = weighed
        self.terms = self.length = 1

    @property
    def few(self) -> bool:
        """True if at most one in eight terms of the longest sum contributes rounding error."""
        return self.terms * FEW <= self.length

    def see(self, func, args, kwargs, result) -> None:  # type: ignore[no-untyped-def]
        """Called after each PyTorch operator `func` with its arguments (`args`, `kwargs`) and `result`.
        Updates the attributes `length` and `terms` if the operator takes sums with more terms (for `terms`:
        terms that count) than all operators before. Operators without sums change nothing."""
        super().see(func, args, kwargs, result)
        name = func.overloadpacket.__name__
        count = TERMS.get(name)
        if count is None:
            return
        names = [argument.name for argument in func._schema.arguments]
        given = dict(zip(names, args, strict=False)) | kwargs
        terms = int(count(given, result))
        self.length = max(self.length, terms)
        if self._weighed and terms > 1 and name in WEIGHED:
            terms = min(terms, WEIGHED[name](given))
        self.terms = max(self.terms, terms)


def _inner(name: str) -> Callable[[Given, Any], Any]:
    """A function that counts the terms of a matrix product: the last extent (K) of the operator's argument
    called `name`."""
    return lambda given, _: given[name].shape[-1]


def _reduced(given: Given, result: Any) -> Any:
    """How many terms one sum of a reduction operator has: elements of its first tensor argument for each
    element of the result. `given` are its arguments by name."""
    first = next(value for value in given.values() if isinstance(value, torch.Tensor))
    one = result[0] if isinstance(result, tuple) else result
    return first.numel() // max(one.numel(), 1)


def _along(given: Given, _: Any) -> Any:
    """How many terms one sum of an operator along one axis has (softmax, cumsum): the extent of the axis
    `dim`. `given` are its arguments by name."""
    first = next(value for value in given.values() if isinstance(value, torch.Tensor))
    return first.shape[given["dim"]] if first.dim() else 1


def _convolution(given: Given, _: Any) -> Any:
    """How many terms the sum in one output element of a convolution has; for a transposed one, in an element
    that the whole filter covers. `given` are its arguments by name."""
    weight = given["weight"]
    outputs = weight.shape[1] * given["groups"] if given["transposed"] else weight.shape[0]
    return weight.numel() // max(outputs, 1)


def _row(given: Given, _: Any) -> Any:
    """How many terms one sum of a layer normalization has: the number of elements of `normalized_shape`.
    `given` are the operator's arguments by name."""
    return torch.Size(given["normalized_shape"]).numel()


def _group(given: Given, _: Any) -> Any:
    """How many terms one sum of a group normalization has: the elements of one group in one sample. `given`
    are the operator's arguments by name."""
    return given["input"].numel() // max(given["N"] * given["group"], 1)


def _channel(given: Given, _: Any) -> Any:
    """How many terms one sum of a batch normalization has: the elements of one channel over the whole batch.
    `given` are the operator's arguments by name."""
    return given["input"].numel() // max(given["input"].shape[1], 1)


def _keys(given: Given, _: Any) -> Any:
    """How many terms one sum of an attention operator has: the number of keys. `given` are the operator's
    arguments by name."""
    return given["key"].shape[-2]


def _recurrent(given: Given, _: Any) -> Any:
    """How many terms the longest sum of an RNN operator has: the longest row of its weight matrices. `given`
    are the operator's arguments by name."""
    return max(weight.shape[-1] for weight in given["weight"])


TERMS: dict[str, Callable[[Given, Any], Any]] = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot"), _inner("self")),
    "addmm": _inner("mat1"),
    "addmv": _inner("mat"),
    **dict.fromkeys(("baddbmm", "addbmm"), _inner("batch1")),
    **dict.fromkeys(("sum", "mean", "nansum", "prod", "trace", "logsumexp", "linalg_vector_norm"), _reduced),
    **dict.fromkeys(("norm", "var", "std", "var_mean", "std_mean"), _reduced),
    **dict.fromkeys(("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"), _reduced),
    **dict.fromkeys(("binary_cross_entropy", "nll_loss_forward", "_adaptive_avg_pool2d"), _reduced),
    **dict.fromkeys(("_softmax", "_log_softmax", "cumsum", "cumprod", "logcumsumexp"), _along),
    **dict.fromkeys(("native_layer_norm", "_fused_rms_norm"), _row),
    **dict.fromkeys(("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit"), _channel),
    "native_group_norm": _group,
    "convolution": _convolution,
    "_scaled_dot_product_flash_attention_for_cpu": _keys,
    "_scaled_dot_product_flash_attention": _keys,
    "_scaled_dot_product_efficient_attention": _keys,
    "_cudnn_rnn": _recurrent,
}
