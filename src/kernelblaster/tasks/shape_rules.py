"""Shortcuts for running modules on fake and meta tensors, which have shapes but no values.

To find output shapes, PyTorch unrolls a recurrence (LSTM, GRU) over all its steps, and decomposes a batch
normalization. The rules in this module tell the shapes at once. Random initial values, which a constructor
would draw, are skipped.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

FILLS = frozenset({"uniform_", "normal_", "zero_", "fill_", "exponential_", "bernoulli_", "random_"})


class ShapeRules(TorchFunctionMode):
    """A context in which recurrences and batch normalizations return empty tensors of the right shapes
    without computing anything, and convolutions check their channels. For fake and meta tensors only."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        rule = RULES.get(getattr(func, "__name__", ""))
        if rule is not None:
            result = rule(*args, **(kwargs or {}))
            if result is not None:
                return result
        return func(*args, **(kwargs or {}))


class _Unfilled(TorchFunctionMode):
    """A context in which functions that initialize a tensor (torch.nn.init, `normal_`, `zero_`, ...) return
    it unchanged."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        fills = getattr(func, "__name__", "") in FILLS or getattr(func, "__module__", "") == "torch.nn.init"
        if fills and (args or "tensor" in kwargs):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


@contextmanager
def without_values() -> Iterator[None]:
    """A context for building a module on fake or meta tensors: functions that would initialize its parameters
    do nothing."""
    before = torch.nn.init._no_grad_trunc_normal_
    torch.nn.init._no_grad_trunc_normal_ = lambda tensor, *_, **__: tensor  # type: ignore[assignment]
    try:
        with _Unfilled():
            yield
    finally:
        torch.nn.init._no_grad_trunc_normal_ = before


def _batch_norm(  # type: ignore[no-untyped-def]
    input, running_mean, running_var, weight=None, bias=None, training=False, *_, **__
) -> torch.Tensor | None:
    """An empty tensor with the shape of the result of `torch.nn.functional.batch_norm`. None, so that
    PyTorch's own function is called and reports the error, if the parameters do not have one value per
    channel, or if in training each channel has a single value."""
    channels = input.shape[1] if input.dim() > 1 else None
    given = [t for t in (running_mean, running_var, weight, bias) if t is not None]
    if any(not isinstance(t, torch.Tensor) or t.shape != (channels,) for t in given):
        return None
    if training and input.numel() == channels:
        return None
    return torch.empty_like(input, memory_format=torch.contiguous_format)


def _recurrence(  # type: ignore[no-untyped-def]
    input, state, weights, has_biases=None, layers=1, dropout=0.0, train=False, bidirectional=False, *_, **__
) -> tuple[torch.Tensor, ...] | None:
    """Empty tensors with the shapes of the results of `torch.lstm` (`state` is a pair), `torch.gru` and
    `torch.rnn_tanh`: the outputs of all steps, then the last state. None for inputs that are not
    three-dimensional and for packed sequences (other arguments): PyTorch's own function is called for
    these."""
    states = tuple(state) if isinstance(state, list | tuple) else (state,)
    if not isinstance(weights, list | tuple) or input.dim() != 3 or states[0].dim() != 3:
        return None
    outputs = input.new_empty((*input.shape[:2], states[0].shape[2] * (2 if bidirectional else 1)))
    return (outputs, *(one.new_empty(one.shape) for one in states))


def _convolution(  # type: ignore[no-untyped-def]
    input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *_, **__
) -> None:
    """Raises RuntimeError if the input of a convolution does not have as many channels as its weight and
    `groups` need. Returns None otherwise, so that PyTorch finds the output's shape."""
    if input.dim() == weight.dim() and input.shape[1] != weight.shape[1] * groups:
        raise RuntimeError(f"expected {weight.shape[1] * groups} channels, but got {input.shape[1]}")


def _transposed_convolution(input, weight, *_, **__) -> None:  # type: ignore[no-untyped-def]
    """Raises RuntimeError if the input of a transposed convolution does not have the channels that its weight
    needs, which PyTorch does not check on tensors without content. Returns None otherwise, so that PyTorch
    finds the output's shape."""
    if input.dim() == weight.dim() and input.shape[1] != weight.shape[0]:
        raise RuntimeError(f"expected {weight.shape[0]} channels, but got {input.shape[1]}")


def _cell(input, state, weight, *_, **__) -> Any:  # type: ignore[no-untyped-def]
    """An empty tensor like the new state of `torch.gru_cell` and its like, or the pair of states of
    `torch.lstm_cell`. None, so that PyTorch reports the error, if the input does not fit the weight."""
    if input.shape[-1] != weight.shape[1]:
        return None
    if isinstance(state, list | tuple):
        return tuple(one.new_empty(one.shape) for one in state)
    return state.new_empty(state.shape)


Rule = Callable[..., Any]
RULES: dict[str, Rule] = {
    "batch_norm": lambda *given, **named: _batch_norm(*given, **named) if len(given) < 7 else None,
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrence),
    **dict.fromkeys(("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"), _cell),
    **{f"conv{count}d": _convolution for count in (1, 2, 3)},
    **{f"conv_transpose{count}d": _transposed_convolution for count in (1, 2, 3)},
}
