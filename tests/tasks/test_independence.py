"""Which sizes are independent, found by trying references with known ones."""

from collections.abc import Callable
from random import Random

import pytest
import torch

from kernelblaster.records import Signature, Size, Tensor, Workload
from kernelblaster.tasks.independence import independent_sizes, put, taken

Reference = Callable[..., torch.Tensor]


def found(reference: Reference, out: str, *inputs: str, parameters: str = "") -> tuple[str, ...]:
    """The independent sizes of a reference; each tensor is written as the letters of its sizes."""
    sizes = {"n": 5, "m": 6, "k": 7}
    tensors = [
        Tensor(name=f"x{i}", dtype="float32", role="input", dims=tuple(dims)) for i, dims in enumerate(inputs)
    ]
    kept = (
        (Tensor(name="w", dtype="float32", role="parameter", dims=tuple(parameters)),) if parameters else ()
    )
    signature = Signature(
        outputs=(Tensor(name="out", dtype="float32", role="output", dims=tuple(out)),),
        inputs=tuple(tensors),
        parameters=kept,
        sizes=tuple(Size(name=name, kind="free") for name in sizes),
    )
    torch.manual_seed(0)
    workload = Workload(name="small", sizes=sizes)
    values = [torch.randn(workload.shape(tensor)) for tensor in tensors]
    weights = [torch.randn(workload.shape(tensor)) for tensor in kept]

    def run(part: Workload, given: list[torch.Tensor]) -> list[torch.Tensor]:
        return [reference(*given, *weights)]

    return independent_sizes(signature, workload, values, run, Random(1))


@pytest.mark.parametrize(
    ("reference", "dims", "expected"),
    [
        (lambda x: x.softmax(1), ("nm", "nm"), ("n",)),
        (lambda x: x.relu(), ("nm", "nm"), ("n", "m")),
        (lambda a, b: a @ b, ("nm", "nk", "km"), ("n", "m")),
        (lambda x: x / x.norm(), ("nm", "nm"), ()),
        (lambda x: x.cumsum(0), ("nm", "nm"), ("m",)),
        (lambda x: x.sum(1), ("n", "nm"), ("n",)),
        (lambda x: x.flip(0), ("nm", "nm"), ("m",)),
    ],
)
def test_found_by_trying(reference: Reference, dims: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert found(reference, *dims) == expected


def test_sizes_of_parameters_are_not() -> None:
    assert found(lambda x, w: x * w, "nm", "nm", parameters="m") == ("n",)


def test_a_part_is_put_where_it_was_taken_from() -> None:
    whole = torch.arange(30.0).view(5, 6)
    chosen = {"n": torch.tensor([0, 3]), "m": torch.tensor([5, 1])}
    part = taken(whole, "nm", chosen)
    assert part.tolist() == [[5.0, 1.0], [23.0, 19.0]]
    copy = torch.zeros(5, 6)
    put(copy, "nm", chosen, part)
    assert torch.equal(taken(copy, "nm", chosen), part) and copy.count_nonzero() == 4


def test_booleans_that_nobody_wrote_keep_their_bytes() -> None:
    """PyTorch makes 1 of other bytes than 0 where it copies whole rows."""
    poison = torch.full((3, 40000), 0xFF, dtype=torch.uint8).view(torch.bool)
    for chosen in ({"a": torch.tensor([0, 2])}, {"a": torch.tensor([1]), "b": torch.arange(7)}):
        part = taken(poison, ("a", "b"), chosen)
        assert part.dtype == torch.bool and bool((part.view(torch.uint8) == 0xFF).all())
