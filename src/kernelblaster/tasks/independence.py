"""Finds which sizes of a task are independent: along them, an output depends only on inputs at the same
index.

The rows of a softmax are independent, its columns are not; of a matrix product both rows and columns are, the
K axis is not. Where a size is independent, a part of the outputs can be computed from a part of the inputs.
It is found by trying: the reference (the task's PyTorch module), run on some indices of every input, must
give the outputs at those indices.
"""

from collections.abc import Callable, Sequence
from random import Random

import torch

from kernelblaster.records import Signature, Tensor, Workload

# The outputs for these inputs, at a workload; None if the reference refuses them.
Run = Callable[[Workload, list[torch.Tensor]], list[torch.Tensor] | None]
TRIALS = 3  # choices of indices: with few of them, one may agree by chance
AGREE = 1e-5  # relative to the largest value: more than another order of summation changes


def independent_sizes(
    signature: Signature, workload: Workload, inputs: Sequence[torch.Tensor], run: Run, rng: Random
) -> tuple[str, ...]:
    """Returns the names of the independent sizes of a task with this `signature`: an output at an index along
    such a size depends only on inputs at the same index. This also holds if indices along several of these
    sizes are chosen at once. Only free sizes (those that the task lets vary) with an extent above 1 are
    tried. To try them, `run` runs the reference on parts of `inputs`, whose sizes are those of `workload`;
    `rng` draws the indices. Empty if `run` refuses the inputs."""
    free = {size.name for size in signature.sizes if size.kind == "free"}
    names = [name for name in workload.sizes if name in free and _may_be(signature, workload, name)]
    outputs = run(workload, list(inputs)) if names else None
    if outputs is None:
        return ()
    found: tuple[str, ...] = ()
    for name in names:
        trials = (
            _commutes(signature, workload, inputs, outputs, run, (*found, name), rng) for _ in range(TRIALS)
        )
        if all(trials):
            found = (*found, name)
    return found


def taken(tensor: torch.Tensor, dims: Sequence[str], chosen: dict[str, torch.Tensor]) -> torch.Tensor:
    """Returns a contiguous copy of a part of `tensor`. `dims` are the names of its dimensions; `chosen` maps
    some of these names to the indices that are taken along that dimension. Bytes are kept as they are, also
    those of booleans that are neither 0 nor 1, as in memory that nobody has written."""
    if tensor.dtype == torch.bool:
        return taken(tensor.view(torch.uint8), dims, chosen).view(torch.bool)
    for axis, name in enumerate(dims):
        if name in chosen:
            tensor = tensor.index_select(axis, chosen[name])
    return tensor.contiguous()


def put(
    target: torch.Tensor, dims: Sequence[str], chosen: dict[str, torch.Tensor], part: torch.Tensor
) -> None:
    """Writes the tensor `part` into a part of `target`, in place: the reverse of `taken`. `dims` are the
    names of all dimensions of `target`; `chosen` maps some of these names to the indices along that
    dimension. Every combination of these indices is written; other dimensions are written whole."""
    grid = [
        chosen.get(name, torch.arange(extent)).view(-1, *[1] * (len(dims) - axis - 1))
        for axis, (name, extent) in enumerate(zip(dims, target.shape, strict=True))
    ]
    target[tuple(grid)] = part


def _may_be(signature: Signature, workload: Workload, name: str) -> bool:
    """Whether the size `name` can be independent at all, by the shapes: its extent is above 1, every output
    has it exactly once, some input has it, none more than once, and no parameter has it."""
    counts = [t.dims.count(name) for t in (*signature.outputs, *signature.input_tensors)]
    every = all(tensor.dims.count(name) == 1 for tensor in signature.outputs)
    read = any(name in tensor.dims for tensor in signature.input_tensors)
    kept = any(name in tensor.dims for tensor in signature.parameters)
    return workload.sizes[name] > 1 and every and read and not kept and max(counts) == 1


def _commutes(
    signature: Signature,
    workload: Workload,
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    run: Run,
    names: Sequence[str],
    rng: Random,
) -> bool:
    """Whether the reference, run on about two thirds of the indices along the sizes `names`, in random order,
    gives the same as `outputs` (its outputs for all indices) at these indices. False if it refuses the
    smaller inputs."""
    chosen = {}
    for name in names:
        extent = workload.sizes[name]
        order = rng.sample(range(extent), extent)
        chosen[name] = torch.tensor(order[: max(1, extent - extent // 3)])
    sizes = workload.sizes | {name: len(indices) for name, indices in chosen.items()}
    part = workload.model_copy(update={"name": "below", "sizes": sizes})
    some = [taken(v, t.dims, chosen) for v, t in zip(inputs, signature.input_tensors, strict=True)]
    found = run(part, some)
    if found is None or len(found) != len(outputs):
        return False
    expected = [taken(v, t.dims, chosen) for v, t in zip(outputs, signature.outputs, strict=True)]
    pairs = zip(signature.outputs, found, expected, strict=True)
    return all(_equal(tensor, got, right) for tensor, got, right in pairs)


def _equal(tensor: Tensor, got: torch.Tensor, right: torch.Tensor) -> bool:
    if got.shape != right.shape:
        return False
    if not tensor.floating:
        return torch.equal(got, right)
    got, right = got.double(), right.double()
    scale = float(right.nan_to_num(0.0, 0.0, 0.0).abs().max()) if right.numel() else 0.0
    return torch.allclose(got, right, rtol=AGREE, atol=AGREE * scale, equal_nan=True)
