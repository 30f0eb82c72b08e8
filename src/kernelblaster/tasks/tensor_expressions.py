"""Writes example tensors as Python expressions that make tensors of the same shape and type with similar
values, for the text of a task."""

import base64
import zlib
from collections.abc import Iterable

import torch

FEW = 64  # numbers that are written out
LIKE = '''
def _like(shape, dtype, mean, spread, low, high):
    """Normal values with these moments and bounds."""
    return (torch.randn(shape) * spread + mean).clamp(low, high).to(dtype)
'''
DECODED = """
def _decoded(text, dtype, shape):
    import base64
    import zlib

    return torch.frombuffer(bytearray(zlib.decompress(base64.b64decode(text))), dtype=dtype).reshape(shape)
"""


def drawn(tensor: torch.Tensor, extents: Iterable[int] = (), *, exact: bool = False) -> str:
    """Returns a Python expression that makes a tensor of the shape and type of `tensor`. Its values are
    random with a similar distribution or, with `exact`, equal to those of `tensor`. Integers may be indices
    into other tensors, whose sizes are `extents`. If the largest integer in `tensor` is just below one of
    these extents, integers are drawn below that extent; otherwise up to the largest integer. The expression
    may call `_like` and `_decoded`, whose definitions are the texts LIKE and DECODED of this module."""
    value = tensor.detach().cpu()
    shape, dtype = tuple(value.shape), str(value.dtype)
    if value.numel() == 0 or bool((value == value.reshape(-1)[0]).all()):
        only = value.reshape(-1)[0].item() if value.numel() else 0
        return f"torch.full({shape}, {only!r}, dtype={dtype})"
    if exact or not value.is_floating_point():
        return _pattern(value) or (_exact(value) if exact else _indices(value, extents))
    wide = value.double()
    mean, spread = float(wide.mean()), float(wide.std())
    low, high = float(wide.min()), float(wide.max())
    if not all(map(torch.isfinite, torch.tensor([mean, spread, low, high]))):
        return _exact(value)
    typed = "" if value.dtype == torch.float32 else f", dtype={dtype}"
    if low < -1 and abs(mean) < 0.2 and 0.8 < spread < 1.2:
        return f"torch.randn({shape}{typed})"
    if low >= 0 and high <= 1 and 0.25 < spread < 0.33:
        return f"torch.rand({shape}{typed})"
    return f"_like({shape}, {dtype}, {mean:.6g}, {spread:.6g}, {low:.6g}, {high:.6g})"


def _pattern(value: torch.Tensor) -> str | None:
    """An expression for a triangular mask of ones or the numbers 0, 1, 2, …, if `value` is one; else None.
    Unlike a list of values it can be changed to any size."""
    shape, dtype = tuple(value.shape), str(value.dtype)
    if value.dim() >= 2:
        ones = torch.ones(shape)
        for name, made in (("tril()", ones.tril()), ("triu()", ones.triu()), ("triu(1)", ones.triu(1))):
            if torch.equal(made.to(value.dtype), value):
                return f"torch.ones({shape}).{name}.to({dtype})"
    if value.dtype == torch.bool:
        return None
    if torch.equal(torch.arange(value.numel()).to(value.dtype).reshape(shape), value):
        return f"torch.arange({value.numel()}).to({dtype}).reshape({shape})"
    return None


def _indices(value: torch.Tensor, extents: Iterable[int]) -> str:
    """An expression that draws integers in the range of these values, or booleans with the same share of
    True. `extents` as in `drawn`."""
    shape, dtype = tuple(value.shape), str(value.dtype)
    if value.dtype == torch.bool:
        return f"torch.rand({shape}) < {float(value.double().mean()):.3g}"
    low, top = int(value.min()), int(value.max()) + 1
    bounds = [extent for extent in extents if top <= extent <= 1.1 * top + 4]
    return f"torch.randint({min(low, 0)}, {min(bounds, default=top)}, {shape}, dtype={dtype})"


def _exact(value: torch.Tensor) -> str:
    """An expression for a tensor with the same values: written out, or compressed as text if there are more
    than FEW (64)."""
    shape, dtype = tuple(value.shape), str(value.dtype)
    if value.numel() <= FEW:
        return f"torch.tensor({value.tolist()!r}, dtype={dtype})"
    data = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return f"_decoded({base64.b64encode(zlib.compress(data)).decode()!r}, {dtype}, {shape})"
