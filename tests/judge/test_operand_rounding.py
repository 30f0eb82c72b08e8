"""What PyTorch rounds to TF32: known from what it runs and how far off it is, not from words in a source."""

import pytest
import torch

from kernelblaster.devices.specs import gpu_named
from kernelblaster.judge.operand_rounding import (
    OperandRounding,
    RoundedOperands,
    decide,
    expected_rounding,
    to_tf32,
)
from kernelblaster.judge.precision import bound
from kernelblaster.judge.timing import floor_us
from kernelblaster.policies.llm.reference_words import precision
from kernelblaster.records import Floor, Task
from kernelblaster.records.evaluation import Errors
from kernelblaster.tasks.catalog import load_source

TASK = """
import torch

batch, size = 8, 64

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x):
        {forward}

def get_inputs():
    return [torch.rand(batch, {channels}, size, size)]

def get_init_inputs():
    return []
"""


def task(init: str, forward: str, channels: int = 16) -> Task:
    return load_source("t", TASK.format(init=init, forward=forward, channels=channels), "t.py")


def test_tf32_keeps_eleven_significant_bits() -> None:
    values = torch.tensor([1 + 2.0**-10, 1 + 2.0**-11 + 2.0**-20, -3.14159, 1e-30, 0.0], dtype=torch.float64)
    rounded = to_tf32(values)
    assert rounded[0] == values[0] and rounded[1] == 1 + 2.0**-10 and rounded[4] == 0
    assert ((rounded - values).abs() <= values.abs() * 2.0**-11).all()
    odd = torch.tensor([float("inf"), float("nan")], dtype=torch.float64)
    assert torch.isinf(to_tf32(odd)[0]) and torch.isnan(to_tf32(odd)[1])


def test_operands_are_rounded_only_in_the_products_asked_for() -> None:
    x, y = torch.rand(2, 8, 8, dtype=torch.float64)
    with RoundedOperands("convolutions"):
        kept = x @ y
    with RoundedOperands("products"):
        coarse = x @ y
    assert torch.equal(kept, x @ y)
    assert torch.equal(coarse, to_tf32(x) @ to_tf32(y))


@pytest.mark.parametrize(
    ("own", "convolutions", "products", "found"),
    [
        (3e-4, 3e-4, 3e-4, "convolutions"),
        (2e-6, 3e-4, 3e-4, "none"),  # Winograd in float32, at most
        (3e-4, 3e-4, 9e-4, "convolutions"),
        (9e-4, 3e-4, 9e-4, "products"),
        (3e-4, 0.0, 3e-4, "products"),  # the file allows TF32 in matrix products
        (1e-6, 0.0, 3e-4, "none"),
        (0.0, 0.0, 0.0, "none"),
    ],
)
def test_the_rounding_that_explains_the_baselines_error(
    own: float, convolutions: float, products: float, found: str
) -> None:
    assert decide(own, convolutions, products).products == found


def test_operands_that_pytorch_cuts_off_count_as_much() -> None:
    assert decide(6e-4, 3e-4, 3e-4) == OperandRounding("convolutions", 2.0)


def test_words_in_the_source_do_not_decide() -> None:
    named = task("self.conv_scale = 2.0", "return torch.matmul(x, x) * self.conv_scale  # no convolution")
    real = task("self.f = torch.nn.Conv2d(16, 32, 3)", "return self.f(x)")
    odd = task("self.f = torch.nn.Conv2d(3, 32, 3)", "return self.f(x)", channels=3)
    assert [expected_rounding(one) for one in (named, real, odd)] == ["none", "convolutions", "none"]
    assert precision(named) == precision(odd) == ", nor TF32"
    assert "except in convolutions" in precision(real)


def test_the_floor_counts_tf32_where_pytorch_uses_it() -> None:
    spec, one = gpu_named("h200"), task("pass", "return torch.matmul(x, x)")
    plain = Floor(bytes=1, certain_bytes=1, operations=10**12)
    rounded = plain.model_copy(update={"rounded": "convolutions"})
    assert floor_us(spec, one, plain) == pytest.approx(1e6 / spec.split_tflops)
    assert floor_us(spec, one, rounded) == pytest.approx(1e6 / spec.tf32_tflops)


def test_what_pytorch_rounds_at_its_own_size_may_be_rounded_where_it_does_not() -> None:
    exact, coarse = (Errors(rms=e, worst=e, tile=e, relative=e, lost=0.0) for e in (1e-7, 3e-4))
    few, many = (bound(exact, exact, torch.float32, n, 256, coarse) for n in (100, 10_000))
    assert many.rms == pytest.approx(6e-4) and few.rms == pytest.approx(15e-4)
    assert bound(exact, exact, torch.float32, 10_000, 256).rms < 1e-5
