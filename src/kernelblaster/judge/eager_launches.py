"""Which GPU kernels eager PyTorch launches for an operator, and the bytes and operations of each. Used by the
timing model of eager PyTorch (eager_model.py).

The rules here were taken from PyTorch's CUDA sources. Some operators are several kernels, some read their
input more than once, and cuDNN changes the memory layout for some. An unknown operator counts as one kernel
that moves its arguments and results, in the family `other`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import torch

Unit = Literal["fp64", "fp32", "tf32", "fp16"]

SECTOR_BYTES = 32
TILE = 128  # rows and columns of a matrix product that one block computes
SPLIT = 512  # K extent of a matrix product that is still worth a block of its own (split-K)
INDEXING = 4  # cost of index computation for a pooled element, in elements of its window


@dataclass(frozen=True)
class EagerLaunch:
    """What the timing model knows of one GPU kernel that eager PyTorch launches.

    `family` is the kind of kernel; eager_rates.toml has the fraction of the GPU's peak rates that each family
    reaches. `bytes` are read from and written to device memory. `operations` are floating-point operations,
    executed by `unit` (like "fp32"). `blocks` is the number of thread blocks, None if they are enough to fill
    the GPU. `steps` is how many such kernels, one after the other, this entry stands for. `row_bytes` are
    bytes that each block reads a second time: from the cache if they fit, else from memory; 0 if none.
    """

    family: str
    bytes: int
    operations: float = 0.0
    unit: Unit = "fp32"
    blocks: int | None = None
    steps: int = 1
    row_bytes: int = 0


@dataclass(frozen=True)
class EagerCall:
    """One call of a PyTorch operator. `name` is the ATen operator (like "softmax"), `args` are its positional
    arguments; `inputs` and `outputs` are the tensors among its arguments and results, of which only shape,
    strides and type are used. `pointwise`: PyTorch tags the operator as elementwise."""

    name: str
    pointwise: bool
    args: tuple[Any, ...]
    inputs: Sequence[torch.Tensor]
    outputs: Sequence[torch.Tensor]

    @property
    def bytes(self) -> int:
        """Bytes of device memory that the call must read and write: every input and output tensor once."""
        return sum(map(touched_bytes, [*self.inputs, *self.outputs]))


def launches_of(call: EagerCall) -> list[EagerLaunch]:
    """The kernels that eager PyTorch launches for one call of an operator, in order; empty for an operator
    without tensor results."""
    if not call.outputs:
        return []
    known = _KNOWN.get(call.name) or _KNOWN.get(call.name.removesuffix("_"))
    if known is not None:
        return known(call)
    return _pointwise(call) if call.pointwise else [EagerLaunch("other", call.bytes)]


def touched_bytes(tensor: torch.Tensor) -> int:
    """Bytes that a kernel moves to access all elements of a tensor: broadcast elements count once, scattered
    ones by whole 32-byte sectors."""
    extents = [(size, stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride]
    least = min((stride for size, stride in extents if size > 1), default=1)
    width = tensor.element_size()
    return prod(size for size, _ in extents) * min(least * width, max(width, SECTOR_BYTES))


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, causal: bool) -> EagerLaunch:
    """The fused attention kernel (scaled dot product) of eager PyTorch, as an entry of the timing model.
    `query`, `key` and `value` have the shape (..., length, channels); with `causal`, the kernel has a causal
    mask, which halves its operations."""
    rows = query.numel() // query.shape[-1]
    operations = 2.0 * rows * key.shape[-2] * (query.shape[-1] + value.shape[-1])
    moved = query.nbytes + key.nbytes + value.nbytes + rows * value.shape[-1] * query.element_size()
    unit = _unit(query, "fp32")
    family = "attention_half" if unit == "fp16" else "attention"
    return EagerLaunch(family, moved, operations / (2 if causal else 1), unit)


def recurrent(data: torch.Tensor, weights: Sequence[torch.Tensor], steps: int) -> EagerLaunch:
    """A whole stack of RNN layers on cuDNN (torch.lstm and the like) as one entry of the timing model. `data`
    is the input sequence, its last axis the features. `weights` are all weight matrices and biases. `steps`
    is time steps times layers times directions; for each of these, two kernels are launched, a matrix product
    and a pointwise one."""
    tokens = data.numel() // data.shape[-1]
    operations = 2.0 * tokens * sum(w.numel() for w in weights if w.dim() == 2)
    moved = 2 * data.nbytes + sum(w.nbytes for w in weights)
    return EagerLaunch("recurrent", moved, operations, "fp32", steps=2 * steps)


def _unit(tensor: torch.Tensor, single: Unit) -> Unit:
    """The arithmetic unit that computes on this tensor's type: "fp16" for 16-bit types, "fp64" for float64,
    else `single`."""
    if tensor.dtype in (torch.float16, torch.bfloat16):
        return "fp16"
    return "fp64" if tensor.dtype == torch.float64 else single


def _pointwise(call: EagerCall) -> list[EagerLaunch]:
    """The kernel of an elementwise operator. Its family is `pointwise` where all tensors have the same
    strides and type, so that vector access is used; `strided` where indices are computed for each element;
    `transposed` where elements adjacent in the output are apart in an input."""
    out = call.outputs[0]
    alike = all(t.shape == out.shape and t.stride() == out.stride() for t in call.inputs)
    one_type = len({t.dtype for t in call.inputs}) <= 1 or call.name in ("where", "masked_fill_")
    if alike and one_type and _dense(out):
        return [EagerLaunch("pointwise", call.bytes)]
    near = [axis for axis in range(out.dim()) if out.shape[axis] > 1 and out.stride(axis) == 1]
    same_rank = [t for t in call.inputs if t.dim() == out.dim()]
    apart = any(t.shape[axis] > 1 and t.stride(axis) > 1 for t in same_rank for axis in near)
    return [EagerLaunch("transposed" if apart else "strided", call.bytes)]


def _dense(tensor: torch.Tensor) -> bool:
    """Whether the tensor's elements fill one contiguous range of memory, in any order of axes."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return last + 1 == tensor.numel()


def _family(name: str) -> Callable[[EagerCall], list[EagerLaunch]]:
    """Makes a rule for operators that are one kernel: a function that turns any call into one entry of the
    timing model, of the family `name`, which reads all arguments and writes all results once."""
    return lambda call: [EagerLaunch(name, call.bytes)]


def _nothing(call: EagerCall) -> list[EagerLaunch]:
    return []


def _fill(call: EagerCall) -> list[EagerLaunch]:
    """A kernel that only writes the results of the call, like zeros or arange."""
    return [EagerLaunch("pointwise", sum(map(touched_bytes, call.outputs)))]


def _copy_into(call: EagerCall) -> list[EagerLaunch]:
    """The kernel of `copy_`: the first input is the target, so only the second is read."""
    return _pointwise(EagerCall("copy", True, (), call.inputs[1:], call.outputs))


def _pad(call: EagerCall) -> list[EagerLaunch]:
    """The kernels of constant padding: a fill of the result, then a copy of the input into its middle."""
    return [*_fill(call), EagerLaunch("strided", 2 * touched_bytes(call.inputs[0]))]


def _masked_fill(call: EagerCall) -> list[EagerLaunch]:
    """The kernels of masked_fill: a copy of the input, then a kernel that fills in place."""
    copy = EagerCall("clone", True, (), call.inputs[:1], call.outputs)
    fill = EagerCall("masked_fill_", True, (), [*call.outputs, *call.inputs[1:]], call.outputs)
    return _pointwise(copy) + _pointwise(fill)


def _gather(call: EagerCall) -> list[EagerLaunch]:
    """The kernel of a table lookup (embedding, index_select, ...). Bytes: the part of the table that the
    result holds (at most all of it), the indices, the result."""
    table, *indices = map(touched_bytes, call.inputs)
    result = call.outputs[0].nbytes
    return [EagerLaunch("gather", min(table, result) + sum(indices) + result)]


def _picked(call: EagerCall) -> list[EagerLaunch]:
    """The kernel of a loss on class indices (nll_loss): one element of each row is read, which costs a
    32-byte sector."""
    return [EagerLaunch("gather", call.inputs[1].numel() * SECTOR_BYTES + call.outputs[0].nbytes)]


def _loss(call: EagerCall) -> list[EagerLaunch]:
    """The kernels of an elementwise loss: one that writes all terms, then (if the result is a scalar) a
    reduction to the mean."""
    if call.outputs[0].numel() > 1:
        return _pointwise(call)
    terms = call.inputs[0].nbytes
    return [EagerLaunch("pointwise", call.bytes + terms), EagerLaunch("reduction", terms)]


def _logits_loss(call: EagerCall) -> list[EagerLaunch]:
    """The kernels of binary cross entropy with logits, (1 - target) * logit - log sigmoid(logit): one for
    each operator, then the mean if the result is a scalar."""
    terms = call.inputs[0].nbytes
    mean = [EagerLaunch("reduction", terms)] if call.outputs[0].numel() == 1 else []
    return [EagerLaunch("pointwise", times * terms) for times in (2, 3, 2, 3)] + mean


def _logsumexp(call: EagerCall) -> list[EagerLaunch]:
    """The kernels of logsumexp: maximum, difference, exponential in place and sum, with small kernels on the
    reduced result in between."""
    terms, small = call.inputs[0].nbytes, EagerLaunch("pointwise", 2 * call.outputs[0].nbytes)
    reduce = EagerLaunch("reduction", terms)
    moved = [EagerLaunch("strided", 2 * terms), EagerLaunch("pointwise", 2 * terms)]
    return [reduce, small, *moved, reduce, small, small]


def _softmax(call: EagerCall) -> list[EagerLaunch]:
    """The kernel of a softmax. Along the contiguous axis it reads a row again from the cache; along another
    axis, three times from memory."""
    given, axis = call.inputs[0], call.args[1]
    if given.dim() and given.stride(axis) != 1:
        return [EagerLaunch("softmax_across", call.bytes + 2 * given.nbytes)]
    row = given.shape[axis] * given.element_size() if given.dim() else 0
    return [EagerLaunch("softmax", call.bytes, row_bytes=row)]


def _scan(call: EagerCall) -> list[EagerLaunch]:
    """The kernel of a cumulative operator (cumsum, ...): family "scan" along the contiguous axis, another one
    along any other axis, where it is slower."""
    given, axis = call.inputs[0], call.args[1]
    across = given.dim() and given.stride(axis) != 1
    return [EagerLaunch("scan_across" if across else "scan", call.bytes)]


def _group_norm(call: EagerCall) -> list[EagerLaunch]:
    """The kernels of a group normalization: one for mean and variance, one that applies them."""
    given = touched_bytes(call.inputs[0])
    return [EagerLaunch("moments", given), EagerLaunch("strided", 2 * given)]


def _batch_norm(call: EagerCall) -> list[EagerLaunch]:
    """The kernel of a batch normalization. In training, one block per channel reads it for mean and variance,
    then again to apply them; in evaluation it is one elementwise kernel."""
    given = call.inputs[0]
    training = next((value for value in call.args if isinstance(value, bool)), False)
    if not training:
        return [EagerLaunch("strided", 2 * touched_bytes(given))]
    return [EagerLaunch("batch_norm", 3 * touched_bytes(given), blocks=given.shape[1])]


def _pool(call: EagerCall) -> list[EagerLaunch]:
    """The kernel of a pooling operator: every output element reads its whole window, which counts as
    operations."""
    given, out = call.inputs[0], call.outputs[0]
    rank = next(int(letter) for letter in call.name if letter.isdigit())
    if "adaptive" in call.name:
        window = given.numel() / max(out.numel(), 1)
    else:
        kernel = call.args[1] if isinstance(call.args[1], list | tuple) else [call.args[1]]
        window = prod(kernel) if len(kernel) == rank else kernel[0] ** rank
    family = "pool_3d" if rank == 3 else "pool"
    return [EagerLaunch(family, call.bytes, float(out.numel() * (window + INDEXING)))]


def _matmul(call: EagerCall) -> list[EagerLaunch]:
    """The kernel of a matrix product; the two factors are the last inputs. Rows and columns are padded to
    whole tiles; a long K axis is split over blocks. A product with a vector is a reduction."""
    left, right = call.inputs[-2:]
    rows = left.shape[-2] if left.dim() > 1 else 1
    columns = right.shape[-1] if right.dim() > 1 else 1
    if min(rows, columns) == 1:
        return [EagerLaunch("reduction", call.bytes)]
    inner, batch = left.shape[-1], prod(left.shape[:-2])
    operations = 2.0 * batch * inner * _padded(rows) * _padded(columns)
    blocks = batch * -(-rows // TILE) * -(-columns // TILE) * max(1, inner // SPLIT)
    unit = _unit(left, "fp32")
    family = "matmul_half" if unit == "fp16" else "matmul"
    return [EagerLaunch(family, call.bytes, operations, unit, blocks=blocks)]


def _padded(extent: int) -> int:
    """An extent of a matrix rounded up to a multiple of 64, or to 32 if it is at most 32: the tile shapes
    that libraries have."""
    return _multiple(extent, 64 if extent > 32 else 32)


def _multiple(extent: int, of: int) -> int:
    """`extent` rounded up to the next multiple of `of`."""
    return -(-extent // of) * of


def _convolution(call: EagerCall) -> list[EagerLaunch]:
    """The kernels of a convolution. cuDNN's tensor-core kernels want channels last, so the layout is
    converted before and after, except for 1x1 filters. Float32 with channel counts that are not multiples of
    4 gets no tensor cores. A bias is added by a separate kernel."""
    (given, weight, *bias), out = call.inputs, call.outputs[0]
    transposed, groups = call.args[6], call.args[8]
    products = weight[0].numel() * (given.numel() if transposed else out.numel())
    moved = given.nbytes + weight.nbytes + out.nbytes
    if groups > 1 and groups == given.shape[1]:
        return [EagerLaunch("depthwise", moved, float(products))]
    channels, filters = given.shape[1] // groups, out.shape[1] // groups
    unit = _unit(given, "tf32")
    after = [EagerLaunch("strided", 2 * out.nbytes)] if bias else []
    if channels % 4 and unit == "tf32":
        products *= _multiple(channels, 4) / channels * _multiple(filters, 32) / filters
        return [EagerLaunch("conv_plain", moved, 2.0 * products, "fp32"), *after]
    if prod(weight.shape[2:]) == 1:
        return [EagerLaunch("conv_1x1", moved, 2.0 * products, unit), *after]
    family = ("conv_transposed" if transposed else "conv") + ("_3d" if given.dim() == 5 else "")
    return [
        EagerLaunch("layout", 2 * given.nbytes),
        EagerLaunch(family, moved, 2.0 * products, unit),
        EagerLaunch("layout", 2 * out.nbytes),
        *after,
    ]


_TABLE: dict[str, Callable[[EagerCall], list[EagerLaunch]]] = {
    "empty empty_like new_empty empty_strided new_empty_strided": _nothing,
    "zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full fill zero": _fill,
    "arange linspace scalar_tensor eye rand randn randint bernoulli diag_embed": _fill,
    "copy": _copy_into,
    "clone contiguous _to_copy native_dropout log_sigmoid_forward": _pointwise,
    "hardswish hardsigmoid mish glu _prelu_kernel": _pointwise,
    "constant_pad_nd": _pad,
    "masked_fill": _masked_fill,
    "masked_fill_": _pointwise,
    "embedding index index_select gather take": _gather,
    "flip upsample_nearest1d upsample_nearest2d upsample_nearest3d": _family("gather"),
    "upsample_linear1d upsample_bilinear2d upsample_trilinear3d grid_sampler_2d": _family("gather"),
    "nll_loss_forward nll_loss2d_forward": _picked,
    "mse_loss huber_loss smooth_l1_loss binary_cross_entropy soft_margin_loss": _loss,
    "binary_cross_entropy_with_logits": _logits_loss,
    "logsumexp": _logsumexp,
    "_softmax _log_softmax": _softmax,
    "cumsum cumprod cummax cummin logcumsumexp": _scan,
    "native_layer_norm _fused_rms_norm": _family("layer_norm"),
    "native_group_norm": _group_norm,
    "native_batch_norm cudnn_batch_norm _native_batch_norm_legit": _batch_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d": _pool,
    "max_pool2d_with_indices max_pool3d_with_indices": _pool,
    "adaptive_avg_pool1d _adaptive_avg_pool2d _adaptive_avg_pool3d": _pool,
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d": _pool,
    "mm bmm mv dot addmm addmv baddbmm addbmm": _matmul,
    "convolution": _convolution,
    "sum mean amax amin prod any all norm linalg_vector_norm nansum count_nonzero": _family("reduction"),
    "argmax argmin max min aminmax var std var_mean std_mean median": _family("pair_reduction"),
    "cat stack pixel_shuffle pixel_unshuffle channel_shuffle repeat roll tril triu": _family("strided"),
    "sort argsort topk kthvalue msort": _family("sort"),
}
_KNOWN = {name: launches for names, launches in _TABLE.items() for name in names.split()}
