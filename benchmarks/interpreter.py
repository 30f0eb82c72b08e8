"""A PyTorch module run with another arithmetic: its operators are rebuilt from a variant's primitives.

Covers every operator of `core` that accumulates or approximates, but for averages over pooling windows and
running products, which are left as PyTorch has them. On a host, in float32, without oneDNN.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from arithmetic import Tensor, Variant
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(eq=False)
class Interpreter(TorchDispatchMode):  # type: ignore[misc]
    """Runs a module's operators with a variant's primitives. `used`: whether any came into it."""

    variant: Variant
    only_convolutions: bool = False
    used: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        inplace = name.endswith("_") and not name.startswith("_")
        known = OPERATORS.get(name.rstrip("_") if inplace else name)
        kwargs = kwargs or {}
        if known is None or (self.only_convolutions and name != "convolution"):
            return func(*args, **kwargs)
        needs, build = known
        if all(getattr(self.variant, primitive) is None for primitive in needs):
            return func(*args, **kwargs)
        first = next(a for a in args if isinstance(a, Tensor))
        if first.dtype != torch.float32:
            return func(*args, **kwargs)
        self.used |= self.variant.affects is None
        result = build(self, func, *args, **kwargs)
        if inplace:
            args[0].copy_(result)
            return args[0]
        return result

    def _note(self, terms: int) -> None:
        self.used |= self.variant.affects is not None and self.variant.affects(terms)

    def total(self, x: Tensor) -> Tensor:
        self._note(x.shape[-1])
        return (self.variant.total or _native_sum)(x)

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        self._note(a.shape[-1])
        return (self.variant.product or torch.matmul)(a, b)

    def exp(self, x: Tensor) -> Tensor:
        return (self.variant.exp or torch.exp)(x)

    def sigmoid(self, x: Tensor) -> Tensor:
        return (self.variant.sigmoid or torch.sigmoid)(x)

    def divide(self, a: Tensor, b: Tensor) -> Tensor:
        return (self.variant.divide or torch.div)(a, b)

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self._note(x.shape[-1])
        if self.variant.moments is not None:
            return self.variant.moments(x)
        variance, mean = torch.var_mean(x, dim=-1, correction=0)
        return mean, variance

    def normalized(self, x: Tensor, eps: float) -> Tensor:
        """Over the last axis."""
        mean, variance = self.moments(x)
        kept = self.variant.eps(eps) if self.variant.eps else eps
        factor = (self.variant.rsqrt or torch.rsqrt)(variance + kept)
        return (x - mean[..., None]) * factor[..., None]

    def softmax(self, x: Tensor) -> Tensor:
        if self.variant.softmax is not None:
            return self.variant.softmax(x)
        powers = self.exp(x - x.amax(-1, keepdim=True))
        return self.divide(powers, self.total(powers)[..., None])


def _native_sum(x: Tensor) -> Tensor:
    return x.sum(-1)


def _last(x: Tensor, dim: int | Sequence[int] | None) -> tuple[Tensor, Callable[..., Tensor]]:
    """The axes `dim` as the last one, and how a result without it is to be shaped."""
    chosen = range(x.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = sorted(d % x.dim() for d in chosen) if x.dim() else []
    others = [d for d in range(x.dim()) if d not in axes]
    moved = x.permute(*others, *axes).reshape(*(x.shape[d] for d in others), -1)

    def shaped(result: Tensor, keepdim: bool = False) -> Tensor:
        for axis in axes if keepdim else ():
            result = result.unsqueeze(axis)
        return result

    return moved, shaped


def _sum(mode: Interpreter, _: Any, x: Tensor, dim: Any = None, keepdim: bool = False, **__: Any) -> Tensor:
    moved, shaped = _last(x, dim or None)
    return shaped(mode.total(moved), keepdim)


def _mean(mode: Interpreter, _: Any, x: Tensor, dim: Any = None, keepdim: bool = False, **__: Any) -> Tensor:
    moved, shaped = _last(x, dim or None)
    return shaped(mode.total(moved) / moved.shape[-1], keepdim)


def _vector_norm(
    mode: Interpreter,
    func: Any,
    x: Tensor,
    order: float = 2,
    dim: Any = None,
    keepdim: bool = False,
    **_: Any,
) -> Tensor:
    assert order == 2
    moved, shaped = _last(x, dim or None)
    return shaped(mode.total(moved.square()).sqrt(), keepdim)


def _var_mean(
    mode: Interpreter, _: Any, x: Tensor, dim: Any = None, *, correction: float = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    moved, shaped = _last(x, dim or None)
    mean, variance = mode.moments(moved)
    variance = variance * (moved.shape[-1] / (moved.shape[-1] - correction))
    return shaped(variance, keepdim), shaped(mean, keepdim)


def _cumsum(mode: Interpreter, _: Any, x: Tensor, dim: int, **__: Any) -> Tensor:
    assert mode.variant.scan is not None
    return mode.variant.scan(x.transpose(dim, -1)).transpose(dim, -1)


def _softmax(mode: Interpreter, _: Any, x: Tensor, dim: int, __: bool) -> Tensor:
    return mode.softmax(x.transpose(dim, -1)).transpose(dim, -1).contiguous()


def _log_softmax(mode: Interpreter, _: Any, x: Tensor, dim: int, __: bool) -> Tensor:
    moved = x.transpose(dim, -1)
    moved = moved - moved.amax(-1, keepdim=True)
    return (moved - mode.total(mode.exp(moved))[..., None].log()).transpose(dim, -1).contiguous()


def _logsumexp(mode: Interpreter, _: Any, x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    moved, shaped = _last(x, dim)
    largest = moved.amax(-1)
    return shaped(mode.total(mode.exp(moved - largest[..., None])).log() + largest, keepdim)


def _mm(mode: Interpreter, _: Any, a: Tensor, b: Tensor) -> Tensor:
    return mode.product(a, b)


def _mv(mode: Interpreter, _: Any, a: Tensor, b: Tensor) -> Tensor:
    return mode.product(a, b[:, None])[:, 0]


def _addmm(mode: Interpreter, _: Any, c: Tensor, a: Tensor, b: Tensor, **__: Any) -> Tensor:
    return mode.product(a, b) + c


def _attention(
    mode: Interpreter,
    _: Any,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    p: float = 0.0,
    causal: bool = False,
    **kw: Any,
) -> tuple[Tensor, Tensor]:
    scale = kw.get("scale") or q.shape[-1] ** -0.5
    groups = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(groups, 1) for t in (k, v))
    scores = mode.product(q, k.mT) * scale
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    return mode.product(mode.softmax(scores), v), scores


def windows(x: Tensor, sizes: Sequence[int], stride: Any, padding: Any, dilation: Any) -> Tensor:
    """(batch, channels, *places, *taps) of what a convolution multiplies."""
    pad = [side for p in reversed(padding) for side in (p, p)]
    x = torch.nn.functional.pad(x, pad)
    for axis, (size, step, gap) in enumerate(zip(sizes, stride, dilation, strict=True)):
        x = x.unfold(2 + axis, gap * (size - 1) + 1, step)[..., ::gap]
    return x


def _convolution(
    mode: Interpreter,
    func: Any,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Tensor:
    if transposed:
        sizes = weight.shape[2:]
        wide = x.new_zeros(*x.shape[:2], *((n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True)))
        wide[(..., *(slice(None, None, s) for s in stride))] = x
        low = [d * (k - 1) - p for d, k, p in zip(dilation, sizes, padding, strict=True)]
        high = [a + extra for a, extra in zip(low, output_padding, strict=True)]
        pad = [side for pair in zip(reversed(low), reversed(high), strict=True) for side in pair]
        x = torch.nn.functional.pad(wide, pad)
        weight = weight.flip(*range(2, weight.dim())).unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)
        stride, padding = [1] * len(stride), [0] * len(stride)
    seen = windows(x, weight.shape[2:], stride, padding, dilation)
    spatial = weight.dim() - 2
    places = seen.shape[2 : 2 + spatial]
    seen = seen.unflatten(1, (groups, -1)).movedim(2, 2 + spatial)  # batch, group, places, channel, taps
    columns = seen.reshape(x.shape[0], groups, math.prod(places), -1)
    rows = weight.reshape(groups, weight.shape[0] // groups, -1)
    out = mode.product(rows, columns.mT).reshape(x.shape[0], weight.shape[0], *places)
    return out if bias is None else out + bias.view(-1, *(1,) * spatial)


def _layer_norm(
    mode: Interpreter, _: Any, x: Tensor, shape: Any, weight: Any, bias: Any, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    out = mode.normalized(x.flatten(-len(shape)), eps).reshape(x.shape)
    out = out if weight is None else out * weight
    out = out if bias is None else out + bias
    return out, out, out


def _group_norm(
    mode: Interpreter,
    _: Any,
    x: Tensor,
    weight: Any,
    bias: Any,
    n: int,
    c: int,
    hw: int,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    out = mode.normalized(x.reshape(n, groups, -1), eps).reshape(n, c, *x.shape[2:])
    around = (1, c, *(1,) * (x.dim() - 2))
    out = out if weight is None else out * weight.view(around)
    out = out if bias is None else out + bias.view(around)
    return out, out, out


def _batch_norm(
    mode: Interpreter,
    func: Any,
    x: Tensor,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    training: bool,
    *rest: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    if not training:
        return func(x, weight, bias, mean, var, training, *rest)
    moved = x.transpose(0, 1)
    out = mode.normalized(moved.reshape(moved.shape[0], -1), rest[1]).reshape(moved.shape).transpose(0, 1)
    around = (1, x.shape[1], *(1,) * (x.dim() - 2))
    out = out if weight is None else out * weight.view(around)
    out = out if bias is None else out + bias.view(around)
    return out, out, out


def _gelu(mode: Interpreter, _: Any, x: Tensor, **__: Any) -> Tensor:
    assert mode.variant.erf is not None
    return x * 0.5 * (1 + mode.variant.erf(x * 2**-0.5))


def _silu(mode: Interpreter, _: Any, x: Tensor) -> Tensor:
    return x * mode.sigmoid(x)


def _elu(mode: Interpreter, _: Any, x: Tensor, *__: Any) -> Tensor:
    return torch.where(x > 0, x, mode.exp(x.clamp_max(0)) - 1)


def _loss(mode: Interpreter, func: Any, a: Tensor, b: Tensor, reduction: int = 1, *rest: Any) -> Tensor:
    """The mean over all elements of what the same operator gives each."""
    each = func(a, b, 0, *rest).reshape(-1)
    return mode.total(each) / each.numel() if reduction == 1 else each


def _nll(
    mode: Interpreter, func: Any, x: Tensor, target: Tensor, weight: Any, reduction: int, ignore: int
) -> tuple[Tensor, Tensor]:
    each, count = func(x, target, weight, 0, ignore)
    return (mode.total(each) / each.numel() if reduction == 1 else each), count


def _plain(primitive: str) -> tuple[set[str], Callable[..., Any]]:
    return {primitive}, lambda mode, _, x, **__: getattr(mode.variant, primitive)(x)


def _div(mode: Interpreter, _: Any, a: Tensor, b: Any) -> Tensor:
    return mode.divide(a, b if isinstance(b, Tensor) else torch.tensor(b))


_NORM = {"moments", "rsqrt", "eps"}
_SOFT = {"exp", "total", "divide", "softmax"}
OPERATORS: dict[str, tuple[set[str], Callable[..., Any]]] = {
    "sum": ({"total"}, _sum),
    "mean": ({"total"}, _mean),
    "linalg_vector_norm": ({"total"}, _vector_norm),
    "var_mean": ({"moments"}, _var_mean),
    "cumsum": ({"scan"}, _cumsum),
    "_softmax": (_SOFT, _softmax),
    "_log_softmax": ({"exp", "total"}, _log_softmax),
    "logsumexp": ({"exp", "total"}, _logsumexp),
    "mm": ({"product"}, _mm),
    "bmm": ({"product"}, _mm),
    "mv": ({"product"}, _mv),
    "addmm": ({"product"}, _addmm),
    "convolution": ({"product"}, _convolution),
    "_scaled_dot_product_flash_attention_for_cpu": (_SOFT | {"product"}, _attention),
    "native_layer_norm": (_NORM, _layer_norm),
    "native_group_norm": (_NORM, _group_norm),
    "native_batch_norm": (_NORM, _batch_norm),
    "gelu": ({"erf"}, _gelu),
    "silu": ({"sigmoid"}, _silu),
    "elu": ({"exp"}, _elu),
    "exp": _plain("exp"),
    "tanh": _plain("tanh"),
    "sigmoid": _plain("sigmoid"),
    "rsqrt": _plain("rsqrt"),
    "div": ({"divide"}, _div),
    "mse_loss": ({"total"}, _loss),
    "huber_loss": ({"total"}, _loss),
    "nll_loss_forward": ({"total"}, _nll),
}
