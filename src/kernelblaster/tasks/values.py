"""Writes values into a task's tensors for verification: drawn from the task's own values, in several
arrangements, on any device.

Every value comes from a pool sampled from what `get_inputs()` returns (or from the declared distribution of a
CUDA-source task). The same seed gives the same values for any storage type. Large tensors are written piece
by piece, so filling needs little memory.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from kernelblaster.records import Tensor, Workload
from kernelblaster.tasks.arrangements import arranged, whole
from kernelblaster.tasks.distributions import Distribution
from kernelblaster.tasks.row_values import RowValues

POOL = 1 << 18
PIECE = 1 << 24
ALONE = 64  # values that stand for a single one


@dataclass(frozen=True)
class ValuePool:
    """A sorted sample of a tensor's values, from which new values are drawn. `triangle`: only this triangle
    of the last two dimensions has values, all else is zero; None: any element may have one. `bound` is for
    values that are indices: the name of the size that they must stay below. It is None for all other
    values. `capped`: it is not sure that they are indices into that size, and they never exceed the largest
    of the sample either."""

    values: torch.Tensor
    triangle: Literal["upper", "lower"] | None = None
    bound: str | None = None
    capped: bool = False

    def below(self, workload: Workload) -> int | None:
        """The number that all values stay below at `workload`; None if there is none."""
        if self.bound is None:
            return None
        size = workload.sizes[self.bound]
        return min(size, int(self.values[-1]) + 1) if self.capped else size


def pool_of(value: torch.Tensor, tensor: Tensor, workload: Workload) -> ValuePool:
    """Returns a pool with the values of `value`, the example of the input or parameter `tensor` in the file;
    a random sample of 262,144 of them (POOL) if it has more. If it is a single floating-point number, the
    pool has values from half of it to itself, since one value would not show whether a kernel reads it.
    `workload` gives the sizes at which the example was made."""
    flat = value.reshape(-1)
    if flat.numel() == 1 and flat.is_floating_point():
        flat = flat * torch.linspace(0.5, 1, ALONE, device=flat.device, dtype=flat.dtype)
    if flat.numel() > POOL:
        flat = flat[torch.randint(flat.numel(), (POOL,), device=flat.device)]
    triangle = _triangle(value)
    if triangle:
        flat = flat[flat != 0]
    return ValuePool(torch.sort(flat).values, triangle, *_bound(value, tensor, workload))


def pool_from_distribution(text: str, dtype: torch.dtype, device: torch.device) -> ValuePool:
    """Returns a pool of values of type `dtype` on `device` for the distribution that a CUDA source declares,
    `text`: "normal" (standard), "uniform" (0 to 1), "positive" (0.1 to 2), "bool", or "below N" for integers
    from 0, where N is a number or the name of a size."""
    if text.startswith("below"):
        bound = text.removeprefix("below ").strip()
        top = int(bound) if bound.isdigit() else POOL
        values = torch.arange(min(top, POOL), device=device).to(dtype)
        return ValuePool(values, bound=None if bound.isdigit() else bound)
    if text == "bool":
        return ValuePool(torch.tensor([0, 1], device=device).to(dtype))
    uniform = torch.rand(POOL, device=device, dtype=torch.float32)
    drawn = {
        "normal": torch.randn(POOL, device=device, dtype=torch.float32),
        "uniform": uniform,
        "positive": 0.1 + 1.9 * uniform,
    }[text]
    return ValuePool(torch.sort(drawn.to(dtype)).values)


def fill(
    target: torch.Tensor, pool: ValuePool, distribution: Distribution, workload: Workload, seed: int
) -> None:
    """Writes values drawn from a pool into `target`, which is contiguous; its floating-point type may differ
    from the pool's. `distribution` says how the values are arranged in the tensor or changed; it must be one
    that the module accepts. Values that are indices stay below the extent that `workload` has for the size
    `pool.bound`. The same seed gives the same values."""
    flat = target.view(-1)
    generator = torch.Generator(target.device).manual_seed(seed)
    bound = pool.below(workload)
    for start in range(0, flat.numel(), PIECE):
        piece = flat[start : start + PIECE]
        rows = RowValues(start, piece.numel(), tuple(target.shape), seed, target.device)
        if pool.values.is_floating_point():
            values = arranged(pool.values, distribution, rows, generator)
        else:
            values = whole(pool.values, distribution, rows, generator, bound)
        piece.copy_(values)
    if pool.triangle == "upper":
        target.triu_()
    elif pool.triangle == "lower":
        target.tril_()


def equalize(tensors: list[torch.Tensor]) -> None:
    """Makes floating tensors of equal shape equal, in place: copies the values of the first one of each shape
    in `tensors` to all others of that shape."""
    first: dict[tuple[int, ...], torch.Tensor] = {}
    for tensor in tensors:
        if tensor.is_floating_point():
            model = first.setdefault(tuple(tensor.shape), tensor)
            if model is not tensor:
                tensor.copy_(model)


def perturb(target: torch.Tensor, original: torch.Tensor, seed: int, strength: float = 1.0) -> None:
    """Writes random values near those of `original`, a parameter of the module, into `target`; `seed`
    determines them. With `strength` 1 they are moved by about half of the standard deviation of `original`,
    with 2 by twice as much. If all values of `original` are positive, each is multiplied by a random positive
    factor instead, so all stay positive. Integers are copied unchanged; `shuffle` permutes those."""
    generator = torch.Generator(target.device).manual_seed(seed)
    if not original.is_floating_point():
        target.copy_(original)
        return
    noise = torch.randn(original.shape, generator=generator, device=target.device, dtype=torch.float32)
    values = original.to(device=target.device, dtype=torch.float32)
    if bool((values > 0).all()):
        result = values * torch.exp(0.4 * strength * noise.clamp(-2, 2))
    else:
        spread = float(values.std()) if values.numel() > 1 else 0.0
        result = values + 0.5 * strength * max(spread, 0.1 * float(values.abs().mean()), 0.05) * noise
    target.copy_(result.to(original.dtype))


def shuffle(target: torch.Tensor, original: torch.Tensor, seed: int) -> None:
    """Writes the elements of `original`, a parameter of the module, into `target` in a random order,
    determined by `seed`. This is for integer parameters: no values other than their own are known to be
    valid."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(original.numel(), generator=generator).to(original.device)
    target.copy_(original.reshape(-1)[order].view(original.shape))


def _triangle(value: torch.Tensor) -> Literal["upper", "lower"] | None:
    """Whether a tensor is triangular: "upper" or "lower" if only that triangle of the last two dimensions,
    with the diagonal, is not zero; else None. Looks at the first 256 rows and columns only; None below 8 of
    either."""
    if value.dim() < 2 or min(value.shape[-2:]) < 8:
        return None
    corner = value.reshape(-1, *value.shape[-2:])[0][:256, :256]
    zero = corner == 0
    upper = torch.ones_like(zero).triu(1)
    lower = torch.ones_like(zero).tril(-1)
    if bool(zero[lower].all()) and not bool(zero[upper].all()):
        return "upper"
    if bool(zero[upper].all()) and not bool(zero[lower].all()):
        return "lower"
    return None


def _bound(value: torch.Tensor, tensor: Tensor, workload: Workload) -> tuple[str | None, bool]:
    """The name of the size that bounds an integer tensor's values, if they look like indices, and whether it
    is no more than a guess: the smallest size at most a tenth above the largest value. A dimension of the
    tensor itself is the guess, made where no other size will do and no value is negative. None if there is
    none."""
    if value.is_floating_point() or value.dtype == torch.bool or value.numel() == 0:
        return None, False
    largest, guess = int(value.max()), int(value.min()) >= 0
    above = sorted(
        (name in tensor.dims, extent, name)
        for name, extent in workload.sizes.items()
        if largest < extent <= largest * 1.1 + 4 and (guess or name not in tensor.dims)
    )
    return (above[0][2], above[0][0]) if above else (None, False)
