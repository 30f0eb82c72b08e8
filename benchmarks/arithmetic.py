"""Arithmetics, honest and not: other orders of summation, split products, coarser numbers.

A `Variant` replaces primitives (a sum, a product of matrices, an exponential, ...) of which `interpreter.py`
builds operators. Everything runs on the host in float32, with float64 only where an instruction is exact
inside (fused multiplication and addition, the sums within one tensor core instruction).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy
import torch

Tensor = torch.Tensor
Unary = Callable[[Tensor], Tensor]
Kind = Literal["honest", "grey", "dishonest"]
UNIT = 2.0**-24
ERFC = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
    0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277,
)  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """`total` sums over the last axis, `scan` gives its running sums, `product` is a batched matrix product,
    `moments` mean and variance (by the count) over the last axis, `softmax` works on the last axis. `written`
    is applied to every output, `read` to every input and parameter. What is None is PyTorch's own."""

    name: str
    kind: Kind
    total: Unary | None = None
    scan: Unary | None = None
    product: Callable[[Tensor, Tensor], Tensor] | None = None
    moments: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None
    softmax: Unary | None = None
    exp: Unary | None = None
    tanh: Unary | None = None
    sigmoid: Unary | None = None
    erf: Unary | None = None
    rsqrt: Unary | None = None
    divide: Callable[[Tensor, Tensor], Tensor] | None = None
    eps: Callable[[float], float] | None = None
    written: Unary | None = None
    read: Unary | None = None
    affects: Callable[[int], bool] | None = None  # sums of that many terms; None: all


# --- sums ------------------------------------------------------------------------------------------------


def sequential_scan(x: Tensor) -> Tensor:
    """Running float32 sums from left to right (PyTorch's own on a host would carry float64)."""
    return torch.from_numpy(numpy.add.accumulate(x.contiguous().numpy(), axis=-1, dtype=numpy.float32))


def sequential(x: Tensor) -> Tensor:
    return sequential_scan(x)[..., -1] if x.shape[-1] else x.sum(-1)


def _folded(x: Tensor, width: int) -> Tensor:
    """The last axis as (blocks, width), filled up with zeros."""
    padding = -x.shape[-1] % width
    return torch.nn.functional.pad(x, (0, padding)).unflatten(-1, (-1, width))


def blocked(width: int, x: Tensor) -> Tensor:
    """Blocks from left to right, then their sums from left to right."""
    return sequential(sequential(_folded(x, width)))


def lanes(width: int, x: Tensor) -> Tensor:
    """As many threads, each of which adds what lies `width` apart; then their sums in a tree."""
    return tree(sequential(_folded(x, width).transpose(-1, -2)))


def tree(x: Tensor) -> Tensor:
    while x.shape[-1] > 1:
        x = torch.nn.functional.pad(x, (0, x.shape[-1] % 2))
        x = x[..., ::2] + x[..., 1::2]
    return x[..., 0]


def kahan(x: Tensor) -> Tensor:
    total = torch.zeros_like(x[..., 0])
    lost = torch.zeros_like(total)
    for k in range(x.shape[-1]):
        term = x[..., k] - lost
        new = total + term
        lost = (new - total) - term
        total = new
    return total


def in_double(x: Tensor) -> Tensor:
    return x.double().sum(-1).float()


def scan_blocked(width: int, x: Tensor) -> Tensor:
    """Running sums within blocks, and those of the blocks' sums added to them."""
    inside = sequential_scan(_folded(x, width))
    sums = sequential_scan(inside[..., -1])
    before = torch.cat([torch.zeros_like(sums[..., :1]), sums[..., :-1]], -1)
    return (inside + before[..., None]).flatten(-2)[..., : x.shape[-1]]


# --- products --------------------------------------------------------------------------------------------


def fused(a: Tensor, b: Tensor) -> Tensor:
    """From left to right along the inner axis, multiplication and addition rounded once together."""
    out = torch.zeros(*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    left, right = a.double(), b.double()
    for k in range(a.shape[-1]):
        out = (left[..., :, k, None] * right[..., None, k, :]).add_(out).float()
    return out


def unfused(a: Tensor, b: Tensor) -> Tensor:
    """The same with two roundings."""
    out = torch.zeros(*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    for k in range(a.shape[-1]):
        out = out + a[..., :, k, None] * b[..., None, k, :]
    return out


def tiled(width: int, a: Tensor, b: Tensor) -> Tensor:
    """Tiles of the inner axis, added from left to right."""
    return split(1, _same, ((0, 0),), width, a, b)


def to_tf32(x: Tensor) -> Tensor:
    """Ten bits after the point, to nearest."""
    bits = x.contiguous().view(torch.int32)
    rounded = ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)
    return torch.where(torch.isfinite(x), rounded, x)


def cut_to_tf32(x: Tensor) -> Tensor:
    """What tensor cores make of float32 operands that nobody has rounded."""
    return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def to_bfloat16(x: Tensor) -> Tensor:
    return x.bfloat16().float()


def to_half(x: Tensor) -> Tensor:
    return x.half().float()


def to_scaled_half(x: Tensor) -> Tensor:
    """Halves after a power of two that takes the largest of each row to the upper end of their range."""
    largest = x.abs().amax(-1, keepdim=True).clamp_min(1e-30)
    scale = torch.exp2(15 - torch.ceil(torch.log2(largest)))
    return (x * scale).half().float() / scale


def _same(x: Tensor) -> Tensor:
    return x


def terms_of(x: Tensor, count: int, narrow: Unary) -> list[Tensor]:
    """x as a sum of `count` narrow numbers, largest first; what is left over is dropped."""
    parts = []
    for _ in range(count):
        parts.append(narrow(x))
        x = x - parts[-1]
    return parts


Pairs = Sequence[tuple[int, int]]
THREE: Pairs = ((1, 0), (0, 1), (0, 0))
SIX: Pairs = ((2, 0), (0, 2), (1, 1), *THREE)
NINE: Pairs = ((2, 2), (2, 1), (1, 2), *SIX)


def split(
    count: int, narrow: Unary, pairs: Pairs, width: int, a: Tensor, b: Tensor, keep: Unary = Tensor.float
) -> Tensor:
    """A product of split operands on tensor cores: within an instruction, `width` long, sums are exact;
    `keep` is what the accumulator holds between two of them."""
    left = [t.double() for t in terms_of(a, count, narrow)]
    right = [t.double().mT for t in terms_of(b.mT, count, narrow)]
    out = torch.zeros(*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    for start in range(0, a.shape[-1], width):
        part = slice(start, start + width)
        for i, j in pairs:
            out = keep(out.double() + left[i][..., part] @ right[j][..., part, :])
    return out


def to_zero(x: Tensor) -> Tensor:
    """float64 cut off to float32, as tensor cores add."""
    near = x.float()
    away = near.double().abs() > x.abs()
    return torch.where(away, torch.nextafter(near, torch.zeros_like(near)), near)


# --- moments and functions -------------------------------------------------------------------------------


def two_pass(total: Unary, x: Tensor) -> tuple[Tensor, Tensor]:
    mean = total(x) / x.shape[-1]
    return mean, total((x - mean[..., None]).square()) / x.shape[-1]


def one_pass(x: Tensor) -> tuple[Tensor, Tensor]:
    mean = lanes(256, x) / x.shape[-1]
    return mean, (lanes(256, x.square()) / x.shape[-1] - mean.square()).clamp_min(0)


def shifted_one_pass(x: Tensor) -> tuple[Tensor, Tensor]:
    """One pass over the distance from the first element."""
    mean, variance = one_pass(x - x[..., :1])
    return mean + x[..., 0], variance


def welford(x: Tensor) -> tuple[Tensor, Tensor]:
    mean, square = torch.zeros_like(x[..., 0]), torch.zeros_like(x[..., 0])
    for k in range(x.shape[-1]):
        delta = x[..., k] - mean
        mean = mean + delta / (k + 1)
        square = square + delta * (x[..., k] - mean)
    return mean, square / x.shape[-1]


def unbiased(x: Tensor) -> tuple[Tensor, Tensor]:
    mean, variance = two_pass(lanes_of(256), x)
    return mean, variance * (x.shape[-1] / max(x.shape[-1] - 1, 1))


def online_softmax(x: Tensor) -> Tensor:
    """One pass for the maximum and the sum together, in blocks of 32."""
    blocks = torch.nn.functional.pad(x, (0, -x.shape[-1] % 32), value=-math.inf).unflatten(-1, (-1, 32))
    largest = torch.full_like(x[..., :1], -math.inf)
    total = torch.zeros_like(largest)
    for k in range(blocks.shape[-2]):
        block = blocks[..., k, :]
        new = torch.maximum(largest, block.amax(-1, keepdim=True))
        old = torch.where(torch.isinf(largest), torch.zeros_like(total), total * torch.exp(largest - new))
        total = old + torch.exp(block - new).sum(-1, keepdim=True)
        largest = new
    return torch.exp(x - largest) / total


def within(ulps: float, function: Unary) -> Unary:
    """The function in float32 with an error of up to so many roundings of the result, at random."""

    def run(x: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(1)
        noise = torch.rand(x.shape, generator=generator, dtype=torch.float64) * 2 - 1
        return (function(x.double()) * (1 + ulps * 2 * UNIT * noise)).float()

    return run


def to_bits(bits: int, function: Unary) -> Unary:
    """The function with so many bits after the point."""

    def run(x: Tensor) -> Tensor:
        mantissa, exponent = torch.frexp(function(x))
        return torch.ldexp(torch.round(mantissa * 2.0 ** (bits + 1)) / 2.0 ** (bits + 1), exponent)

    return run


def exp_by_exp2(x: Tensor) -> Tensor:
    """ex2.approx of the argument times log2(e), both float32, as `__expf` does: two roundings of the result,
    and one of the argument, which grows with it."""
    return within(1, torch.exp2)(x * torch.tensor(math.log2(math.e)))


def exp_in_half(x: Tensor) -> Tensor:
    return torch.exp2((x * math.log2(math.e)).half().float()).half().float()


def tanh_by_exp(x: Tensor) -> Tensor:
    return 1 - 2 / (1 + exp_by_exp2(2 * x))


def sigmoid_by_exp(x: Tensor) -> Tensor:
    return 1 / (1 + exp_by_exp2(-x))


def erf_by_erfc(x: Tensor) -> Tensor:
    """1 - erfc, erfc by a polynomial under an exponential in float32, good to 1.2e-7 (Numerical Recipes)."""
    z = x.abs()
    t = 1 / (1 + 0.5 * z)
    power = torch.full_like(z, ERFC[-1])
    for coefficient in reversed(ERFC[:-1]):
        power = power * t + coefficient
    return torch.copysign(1 - t * torch.exp(power - z * z), x)


def by_reciprocal(a: Tensor, b: Tensor) -> Tensor:
    return a * (1 / b)


def rsqrt_newton(x: Tensor) -> Tensor:
    """A first guess of 11 bits and one step of Newton's method in float32."""
    guess = to_bits(11, torch.rsqrt)(x)
    return torch.where(torch.isfinite(guess), guess * (1.5 - 0.5 * x * guess * guess), guess)


def lanes_of(width: int) -> Unary:
    return partial(lanes, width)


# --- what is left out ------------------------------------------------------------------------------------


def without(keep: Callable[[int], Tensor | None]) -> tuple[Unary, Callable[[Tensor, Tensor], Tensor]]:
    """A sum and a product over the terms that `keep` names, given how many there are; None: over all."""

    def total(x: Tensor) -> Tensor:
        kept = keep(x.shape[-1])
        return x.sum(-1) if kept is None else x[..., kept].sum(-1)

    def product(a: Tensor, b: Tensor) -> Tensor:
        kept = keep(a.shape[-1])
        return a @ b if kept is None else a[..., kept] @ b[..., kept, :]

    return total, product


def every_thousandth(count: int) -> Tensor | None:
    places = torch.arange(count)
    return places[places % 1000 != 999] if count >= 1000 else None


def last(count: int) -> Tensor | None:
    return torch.arange(count - 1) if count > 1 else None


def tail_of_eight(count: int) -> Tensor | None:
    return torch.arange(count // 8 * 8) if count % 8 and count > 8 else None


# --- the variants ----------------------------------------------------------------------------------------


def _ordered(name: str, total: Unary, product: Any = None, scan: Unary | None = None) -> Variant:
    moments = partial(two_pass, total)
    return Variant(name, "honest", total=total, scan=scan, product=product, moments=moments)


def _split(name: str, kind: Kind, *args: Any, keep: Unary = Tensor.float) -> Variant:
    return Variant(name, kind, product=partial(split, *args, keep=keep))


def _half_sum(x: Tensor) -> Tensor:
    total = torch.zeros_like(x[..., 0])
    for k in range(x.shape[-1]):
        total = to_half(total + x[..., k])
    return total


def _half_partials(x: Tensor) -> Tensor:
    return to_half(sequential(_folded(x, 256))).sum(-1)


def _dropped(name: str, keep: Callable[[int], Tensor | None]) -> Variant:
    total, product = without(keep)
    moments = partial(two_pass, total)

    def affects(count: int) -> bool:
        return keep(count) is not None

    return Variant(name, "dishonest", total=total, product=product, moments=moments, affects=affects)


ONE: Pairs = ((0, 0),)
VARIANTS: tuple[Variant, ...] = (
    _ordered("sums left to right", sequential, unfused, sequential_scan),
    _ordered("sums left to right, fused", sequential, fused, sequential_scan),
    _ordered("blocks of 32", partial(blocked, 32), partial(tiled, 32), partial(scan_blocked, 32)),
    _ordered("blocks of 256", partial(blocked, 256), partial(tiled, 256), partial(scan_blocked, 256)),
    _ordered("blocks of 1024", partial(blocked, 1024), partial(tiled, 1024), partial(scan_blocked, 1024)),
    _ordered("256 threads and a tree", lanes_of(256)),
    _ordered("pairs", tree),
    _ordered("Kahan's sums", kahan),
    _ordered("sums in float64", in_double, lambda a, b: (a.double() @ b.double()).float()),
    _split("three TF32 products, tiles of 8", "honest", 2, to_tf32, THREE, 8),
    _split("three TF32 products, tiles of 16", "honest", 2, to_tf32, THREE, 16),
    _split("three TF32 products, tiles of 32", "honest", 2, to_tf32, THREE, 32),
    _split("three bfloat16 terms, six products", "honest", 3, to_bfloat16, SIX, 16),
    _split("three bfloat16 terms, nine products", "honest", 3, to_bfloat16, NINE, 16),
    _split("three products of scaled halves", "honest", 2, to_scaled_half, THREE, 16),
    _split("three TF32 products, sums cut off", "grey", 2, to_tf32, THREE, 8, keep=to_zero),
    Variant("Welford's variance", "honest", moments=welford),
    Variant("shifted one-pass variance", "honest", moments=shifted_one_pass),
    Variant("online softmax", "honest", softmax=online_softmax),
    Variant(
        "functions within 2 ulp",
        "honest",
        exp=within(2, torch.exp),
        tanh=within(2, torch.tanh),
        sigmoid=within(2, torch.sigmoid),
        erf=erf_by_erfc,
        rsqrt=within(2, torch.rsqrt),
    ),
    Variant("exp by exp2, sigmoid by exp", "honest", exp=exp_by_exp2, sigmoid=sigmoid_by_exp),
    Variant("rsqrt with one Newton step", "honest", rsqrt=rsqrt_newton),
    Variant("division by reciprocal", "honest", divide=by_reciprocal),
    Variant("tanh by exp", "grey", tanh=tanh_by_exp),
    _split("one TF32 product", "dishonest", 1, to_tf32, ONE, 8),
    _split("one TF32 product, operands cut off", "dishonest", 1, cut_to_tf32, ONE, 8),
    _split("one bfloat16 product", "dishonest", 1, to_bfloat16, ONE, 16),
    _split("one half product", "dishonest", 1, to_half, ONE, 16),
    _split("two bfloat16 terms", "dishonest", 2, to_bfloat16, THREE, 16),
    _split("two of three TF32 products", "dishonest", 2, to_tf32, ((0, 1), (0, 0)), 8),
    _split("half accumulators", "dishonest", 1, _same, ONE, 16, keep=lambda x: x.half().float()),
    Variant("half sums", "dishonest", total=_half_sum, moments=partial(two_pass, _half_sum)),
    Variant(
        "half partial sums", "dishonest", total=_half_partials, moments=partial(two_pass, _half_partials)
    ),
    Variant("bfloat16 output", "dishonest", written=to_bfloat16),
    Variant("half output", "dishonest", written=to_half),
    Variant("TF32 output", "dishonest", written=to_tf32),
    Variant("bfloat16 inputs", "dishonest", read=to_bfloat16),
    Variant("inputs up to 65504", "dishonest", read=lambda x: x.clamp(-65504, 65504)),
    _dropped("every thousandth term dropped", every_thousandth),
    _dropped("last term dropped", last),
    _dropped("tail of eight dropped", tail_of_eight),
    Variant("tanh of 11 bits", "dishonest", tanh=to_bits(11, torch.tanh)),
    Variant("exp in half", "dishonest", exp=exp_in_half),
    Variant("rsqrt of 11 bits", "dishonest", rsqrt=to_bits(11, torch.rsqrt)),
    Variant("sigmoid of 11 bits", "dishonest", sigmoid=to_bits(11, torch.sigmoid)),
    Variant("variance by n - 1 for n", "dishonest", moments=unbiased),
    Variant("plain one-pass variance", "dishonest", moments=one_pass),
    Variant("eps left out", "dishonest", eps=lambda _: 0.0),
)
# What PyTorch does by itself on a GPU: convolutions with one product of TF32.
EAGER = Variant("eager", "honest", product=partial(split, 1, to_tf32, ONE, 8))
# What these are where PyTorch itself uses TF32.
TF32_IN_CONVOLUTIONS: dict[str, Kind] = {
    "one TF32 product": "honest",
    "one TF32 product, operands cut off": "grey",
    "two bfloat16 terms": "honest",
    "two of three TF32 products": "honest",
}
