import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelblaster.judge.precision import bound, compare, exceeded


def test_equal_tensors_have_no_error() -> None:
    x = torch.randn(1000)
    errors = compare(x, x.double()).errors
    assert errors is not None and max(errors.model_dump().values()) == 0


def test_the_worst_element_is_named() -> None:
    truth = torch.randn(5000, dtype=torch.float64)
    output = truth.float()
    output[1234] += 3
    found = compare(output, truth)
    assert found.index == 1234
    assert math.isclose(found.got - found.expected, 3, rel_tol=1e-5)


def test_a_small_corner_is_seen_by_its_tile() -> None:
    truth = torch.ones(4096, dtype=torch.float64)
    truth[256:512] = 1e-9
    output = truth.float()
    output[256:512] = 0
    errors = compare(output, truth).errors
    assert errors is not None
    assert errors.rms < 1e-8 and errors.tile == pytest.approx(1.0)
    assert errors.lost == pytest.approx(256 / 4096)


@given(st.integers(1, 2000), st.floats(1e-8, 1e-1), st.integers(0, 1000))
@settings(max_examples=50)
def test_against_plain_numpy(count: int, noise: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randn(count, generator=generator, dtype=torch.float64)
    output = (truth + noise * torch.randn(count, generator=generator, dtype=torch.float64)).float()
    errors = compare(output, truth).errors
    assert errors is not None
    e, r = (output.double() - truth).numpy(), truth.numpy()
    scale = (r**2).mean() ** 0.5
    assert errors.rms == pytest.approx((e**2).mean() ** 0.5 / scale)
    assert errors.worst == pytest.approx(abs(e).max() / scale)


def test_values_that_are_not_finite() -> None:
    truth = torch.tensor([1.0, math.inf, -math.inf, math.nan], dtype=torch.float64)
    assert compare(truth.float(), truth).errors is not None
    for position, value in ((0, math.nan), (1, 1.0), (2, math.inf), (3, 0.0)):
        output = truth.float()
        output[position] = value
        found = compare(output, truth)
        assert found.errors is None and found.index == position


def test_overflow_of_the_output_type_is_not_an_error() -> None:
    truth = torch.tensor([1e6, 2.0], dtype=torch.float64)
    assert compare(truth.half(), truth).errors is not None


def test_whole_numbers_must_be_equal() -> None:
    truth = torch.arange(100)
    output = truth.clone()
    output[7] = 0
    errors = compare(output, truth).errors
    assert errors is not None and errors.rms == 0.01
    exact = compare(truth, truth).errors
    assert exceeded(errors, bound(exact, None, torch.int64, 100)) is not None


def test_bounds_grow_with_the_baseline_and_never_vanish() -> None:
    truth = torch.randn(10_000, dtype=torch.float64)
    exact = compare(truth.float(), truth).errors
    coarse = compare(truth.bfloat16().float(), truth).errors
    assert exact is not None and coarse is not None
    tight, loose = (bound(e, None, torch.float32, 10_000) for e in (exact, coarse))
    assert tight.rms >= 2**-24
    assert exceeded(coarse, tight) is not None
    assert exceeded(coarse, loose) is None
